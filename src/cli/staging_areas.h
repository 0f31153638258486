// Which staging areas and files a command line means.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "recover/recovery.h"

namespace forebay::cli {

// With a recovery that is at work on the same file, or looks round in the same staging area.
inline constexpr io::Directory::Patience kPatience{std::chrono::seconds(10)};

struct Selection {
    std::vector<std::string> nls;                          // as named, or the one in effect here
    std::vector<std::unique_ptr<io::Directory>> areas;     // those in which something was ever staged
    std::vector<recover::Wanted> files;                    // that exist
    std::vector<std::string> missing;                      // absolute paths that do not
    std::vector<std::string> directories;                  // process directories

    // For the calls of recover/recovery.h.
    [[nodiscard]] std::vector<io::Directory*> open_areas() const;
};

// Each of `names` is a staging area (the directory that option nls names, or its folder `forebay-<uid>`), a process
// directory in one, or a file. Without any area the one of `nls` is meant, and without that the one in effect here.
[[nodiscard]] Result<Selection> select(const std::vector<std::string>& names, const std::string& nls);

}   // namespace forebay::cli
