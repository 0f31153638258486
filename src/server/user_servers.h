// Servers of several users behind one address: a process for each, with that user's rights and no others.
//
// The process that listens belongs to root. It reads nothing that a client sends, and opens no file of theirs. On one
// machine it asks the system who is at the other end of a connection. What comes from another machine it passes unread
// to a process of kIdentifiers (wire/proof.h), which has no rights and says whose process the client wants
// (newcomers.h). It passes the connection on to that user's process, which demands the proof, as any server does. So
// nothing that strangers send is read with root's rights, and a wrong word of that process lets nobody in.
//
// A user's process begins with the first connection; it ends when this object does, or by itself: then the next
// connection begins another, and until it has ended the user's clients are refused. One that cannot begin tells the
// clients why that wait for it.
//
// Thread-safety: one thread, and the process has no other one, as it forks. Blocking: as each call says. Source:
// setuid(2), initgroups(3), unix(7).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/socket.h"
#include "server/session.h"
#include "wire/credentials.h"

namespace forebay::server {

class UserServers {
  public:
    // Serves until the listener has no more connections; returns the process's exit status.
    using Serve = std::function<int(std::unique_ptr<io::Listener> passed)>;
    struct Setup {
        std::optional<std::set<uid_t>> users;     // who is admitted; none: everybody, but no root of another machine
        std::string nls;                          // each gets a staging area there, which need not be writable for all
        std::function<Result<Serve>()> prepare;   // in a user's process, before it takes clients
        // In the process of kIdentifiers, once; empty: there are no clients on other machines.
        std::function<Result<std::shared_ptr<wire::Credentials>>()> credentials;
        Report report;
    };
    explicit UserServers(Setup setup) : setup_(std::move(setup)) {}
    // Waits for the ends of all: they end once the files that are written are closed.
    ~UserServers();
    UserServers(const UserServers&) = delete;
    UserServers& operator=(const UserServers&) = delete;

    // With clients on other machines: until it is known that they can be asked who they are. Whatever `credentials`
    // fails with: they cannot.
    [[nodiscard]] Status try_identifying(io::Listener& listener);
    // Until `wake` is readable. Blocks.
    [[nodiscard]] Status run(io::Listener& listener, int wake);

  private:
    struct Process {
        pid_t pid = 0;
        int channel = -1;
        std::optional<uid_t> user{};   // none: that of kIdentifiers
    };
    enum class Where : bool { kHere, kElsewhere };   // the client
    void hear_of_newcomer(io::Listener& listener);
    void admit(const Result<std::uint32_t>& user, Where where, const io::Socket& connection, io::Listener& listener);
    [[nodiscard]] Status check_admitted(uid_t user, Where where) const;
    [[nodiscard]] Status hand_over(uid_t user, const io::Socket& connection, io::Listener& listener);
    // `refusal`: what the client is told; empty: it is asked who it is.
    void pass_to_newcomers(const io::Socket& connection, const std::string& refusal, io::Listener& listener);
    [[nodiscard]] Status begin_newcomers(const io::Socket* connection, io::Listener& listener);
    [[nodiscard]] Result<Process*> process_of(uid_t user, const io::Socket& connection, io::Listener& listener);
    // `connection`: what the process's first client has come by, or null.
    [[nodiscard]] Status begin(Process& process, const io::Socket* connection, io::Listener& listener,
                               const std::function<int(int channel)>& carry_out);
    void let_end(Process& process);
    void forget_ended() noexcept;
    void report(const std::string& line) const noexcept;

    const Setup setup_;
    std::map<uid_t, Process> processes_;
    std::vector<Process> ending_;   // they take no more connections
    Process newcomers_;             // of kIdentifiers
};

// "all", or names and numbers of users with commas between. kNotFound: there is no such user.
[[nodiscard]] Result<std::optional<std::set<uid_t>>> parse_users(const std::string& text);

}   // namespace forebay::server
