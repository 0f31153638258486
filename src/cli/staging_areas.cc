#include "cli/staging_areas.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

#include "area/process.h"
#include "area/registry.h"
#include "cli/acting_as.h"
#include "cli/exit_status.h"
#include "cli/launch.h"
#include "cli/mounted.h"
#include "cli/shown.h"
#include "io/posix_file.h"
#include "recover/trust.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolderPrefix = "forebay-";

// Keeps `..` in the path, because `link/../f` is not beside `link`.
std::string absolute_path(const std::string& name) {
    std::string path = fs::absolute(name).string();
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
}

// Resolves symbolic links in the existing part of the path, for messages and to identify areas.
std::string canonical(const std::string& name) {
    std::error_code error;
    const fs::path path = fs::weakly_canonical(name, error);
    return error ? absolute_path(name) : absolute_path(path.string());
}

// Returns the user whose folder in a staging area has this name.
std::optional<std::uint64_t> user_of_folder(std::string_view name) {
    if (!name.starts_with(kFolderPrefix)) return std::nullopt;
    std::uint64_t user = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kFolderPrefix.size(), end, user);
    if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
    return user;
}

std::set<std::uint64_t> users_in(const std::string& nls) {
    std::set<std::uint64_t> users;
    std::error_code error;
    for (fs::directory_iterator entry(nls, error), end; !error && entry != end; entry.increment(error))
        if (const auto user = user_of_folder(entry->path().filename().string())) {
            struct stat facts{};
            if (::lstat(entry->path().c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == *user)
                users.insert(*user);
        }
    return users;
}

// True if that user could have opened it for writing. An access list grants at most its mask, the mode's group bits.
bool may_write(std::uint64_t user, const std::string& path) {
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0) return true;
    if (facts.st_uid == user) return true;   // the owner can make it writable
    if ((facts.st_mode & S_IWOTH) != 0) return true;
    if ((facts.st_mode & S_IWGRP) == 0) return false;
    if (has_access_list(path)) return true;
    const auto groups = groups_of(user);
    return groups.empty() || std::find(groups.begin(), groups.end(), facts.st_gid) != groups.end();
}

class Surveying {
  public:
    Surveying(const Question& question, const Options& options) : question_(question), options_(options) {}

    Result<Survey> operator()() {
        if (question_.all_users && ::geteuid() != 0)
            return Status(Code::kInvalidArgument,
                          "--all-users is for root: only root and the user may read the staging areas of a user");
        FOREBAY_TRY(sort_names());
        if (question_.tells) tell_no_areas();
        if (!question_.nls.empty()) add_named(absolute_path(question_.nls), std::nullopt);
        everywhere_ = survey_.names_files() || named_.empty();
        if (everywhere_) extra_.push_back(canonical(options_.nls));
        const std::uint64_t self = ::geteuid();
        std::set<std::uint64_t> others = other_users(self);
        FOREBAY_TRY(look_as(self));
        for (const std::uint64_t user : others)
            if (self != 0 || !asked_about(user)) note_other(user);
            else if (const Status looked = look_as(user); !looked) survey_.unseen.push_back(looked.message());
        return std::move(survey_);
    }

  private:
    struct Named {
        std::string nls;
        std::optional<std::uint64_t> user;   // set if the name was that user's folder
    };

    Status sort_names() {
        for (const std::string& name : question_.names) {
            if (name.empty()) return {Code::kInvalidArgument, "a name is empty"};
            const std::string path = absolute_path(name);
            struct stat facts{};
            if (::stat(path.c_str(), &facts) != 0) {
                if (errno != ENOENT && errno != ENOTDIR)
                    survey_.unseen.push_back(Status::from_errno(errno, "look at " + path).message());
                else survey_.missing.push_back(canonical(name));
            } else if (!S_ISDIR(facts.st_mode)) {
                const io::Identity identity{static_cast<std::uint64_t>(facts.st_dev),
                                            static_cast<std::uint64_t>(facts.st_ino)};
                survey_.files.push_back({identity, path});
            } else if (question_.files_only) {
                return {Code::kInvalidArgument, path + " is a directory: name a file"};
            } else {
                sort_directory(canonical(name));
            }
        }
        return Status::ok();
    }

    void sort_directory(const fs::path& path) {
        const fs::path parent = path.parent_path();
        if (const auto user = user_of_folder(path.filename().string())) {
            add_named(parent.string(), user);
        } else if (const auto owner = user_of_folder(parent.filename().string());
                   owner && area::owner_of_directory(path.filename().string())) {
            add_named(parent.parent_path().string(), owner);
            survey_.directories.push_back(path.string());
        } else {
            add_named(path.string(), std::nullopt);
        }
    }

    void add_named(const std::string& nls, std::optional<std::uint64_t> user) {
        named_.push_back({canonical(nls), user});
    }

    // An area without any staged file counts as empty, but the name may be a mistake.
    void tell_no_areas() const {
        for (const Named& one : named_) {
            std::error_code error;
            if (!one.user && one.nls != canonical(options_.nls) && fs::is_directory(one.nls, error) &&
                users_in(one.nls).empty())
                fmt::print(stderr, "forebay: {} is not a staging area: nothing was ever staged there\n",
                           printable(one.nls));
        }
    }

    std::set<std::uint64_t> other_users(std::uint64_t self) const {
        std::set<std::uint64_t> users;
        if (everywhere_)
            for (const std::uint64_t user : area::other_registered_users(options_)) users.insert(user);
        for (const std::string& nls : places_of(self)) users.merge(users_in(nls));
        for (const Named& named : named_)
            if (named.user) users.insert(*named.user);
        users.erase(self);
        return users;
    }

    std::vector<std::string> places_of(std::uint64_t user) const {
        std::vector<std::string> places;
        for (const Named& named : named_)
            if (!named.user || *named.user == user || everywhere_) places.push_back(named.nls);
        places.insert(places.end(), extra_.begin(), extra_.end());
        return places;
    }

    bool asked_about(std::uint64_t user) const {
        return survey_.names_files() || question_.all_users ||
               std::any_of(named_.begin(), named_.end(),
                           [&](const Named& named) { return named.user ? *named.user == user : !everywhere_; });
    }

    void note_other(std::uint64_t user) {
        const std::string who = name_of_user(user);
        const bool named = std::any_of(named_.begin(), named_.end(),
                                       [&](const Named& one) { return one.user == user; });
        const bool concerned = std::any_of(survey_.files.begin(), survey_.files.end(),
                                           [&](const recover::Wanted& file) { return may_write(user, file.path); });
        if (named || concerned)
            survey_.unseen.push_back(fmt::format("the staging areas of {}: only that user and root may read them",
                                                 who));
        else if (!survey_.names_files()) survey_.others.push_back(who);
    }

    Status look_as(std::uint64_t user) {
        const auto acting = ActingAs::user(user);
        if (!acting) return acting.status();
        UserAreas found;
        found.user = user;
        std::set<io::Identity> known;
        const std::vector<std::string> places = places_of(user);
        for (const std::string& nls : places) {
            const bool needed = std::any_of(named_.begin(), named_.end(),
                                            [&](const Named& one) { return one.nls == nls; });
            FOREBAY_TRY(look_at(nls, needed && user == ::getuid(), known, found));
        }
        if (everywhere_) {
            const area::Registry registry = area::read_registry(options_);
            survey_.unseen.insert(survey_.unseen.end(), registry.unreadable.begin(), registry.unreadable.end());
            for (const area::RegisteredArea& area : registry.areas) {
                FOREBAY_TRY(look_at(area.nls, false, known, found));
                judge(area);
            }
        }
        survey_.users.push_back(std::move(found));
        return Status::ok();
    }

    Status look_at(const std::string& nls, bool needed, std::set<io::Identity>& known, UserAreas& found) {
        if (std::find(found.nls.begin(), found.nls.end(), nls) != found.nls.end()) return Status::ok();
        auto area = recover::find_area(nls);
        if (!area && area.status().code() == Code::kNotFound && !needed) return Status::ok();
        if (!area && needed && area.status().code() == Code::kNotFound)
            return {Code::kInvalidArgument, fmt::format("the staging area {} does not exist", nls)};
        if (!area && needed && area.status().code() != Code::kPermissionDenied) return area.status();
        found.nls.push_back(nls);
        if (area && area.value() == nullptr) return Status::ok();
        const Status trusted = area ? recover::check_trusted(*area.value(), ".", io::Facts::Kind::kDirectory)
                                    : area.status();
        if (!trusted) {
            survey_.unseen.push_back(trusted.message());
            return Status::ok();
        }
        const auto identity = io::identify(area.value()->name());
        if (!identity) survey_.unseen.push_back(identity.status().message());
        else if (known.insert(identity.value()).second) found.areas.push_back(std::move(area).value());
        return Status::ok();
    }

    // A registered area may be gone, or only invisible from here.
    void judge(const area::RegisteredArea& area) {
        switch (state_of(area)) {
            case AreaState::kInUse: break;
            case AreaState::kGone:
                area::forget_area(area);
                if (state_of(area) == AreaState::kInUse)
                    (void)area::note_area(options_, area.nls);   // a process has just arrived
                break;
            case AreaState::kElsewhere:
                survey_.unseen.push_back(fmt::format(
                    "the staging area {}: its file system is not mounted there now; if it is gone for good, remove {}",
                    area.nls, area.entry));
                break;
        }
    }

    const Question& question_;
    const Options& options_;
    Survey survey_;
    std::vector<Named> named_;
    std::vector<std::string> extra_;   // of the options in effect
    bool everywhere_ = false;
};

}   // namespace

std::vector<io::Directory*> UserAreas::open_areas() const {
    std::vector<io::Directory*> open;
    for (const auto& area : areas) open.push_back(area.get());
    return open;
}

std::vector<std::string> Survey::nls() const {
    std::vector<std::string> all;
    for (const UserAreas& user : users)
        for (const std::string& one : user.nls)
            if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
    return all;
}

Result<LoadedOptions> options_here() {
    LoadedOptions loaded = options_with({});
    if (!loaded.problems.empty()) return Status(Code::kInvalidArgument, loaded.problems.front().message());
    return loaded;
}

Result<Survey> survey(const Question& question) {
    const auto loaded = options_here();
    if (!loaded) return loaded.status();
    return Surveying(question, loaded.value().options)();
}

std::string unseen_as_text(const std::vector<std::string>& unseen) {
    std::string text;
    for (const std::string& one : unseen) fmt::format_to(std::back_inserter(text), "not read: {}\n", one);
    return text;
}

Status no_such_file(const std::string& path) { return {Code::kInvalidArgument, path + ": no such file or directory"}; }

int exit_status(const Status& failure) { return failure.code() == Code::kInvalidArgument ? kExitUsage : kExitProblem; }

int exit_status(bool well, const std::vector<std::string>& unseen) {
    if (!well) return kExitProblem;
    return unseen.empty() ? kExitFine : kExitUnknown;
}

}   // namespace forebay::cli
