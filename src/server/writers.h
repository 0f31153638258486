// The clients that write one file, for the writes to its target: it decides whether a write may begin, and reports
// progress to the clients. Thread-safety: all calls from any thread. `wrote` may send a frame. It does so only between
// the beginning of a request and its answer, when the session's thread sends none, and only without blocking.
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
    // `lock` is HDF5's lock of a client, and `connection` its session. Both are null for a team, which locks nothing.
    explicit Writers(std::unique_ptr<io::HandedLock> lock, wire::Connection* connection = nullptr) noexcept
        : lock_(std::move(lock)), connection_(connection) {}

    // Checks before a target write. EBUSY: the client is gone, and another process has locked the file.
    [[nodiscard]] Status may_write() noexcept;
    // Tells clients with long requests, about once a second, that bytes have reached the target.
    using TimePoint = std::chrono::steady_clock::time_point;
    void wrote(TimePoint now = std::chrono::steady_clock::now()) noexcept;
    // Takes over the lock of an ended session. Returns false if another process still has it after `at_most`.
    [[nodiscard]] bool gone(std::chrono::milliseconds at_most = std::chrono::milliseconds(0)) noexcept;
    // Ends the lock, after the client has closed the file and all writes are done.
    void closed() noexcept;

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
    std::vector<Waiting> waiting_;   // guarded by mutex_
};

}   // namespace forebay::server
