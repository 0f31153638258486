// A client's recovery from the loss of its staging server. The client waits for a server at the same address, or brings
// the file to its last commit itself. Thread-safety: one thread at a time. Blocking: `connect` until the server has
// answered, `await_server` for the patience, `recover_file` as recovery does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/socket.h"
#include "wire/client_session.h"

namespace forebay::wire {

class Failover {
  public:
    struct Setup {
        io::Address server;
        std::uint64_t patience_s = 600;   // 0: without limit
        // Returns true if this machine sees the directory `log` of a living server. Null means never.
        std::function<bool(const std::string& log)> sees = {};
        // Brings the file to its last commit with the log that a server has left in `log`. Called only if `sees`
        // returned true while the server lived. `why` is the reason for which the client then writes the file without a
        // server. Fails if that server may live, if its log is unusable, or if `writer` (wire::Open) is not the file's
        // last writer.
        std::function<Status(const std::string& log, std::uint64_t writer, const Status& why)> recover_file = {};
        std::weak_ptr<io::Descriptor> lock{};   // the descriptor by which the client has the file locked, or will have
        std::shared_ptr<const std::atomic<bool>> holds_lock{};   // while it is locked for writing; null: never
    };
    explicit Failover(Setup setup) : setup_(std::move(setup)), server_(io::format_address(setup_.server)) {}

    // Works like open_session. With `message.continues`, kUnsupported: the server may lack what this client has
    // flushed, or, with ESTALE, another program has opened the file for writing since.
    [[nodiscard]] Result<ClientSession> connect(const Open& message, bool* unanswered = nullptr);
    // Calls `attempt` each time a server may have come, until it succeeds or the patience ends. Returns the last error
    // at once if a wait cannot help: a server that refuses the file will refuse it again.
    [[nodiscard]] Status await_server(const std::function<Status()>& attempt);
    [[nodiscard]] bool holds_lock() const noexcept { return setup_.holds_lock != nullptr && *setup_.holds_lock; }
    [[nodiscard]] bool may_recover_file() const { return log_seen_ && setup_.recover_file; }
    // Brings the file to its last commit. Returns kUnsupported if the server's log cannot be reached from here.
    [[nodiscard]] Status recover_file(std::uint64_t writer, const Status& why);

    [[nodiscard]] const std::string& server() const noexcept { return server_; }
    [[nodiscard]] const std::string& log() const noexcept { return log_; }   // empty: unknown
    [[nodiscard]] bool is_local() const noexcept { return !setup_.server.path.empty(); }

  private:
    const Setup setup_;
    const std::string server_;
    std::string log_;
    bool log_seen_ = false;
};

}   // namespace forebay::wire
