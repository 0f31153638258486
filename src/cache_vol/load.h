// Turns a connector text of `cache_ext`, the file that it names, and the environment into options of forebay.
// Thread-safety: as `look_up`'s. Blocks while it reads one file. docs/migrating.md.
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
    Switch writes = Switch::kByList, reads = Switch::kByList;   // files that are staged, and that are cached
    std::vector<std::string> notices;
    std::string notice_of_user;   // the notice that each user reads once; may be empty
    bool asynchronous = false;    // the text has Async VOL in its stack
};

// `names` lists the environment's variables that begin with FOREBAY_.
[[nodiscard]] Loaded load(std::string_view text, const Getenv& look_up, std::span<const std::string> names);

}   // namespace forebay::cache_vol
