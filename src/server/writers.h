// The clients that write one file, for the writes to its target: it decides whether a write may begin, and reports
// progress to the clients. Invariant: the server changes the target only while a client of the file is connected, or
// while it or a client has HDF5's lock of it. A recovery also takes that lock. On a file system without locks, recovery
// and writes go on without it. A team locks nothing while it lives, as an MPI program. After its end the server takes
// the lock, as for any client. Thread-safety: all
// calls from any thread. `wrote` may send a frame. It does so only between the beginning of a request and its answer,
// when the session's thread sends none, and only without blocking.
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
    // `lock` is HDF5's lock of the file. Null is for tests, in which every write may begin.
    explicit Writers(std::unique_ptr<io::HandedLock> lock) noexcept : lock_(std::move(lock)) {}

    // Checks before a target write. EBUSY: all clients are gone, and another process has locked the file.
    [[nodiscard]] Status may_write() noexcept;
    // Tells clients with long requests, about once a second, that bytes have reached the target.
    using TimePoint = std::chrono::steady_clock::time_point;
    void wrote(TimePoint now = std::chrono::steady_clock::now()) noexcept;
    // Takes over the lock after the last session. Returns false if another process still has it after `at_most`.
    [[nodiscard]] bool gone(std::chrono::milliseconds at_most = std::chrono::milliseconds(0)) noexcept;
    // Ends the lock, after the clients have closed the file and all writes are done.
    void closed() noexcept;

    // A client's session, from its open of the file until its end.
    class Client {
      public:
        Client(Writers& writers, wire::Connection& connection);
        ~Client();
        Client(const Client&) = delete;
        Client& operator=(const Client&) = delete;

      private:
        Writers& writers_;
        wire::Connection& connection_;
    };

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
    std::vector<wire::Connection*> clients_;   // guarded by mutex_
    std::vector<Waiting> waiting_;             // guarded by mutex_
};

}   // namespace forebay::server
