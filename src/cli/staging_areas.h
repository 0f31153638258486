// The staging areas and files that a command line selects, and the parts that are unreadable for this user.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "io/file.h"
#include "recover/recovery.h"

namespace forebay::cli {

// The maximum wait for another recovery of the same file or staging area.
inline constexpr io::Directory::Patience kPatience{std::chrono::seconds(10)};

struct Question {
    std::vector<std::string> names;   // files, staging areas, process directories
    std::string nls;                  // an additional staging area
    bool all_users = false;
    bool files_only = false;   // directories are invalid
    bool tells = true;         // prints directories that are no staging areas, on standard error
};

// The staging areas of one user, opened as that user. Act as the user (acting_as.h) for further reads.
struct UserAreas {
    std::uint64_t user = 0;
    std::vector<std::string> nls;                        // all places, also empty ones
    std::vector<std::unique_ptr<io::Directory>> areas;   // the places that have a staging area

    [[nodiscard]] std::vector<io::Directory*> open_areas() const;
};

struct Survey {
    std::vector<recover::Wanted> files;     // existing files
    std::vector<std::string> missing;       // absolute paths that do not exist
    std::vector<std::string> directories;   // process directories
    std::vector<UserAreas> users;           // this user first
    // Unreadable places, with the reason. If there are any, a command must not claim that no bytes are left.
    std::vector<std::string> unseen;
    std::vector<std::string> others;   // users with staging areas here that were not included

    [[nodiscard]] std::vector<std::string> nls() const;
    [[nodiscard]] bool names_files() const { return !files.empty() || !missing.empty(); }
};

// Selects the staging areas. Each name is a staging area (the directory of option nls, or its folder `forebay-<uid>`),
// a process directory in one, or a file. With files, or without names, the survey covers all registered areas, and
// those that `nls` and the options in effect name. Otherwise it covers the named areas. With files root sees all users'
// areas; else with `all_users`, or if it named the area. Removes areas without any process directory from the registry.
// kInvalidArgument: an option or a name is wrong, there is no such staging area, or `all_users` for a user that is not
// root.
[[nodiscard]] Result<Survey> survey(const Question& question);

// From environment and configuration. kInvalidArgument names a wrong option.
[[nodiscard]] Result<LoadedOptions> options_here();

[[nodiscard]] std::string unseen_as_text(const std::vector<std::string>& unseen);
// The error for a name that is neither a file nor in any log: kInvalidArgument, in every command.
[[nodiscard]] Status no_such_file(const std::string& path);
[[nodiscard]] int exit_status(const Status& failure);
// Returns 3 instead of 0 if `unseen` is not empty.
[[nodiscard]] int exit_status(bool well, const std::vector<std::string>& unseen);

}   // namespace forebay::cli
