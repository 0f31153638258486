#include "server/user_servers.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "area/staging_area.h"
#include "base/attempt.h"
#include "io/owned_directory.h"

namespace forebay::server {

namespace {

struct Account {
    std::string name;
    gid_t group = 0;
};

// Nothing: no database knows the user.
std::optional<Account> account_of(uid_t user) {
    std::vector<char> room(16 * 1024);
    passwd entry{};
    passwd* found = nullptr;
    while (::getpwuid_r(user, &entry, room.data(), room.size(), &found) == ERANGE) room.resize(2 * room.size());
    if (found == nullptr) return std::nullopt;
    return Account{entry.pw_name, entry.pw_gid};
}

// For good: the process cannot take anything else again.
Status take_rights_of(uid_t user, const Account& account) {
    const std::string doing = fmt::format("take the rights of user {}", user);
    if (::initgroups(account.name.c_str(), account.group) != 0 ||
        ::setresgid(account.group, account.group, account.group) != 0 || ::setresuid(user, user, user) != 0)
        return Status::from_errno(errno, doing);
    if (user != 0 && (::setuid(0) == 0 || ::geteuid() != user)) return {Code::kInternal, doing + ": they can be left"};
    return Status::ok();
}

}   // namespace

UserServers::~UserServers() {
    for (auto& [user, process] : processes_) ::close(process.channel);
    for (auto& [user, process] : processes_)
        while (::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
        }
}

void UserServers::forget_ended() noexcept {
    std::erase_if(processes_, [](const auto& each) {
        if (::waitpid(each.second.pid, nullptr, WNOHANG) == 0) return false;
        ::close(each.second.channel);
        return true;
    });
}

Result<UserServers::Process*> UserServers::process_of(uid_t user, const io::Socket& connection,
                                                      io::Listener& listener) {
    forget_ended();
    if (const auto found = processes_.find(user); found != processes_.end()) return &found->second;
    const auto account = account_of(user);
    if (!account) return Status(Code::kPermissionDenied, fmt::format("this machine knows no user {}", user));
    // As open_staging_area wants it to be.
    const std::string area = fmt::format("{}/{}{}", setup_.nls, area::kStagingFolderPrefix, user);
    FOREBAY_TRY(io::make_owned_directory(area, user, account->group));
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return Status::from_errno(errno, "make a channel");
    Process* made = nullptr;   // before it begins, so that it is known whatever happens
    const Status known = attempt([&] {
        made = &processes_.emplace(user, Process{0, ends[0]}).first->second;
        return Status::ok();
    });
    const pid_t pid = known ? ::fork() : -1;
    if (pid < 0) {
        const Status failed = known ? Status::from_errno(errno, "begin a process") : known;
        processes_.erase(user);
        for (const int end : ends) ::close(end);
        return failed;
    }
    if (pid == 0) {
        // What this process has is the parent's, but for its end of the channel.
        ::close(connection.number());   // it comes through the channel
        listener.leave_to_parent();
        for (const auto& [other, process] : processes_) ::close(process.channel);
        int status = 1;
        const Status outcome = attempt([&] {
            FOREBAY_TRY(take_rights_of(user, *account));
            status = setup_.serve(io::Listener::of_passed(ends[1]));
            return Status::ok();
        });
        if (!outcome) setup_.report(outcome.message());
        ::_exit(status);
    }
    ::close(ends[1]);
    made->pid = pid;
    return made;
}

Status UserServers::hand_over(const io::Socket& connection, io::Listener& listener) {
    const auto user = connection.peer_user();
    if (!user) return user.status();
    if (setup_.users && !setup_.users->contains(user.value()))
        return {Code::kPermissionDenied, fmt::format("user {} is not admitted (--users)", user.value())};
    const auto process = process_of(user.value(), connection, listener);
    return process ? io::Listener::pass(process.value()->channel, connection) : process.status();
}

Status UserServers::run(io::Listener& listener, int wake) {
    for (;;) {
        const auto connection = listener.accept(wake);
        if (!connection && !connection.status().retryable()) return connection.status();
        if (connection && connection.value() == nullptr) return Status::ok();
        const Status handed = attempt([&] {
            return connection ? hand_over(*connection.value(), listener) : connection.status();
        });
        if (!handed) setup_.report("a client was not admitted: " + handed.message());
    }
}

Result<std::optional<std::set<uid_t>>> parse_users(const std::string& text) {
    if (text == "all") return std::optional<std::set<uid_t>>();
    std::set<uid_t> users;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string name = text.substr(begin, end - begin);
        begin = end + 1;
        uid_t number = 0;
        const auto [rest, failed] = std::from_chars(name.data(), name.data() + name.size(), number);
        if (failed != std::errc() || rest != name.data() + name.size()) {
            const passwd* const found = name.empty() ? nullptr : ::getpwnam(name.c_str());   // before any thread
            if (found == nullptr) return Status(Code::kNotFound, fmt::format("there is no user '{}'", name));
            number = found->pw_uid;
        }
        users.insert(number);
    }
    return std::optional(std::move(users));
}

}   // namespace forebay::server
