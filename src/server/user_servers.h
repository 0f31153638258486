// Servers of several users behind one Unix socket: a process for each, with that user's rights and no others.
//
// The process that listens belongs to root. It asks the system who is at the other end of a connection (SO_PEERCRED),
// and passes the connection to that user's process. It reads nothing that a client sends, and opens no file of
// theirs. A user's process begins with the first connection; it ends when this object does, or by itself: then the next
// connection begins another.
//
// Thread-safety: one thread, and the process has no other one, as it forks. Blocking: as each call says. Source:
// setuid(2), initgroups(3), unix(7).
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/status.h"
#include "io/socket.h"
#include "server/session.h"

namespace forebay::server {

class UserServers {
  public:
    struct Setup {
        std::optional<std::set<uid_t>> users;   // who is admitted; none: everybody
        std::string nls;                        // each gets a staging area there, which need not be writable for all
        // In a user's process: serves until the listener has no more connections; returns its exit status.
        std::function<int(std::unique_ptr<io::Listener> passed)> serve;
        Report report;
    };
    explicit UserServers(Setup setup) : setup_(std::move(setup)) {}
    // Waits for the ends of all: they end once the files that are written are closed.
    ~UserServers();
    UserServers(const UserServers&) = delete;
    UserServers& operator=(const UserServers&) = delete;

    // Until `wake` is readable. Blocks.
    [[nodiscard]] Status run(io::Listener& listener, int wake);

  private:
    struct Process {
        pid_t pid = 0;
        int channel = -1;
    };
    [[nodiscard]] Status hand_over(const io::Socket& connection, io::Listener& listener);
    [[nodiscard]] Result<Process*> process_of(uid_t user, const io::Socket& connection, io::Listener& listener);
    void forget_ended() noexcept;

    const Setup setup_;
    std::map<uid_t, Process> processes_;
};

// "all", or names and numbers of users with commas between. kNotFound: there is no such user.
[[nodiscard]] Result<std::optional<std::set<uid_t>>> parse_users(const std::string& text);

}   // namespace forebay::server
