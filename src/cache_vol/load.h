// A connector text of `cache_ext` as options of forebay: the text, the file that it names, and the environment.
//
// Reads one file. Thread-safety: as `look_up`'s. Blocks on that file. docs/migrating.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "cache_vol/settings.h"

namespace forebay::cache_vol {

struct Loaded {
    LoadedOptions loaded;
    Switch writes = Switch::kByList, reads = Switch::kByList;   // which files are staged, and which are cached
    std::vector<std::string> notices;                           // what is not done as written, one sentence each
    std::string notice_of_user;   // the one of them that each user needs to read once only; empty: none
    bool asynchronous = false;    // the text has Async VOL in its stack
};

// `names`: those of the variables that begin with FOREBAY_.
[[nodiscard]] Loaded load(std::string_view text, const Getenv& look_up, std::span<const std::string> names);

}   // namespace forebay::cache_vol
