// What a client does when its staging server is lost: it waits for a server at the same address, or it brings the file
// to its last commit itself.
//
// Thread-safety: one thread at a time. Blocking: `connect` until the server has answered, `await_server` for the
// patience, `recover_file` as recovery does.
#pragma once

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
        std::uint64_t patience_s = 600;   // 0: without end
        // Whether this machine sees the directory `log` of a server that lives. Null: it never does.
        std::function<bool(const std::string& log)> sees = {};
        // Brings the file to its last commit with the log that a server has left in `log`. Called only if `sees` said
        // yes while the server lived. `why`: the reason for which the file is written without a server from then on. An
        // error: that server may live, or its log cannot be used.
        std::function<Status(const std::string& log, const Status& why)> recover_file = {};
        // Whether a lost server's log in `log` still has bytes of the file.
        std::function<bool(const std::string& log)> left = {};
        std::weak_ptr<io::Descriptor> lock{};   // through which the client has the file locked, or will
    };
    explicit Failover(Setup setup) : setup_(std::move(setup)), server_(io::format_address(setup_.server)) {}

    // As open_session. kUnsupported: a new server has not recovered the bytes in its predecessor's log.
    [[nodiscard]] Result<ClientSession> connect(const Open& message, bool* unanswered = nullptr);
    // Calls `attempt` each time a server may have come, until it succeeds or the patience ends. Returns its last error
    // at once if waiting cannot help: a server that answers and refuses the file will refuse it again.
    [[nodiscard]] Status await_server(const std::function<Status()>& attempt);
    [[nodiscard]] bool may_recover_file() const { return log_seen_ && setup_.recover_file; }
    // Brings the file to its last commit. kUnsupported: the server's log cannot be reached from here.
    [[nodiscard]] Status recover_file(const Status& why);

    [[nodiscard]] const std::string& server() const noexcept { return server_; }   // its address
    [[nodiscard]] const std::string& log() const noexcept { return log_; }         // empty: unknown
    [[nodiscard]] bool is_local() const noexcept { return !setup_.server.path.empty(); }

  private:
    const Setup setup_;
    const std::string server_;
    std::string log_;   // the directory of the log of the server that was connected last
    bool log_seen_ = false;
};

}   // namespace forebay::wire
