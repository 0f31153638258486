// The clients that write one file, as the writes to its target see them: whether one may begin, and who hears of one
// that has ended.
//
// Thread-safety: all calls from any thread. `wrote` may send a frame: only between the beginning of a request and its
// answer, when the session's own thread sends none, and only where the system takes it at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "io/handed_lock.h"
#include "wire/connection.h"

namespace forebay::server {

class Writers {
  public:
    // `lock`: HDF5's lock that a client has, and `connection` that client's session; null: a team writes the file,
    // whose members lock nothing.
    explicit Writers(std::unique_ptr<io::HandedLock> lock, wire::Connection* connection = nullptr) noexcept
        : lock_(std::move(lock)), connection_(connection) {}

    // Before anything is written to the target. EBUSY: the client is gone, and another process has the file locked, so
    // it is left alone.
    [[nodiscard]] Status may_write() noexcept;
    // Something has reached the target: clients whose requests take long are told, about once a second.
    using TimePoint = std::chrono::steady_clock::time_point;
    void wrote(TimePoint now = std::chrono::steady_clock::now()) noexcept;
    // The client's session has ended: the server has its lock from now on. False: another process has it, and still has
    // it so much later.
    [[nodiscard]] bool gone(std::chrono::milliseconds at_most = std::chrono::milliseconds(0)) noexcept;
    // Nothing is written any more, and the client has closed the file.
    void closed() noexcept;

    // A request that is being carried out.
    class Request {
      public:
        Request(Writers& writers, wire::Connection& connection, std::uint64_t number);
        ~Request();
        Request(const Request&) = delete;
        Request& operator=(const Request&) = delete;

      private:
        Writers& writers_;
    };

  private:
    struct Waiting {
        const Request* request;
        wire::Connection* connection;
        std::uint64_t number;
        TimePoint told;
    };
    const std::unique_ptr<io::HandedLock> lock_;
    std::mutex mutex_;
    wire::Connection* connection_;   // guarded by mutex_; null: its session has ended
    std::vector<Waiting> waiting_;   // the same
};

}   // namespace forebay::server
