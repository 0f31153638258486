// Which staging areas and files a command line means, and what of them it may not look into.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "io/file.h"
#include "recover/recovery.h"

namespace forebay::cli {

// With a recovery that is at work on the same file, or looks round in the same staging area.
inline constexpr io::Directory::Patience kPatience{std::chrono::seconds(10)};

struct Question {
    std::vector<std::string> names;   // files, staging areas, process directories
    std::string nls;                  // a staging area to look in, too
    bool all_users = false;
    bool files_only = false;   // a directory is no answer
    bool tells = true;         // of directories that are no staging areas, on standard error
};

// The staging areas of one user. They are opened as that user: act as it (acting_as.h) to read on.
struct UserAreas {
    std::uint64_t user = 0;
    std::vector<std::string> nls;                        // looked at, also where there is nothing
    std::vector<std::unique_ptr<io::Directory>> areas;   // those in which something was ever staged

    // For the calls of recover/recovery.h.
    [[nodiscard]] std::vector<io::Directory*> open_areas() const;
};

struct Survey {
    std::vector<recover::Wanted> files;     // that exist
    std::vector<std::string> missing;       // absolute paths that do not
    std::vector<std::string> directories;   // process directories
    std::vector<UserAreas> users;           // the own one first
    // What may hold an answer, and could not be looked into: each with the reason. Not empty: nobody can say "nothing
    // is left".
    std::vector<std::string> unseen;
    std::vector<std::string> others;   // users who were not asked about, and have staging areas here

    // All that were looked at, for messages.
    [[nodiscard]] std::vector<std::string> nls() const;
    [[nodiscard]] bool names_files() const { return !files.empty() || !missing.empty(); }
};

// Each name is a staging area (the directory that option nls names, or its folder `forebay-<uid>`), a process directory
// in one, or a file. With files, or without any name, all areas count that are in the registry, and those that `nls`
// and the options in effect here name; else those that are named. With files root looks at all users' areas; else with
// `all_users`, or where it has named the area. Removes areas without any process directory from the registry.
// kInvalidArgument: an option or a name is wrong, there is no such staging area, or `all_users` for a user that is not
// root.
[[nodiscard]] Result<Survey> survey(const Question& question);

// The option -o, environment and configuration in effect here. kInvalidArgument: one of them is wrong, and which.
[[nodiscard]] Result<LoadedOptions> options_here();

// "not looked into: …" for each.
[[nodiscard]] std::string unseen_as_text(const std::vector<std::string>& unseen);
// A name on the command line that is neither a file nor known to any log. kInvalidArgument, in every command.
[[nodiscard]] Status no_such_file(const std::string& path);
// Of a survey that failed, or anything else that did.
[[nodiscard]] int exit_status(const Status& failure);
// 3 instead of 0, where something could not be looked into.
[[nodiscard]] int exit_status(bool well, const std::vector<std::string>& unseen);

}   // namespace forebay::cli
