#include "cli/acting_as.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace forebay::cli {

namespace {

struct Account {
    std::string name;
    gid_t group = 0;
};

std::optional<Account> account_of(std::uint64_t user) {
    std::vector<char> text(16384);
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(static_cast<uid_t>(user), &entry, text.data(), text.size(), &found) != 0 || found == nullptr)
        return std::nullopt;
    return Account{found->pw_name, found->pw_gid};
}

}   // namespace

std::vector<std::uint32_t> groups_of(std::uint64_t user) {
    const auto account = account_of(user);
    if (!account) return {};
    int count = 64;
    std::vector<gid_t> groups(static_cast<std::size_t>(count));
    while (::getgrouplist(account->name.c_str(), account->group, groups.data(), &count) < 0) {
        if (count <= static_cast<int>(groups.size())) return {account->group};
        groups.resize(static_cast<std::size_t>(count));
    }
    groups.resize(static_cast<std::size_t>(count));
    return {groups.begin(), groups.end()};
}

std::string name_of_user(std::uint64_t user) {
    const auto account = account_of(user);
    return account ? fmt::format("{} ({})", account->name, user) : fmt::format("user {}", user);
}

Result<ActingAs> ActingAs::user(std::uint64_t user) {
    if (user == ::geteuid()) return ActingAs(std::nullopt);
    const auto failed = [&](int error) { return Status::from_errno(error, "act as " + name_of_user(user)); };
    Before before{::geteuid(), ::getegid(), {}};
    const int count = ::getgroups(0, nullptr);
    if (count < 0) return failed(errno);
    before.groups.resize(static_cast<std::size_t>(count));
    if (::getgroups(count, before.groups.data()) < 0) return failed(errno);
    std::vector<std::uint32_t> groups = groups_of(user);
    if (groups.empty()) groups.push_back(static_cast<std::uint32_t>(user));
    if (::setgroups(groups.size(), groups.data()) != 0) return failed(errno);
    ActingAs acting{std::move(before)};   // the destructor restores the identity from here on
    if (::setegid(groups.front()) != 0 || ::seteuid(static_cast<uid_t>(user)) != 0) return failed(errno);
    return acting;
}

ActingAs::~ActingAs() {
    if (!before_) return;
    // A command that cannot restore its identity must not continue.
    if (::seteuid(static_cast<uid_t>(before_->user)) != 0 || ::setegid(static_cast<gid_t>(before_->group)) != 0 ||
        ::setgroups(before_->groups.size(), before_->groups.data()) != 0)
        std::abort();
}

}   // namespace forebay::cli
