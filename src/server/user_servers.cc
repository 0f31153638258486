#include "server/user_servers.h"

#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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
#include "io/passed_socket.h"
#include "server/newcomers.h"
#include "wire/proof.h"

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

// For good, too, and no program that it starts gets any.
Status take_no_rights() {
    constexpr uid_t kNobody = wire::kIdentifiers;
    if (::setgroups(0, nullptr) != 0 || ::setresgid(kNobody, kNobody, kNobody) != 0 ||
        ::setresuid(kNobody, kNobody, kNobody) != 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return Status::from_errno(errno, "give up root's rights");
    if (::setuid(0) == 0 || ::geteuid() != kNobody) return {Code::kInternal, "root's rights can be taken again"};
    return Status::ok();
}

// What a user's process does that cannot serve. Who comes from now on gets another one.
void refuse_all(int channel, const Status& why, const Report& report) {
    report(why.message());
    io::take_no_more(channel);
    const Status told = attempt([&] { return Newcomers(channel, {.refusal = why.message(), .report = report}).run(); });
    if (!told) report(told.message());
}

// One that was killed has closed its channel a moment before it can be waited for. One that has more to do is not
// waited for.
void await_death(pid_t process) noexcept {
    constexpr int kMomentMs = 100;
    const int number = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
    if (number < 0) return;
    pollfd look{number, POLLIN, 0};
    (void)::poll(&look, 1, kMomentMs);
    ::close(number);
}

bool takes_no_more(const Status& passed) { return passed.sys_errno() == EPIPE || passed.sys_errno() == ECONNRESET; }

}   // namespace

UserServers::~UserServers() {
    if (newcomers_.channel >= 0) ::close(newcomers_.channel);
    for (auto& [user, process] : processes_) ::close(process.channel);
    const auto await_end = [](const Process& process) {
        while (process.pid > 0 && ::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
        }
    };
    for (auto& [user, process] : processes_) await_end(process);
    for (const Process& process : ending_) await_end(process);
    await_end(newcomers_);
}

void UserServers::forget_ended() noexcept {
    std::erase_if(processes_, [](const auto& each) {
        if (::waitpid(each.second.pid, nullptr, WNOHANG) == 0) return false;
        ::close(each.second.channel);
        return true;
    });
    std::erase_if(ending_, [](const Process& each) { return ::waitpid(each.pid, nullptr, WNOHANG) != 0; });
}

void UserServers::let_end(Process& process) {
    await_death(process.pid);
    ending_.push_back(process);
    ::close(std::exchange(process.channel, -1));
    process.pid = 0;
}

// A child never comes back from what reports, either.
void UserServers::report(const std::string& line) const noexcept {
    (void)attempt([&] {
        setup_.report(line);
        return Status::ok();
    });
}

Status UserServers::begin(Process& process, const io::Socket* connection, io::Listener& listener,
                          const std::function<int(int channel)>& carry_out) {
    const auto ends = io::make_channel();
    if (!ends) return ends.status();
    const auto [ours, theirs] = ends.value();
    const pid_t pid = ::fork();
    if (pid < 0) {
        const Status failed = Status::from_errno(errno, "begin a process");
        for (const int end : ends.value()) ::close(end);
        return failed;
    }
    if (pid > 0) {
        ::close(theirs);
        process.pid = pid;
        process.channel = ours;
        return Status::ok();
    }
    // What this process has is the parent's, but for its end of the channel.
    ::close(ours);
    if (connection != nullptr) ::close(connection->number());   // it comes through the channel
    listener.leave_to_parent();
    for (const auto& [other, its] : processes_)
        if (its.channel >= 0) ::close(its.channel);
    if (newcomers_.channel >= 0) ::close(newcomers_.channel);
    int status = 1;
    const Status outcome = attempt([&] { status = carry_out(theirs); });
    if (!outcome) report(outcome.message());
    ::_exit(status);
}

Result<UserServers::Process*> UserServers::process_of(uid_t user, const io::Socket& connection,
                                                      io::Listener& listener) {
    forget_ended();
    if (const auto found = processes_.find(user); found != processes_.end()) return &found->second;
    // Two of them would know nothing of each other's files. It also bounds how many a user has.
    if (std::ranges::any_of(ending_, [&](const Process& each) { return each.user == user; }))
        return Status(Code::kUnavailable, fmt::format("the process of user {} is about to end: try again then", user));
    const auto account = account_of(user);
    if (!account) return Status(Code::kPermissionDenied, fmt::format("this machine knows no user {}", user));
    // As open_staging_area wants it to be.
    const std::string area = fmt::format("{}/{}{}", setup_.nls, area::kStagingFolderPrefix, user);
    FOREBAY_TRY(io::make_owned_directory(area, user, account->group));
    Process& made = processes_[user];   // before it begins, so that it is known whatever happens
    const Status begun = begin(made, &connection, listener, [&](int channel) {
        const Status rights = take_rights_of(user, *account);
        if (!rights && !take_no_rights()) return 1;   // with root's it tells nobody anything
        const auto serve = rights ? setup_.prepare() : Result<Serve>(rights);
        if (serve) return serve.value()(io::Listener::of_passed(channel));
        refuse_all(channel, serve.status(), setup_.report);
        return 1;
    });
    made.user = user;
    if (begun) return &made;
    processes_.erase(user);
    return begun;
}

Status UserServers::hand_over(uid_t user, const io::Socket& connection, io::Listener& listener) {
    for (bool again = false;; again = true) {
        const auto process = process_of(user, connection, listener);
        if (!process) return process.status();
        const Status passed = io::pass(process.value()->channel, &connection, "");
        if (passed.sys_errno() == EAGAIN)
            return {Code::kUnavailable, fmt::format("the process of user {} does not take more clients", user)};
        if (!takes_no_more(passed) || again) return passed;
        let_end(*process.value());
        processes_.erase(user);
    }
}

Status UserServers::check_admitted(uid_t user, Where where) const {
    if (setup_.users && !setup_.users->contains(user))
        return {Code::kPermissionDenied, fmt::format("user {} is not admitted (--users)", user)};
    // Who is root of one machine need not be root of all.
    if (!setup_.users && user == 0 && where == Where::kElsewhere)
        return {Code::kPermissionDenied, "root of another machine is not admitted unless --users names it"};
    return Status::ok();
}

void UserServers::admit(const Result<std::uint32_t>& user, Where where, const io::Socket& connection,
                        io::Listener& listener) {
    const Status refusal = attempt([&]() -> Status {
        if (!user) return user.status();
        FOREBAY_TRY(check_admitted(user.value(), where));
        return hand_over(user.value(), connection, listener);
    });
    if (refusal) return;
    report("a client was not admitted: " + refusal.message());
    pass_to_newcomers(connection, refusal.message(), listener);
}

void UserServers::pass_to_newcomers(const io::Socket& connection, const std::string& refusal, io::Listener& listener) {
    const Status outcome = attempt([&]() -> Status {
        for (bool again = false;; again = true) {
            if (newcomers_.channel < 0) FOREBAY_TRY(begin_newcomers(&connection, listener));
            Status passed = io::pass(newcomers_.channel, &connection, refusal);
            if (!takes_no_more(passed) || again) return passed;
            let_end(newcomers_);
        }
    });
    if (!outcome) report("a client was not told why it is not admitted: " + outcome.message());
}

// It never serves anybody, so whoever is there when it fails is told why, and the next client gets another one.
Status UserServers::begin_newcomers(const io::Socket* connection, io::Listener& listener) {
    forget_ended();
    return begin(newcomers_, connection, listener, [this](int channel) {
        Newcomers::Setup setup{.report = setup_.report};
        const Status rights = take_no_rights();
        Status able = rights;
        if (able && setup_.credentials) {
            auto credentials = setup_.credentials();
            if (credentials) setup.credentials = std::move(credentials).value();
            able = credentials.status();
        }
        if (!able) setup.refusal = able.message();
        const Status told = io::pass(channel, nullptr, setup.refusal, io::Waits::kYes);
        if (!rights || !told) return 1;
        const Status ended = Newcomers(channel, std::move(setup)).run();
        if (!ended) report(ended.message());
        return ended ? 0 : 1;
    });
}

Status UserServers::try_identifying(io::Listener& listener) {
    FOREBAY_TRY(begin_newcomers(nullptr, listener));
    const auto said = io::receive_passed(newcomers_.channel);
    if (!said) return said.status();
    if (!said.value()) return {Code::kUnavailable, "the process that asks clients who they are has ended"};
    return said.value()->note.empty() ? Status::ok() : Status(Code::kUnavailable, said.value()->note);
}

// Nothing that it says is believed: it chooses a process that asks for a proof, and that is all.
void UserServers::hear_of_newcomer(io::Listener& listener) {
    const auto said = io::receive_passed(newcomers_.channel);
    if (!said && said.status().retryable()) return report(said.status().message());
    if (!said || !said.value()) return let_end(newcomers_);
    const std::string& note = said.value()->note;
    if (said.value()->socket == nullptr) {
        if (note.empty()) return;
        report("clients on other machines cannot be asked who they are: " + note);
        return let_end(newcomers_);
    }
    // Nobody on this machine was asked: the server of a user would take such a connection without a proof.
    if (said.value()->socket->is_local()) return report("a client was not admitted: it is on this machine");
    uid_t user = 0;
    const auto [rest, failed] = std::from_chars(note.data(), note.data() + note.size(), user);
    if (failed != std::errc() || rest != note.data() + note.size())
        return report("a client was not admitted: nobody knows who it is");
    admit(user, Where::kElsewhere, *said.value()->socket, listener);
}

Status UserServers::run(io::Listener& listener, int wake) {
    for (;;) {
        const std::array wakes{wake, newcomers_.channel};
        const auto connection = listener.accept(wakes);
        if (!connection && !connection.status().retryable()) return connection.status();
        if (connection && connection.value() == nullptr && io::is_readable(wake)) return Status::ok();
        const Status taken = attempt([&]() -> Status {
            if (!connection) return connection.status();
            if (connection.value() == nullptr) hear_of_newcomer(listener);
            else if (connection.value()->is_local())
                admit(connection.value()->peer_user(), Where::kHere, *connection.value(), listener);
            else pass_to_newcomers(*connection.value(), "", listener);
            return Status::ok();
        });
        if (!taken) report("a client was not admitted: " + taken.message());
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
