// Settings of Cache VOL as defaults of forebay's options.
//
// They come from, strongest first:
//   1. the program's own local storage (H5Pset_fapl_cache with LOCAL_STORAGE)
//   2. the configuration file that the connector string names
//   3. variables of the first generation   HDF5_LOCAL_STORAGE_PATH, ..., and before these SSD_PATH, ...
// Options of forebay are stronger than all of them. docs/migrating.md has the table of keys, and what comes of each.
//
// Pure but for `look_up`, which reads the environment. Any thread. Nothing blocks.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace forebay::cache_vol {

// One key with its value, and where it stands: "SSD.cfg:3", or the name of a variable.
struct Setting {
    std::string key, value, source;
};

struct Settings {
    std::vector<Setting> found;         // weakest first: of one key the last one counts
    std::vector<std::string> notices;   // what is passed over, one sentence each
};

// The lines of a configuration file: key and value, separated by ':', '=' or blanks. What follows the value is a
// comment, and so is a line that begins with '#'. The format of Cache VOL reads keys before ':' only; its slides show
// files with blanks. kWholeLine: nobody writes comments there, and a value may have blanks in it.
enum class Values : unsigned char { kFirstWord, kWholeLine };
void read_lines(std::string_view text, std::string_view source, Settings& into, Values values = Values::kFirstWord);
// Variables of the first generation, under the names of today's keys.
void read_variables(const Getenv& look_up, Settings& into);

// What the settings come to.
struct Translation {
    std::vector<DefaultValue> defaults;
    std::vector<std::string> notices;
    std::vector<Status> problems;   // a value that nothing can be made of
};
// `working_directory`: what a relative path is relative to. `memory`: a directory in memory, for storage of that type.
[[nodiscard]] Translation translate(const Settings& settings, std::string_view working_directory,
                                    std::string_view memory);

// Whether files are staged and cached: HDF5_CACHE_WR and HDF5_CACHE_RD. Where the variable is set it holds for all
// files: "yes", in any case, and what people write in its place (true, on, 1) are on, all other words off. A word that
// means neither is told in `notices`, if there is a list. Where it is not set, the access list of the file says.
enum class Switch : unsigned char { kOff, kOn, kByList };
[[nodiscard]] Switch switch_of(const Getenv& look_up, const char* variable,
                               std::vector<std::string>* notices = nullptr);

}   // namespace forebay::cache_vol
