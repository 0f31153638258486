// Turns settings of Cache VOL into defaults of forebay's options. The sources, strongest first:
//   1. the program's own local storage (H5Pset_fapl_cache with LOCAL_STORAGE)
//   2. the configuration file that the connector string names
//   3. variables of Cache VOL's first releases: HDF5_LOCAL_STORAGE_PATH, ...; weaker, the older SSD_PATH, SSD_SIZE
// Options of forebay are stronger than all of them. docs/migrating.md lists the keys and their effects.
// Pure but for `look_up`, which reads the environment. Any thread. Does not block.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace forebay::cache_vol {

// One key with its value. The source is "SSD.cfg:3", or the name of a variable.
struct Setting {
    std::string key, value, source;
};

struct Settings {
    std::vector<Setting> found;         // weakest first: the last of one key counts
    std::vector<std::string> notices;   // ignored lines, one sentence each
};

// Reads the lines of a configuration file: key and value, separated by ':', '=' or blanks. Text behind the value is a
// comment, and so is a line that begins with '#'. Cache VOL itself reads keys before ':' only; its slides show files
// with blanks. kWholeLine: the line has no comment, and its value may have blanks.
enum class Values : unsigned char { kFirstWord, kWholeLine };
void read_lines(std::string_view text, std::string_view source, Settings& into, Values values = Values::kFirstWord);
// Adds the values of those variables to `into`, each under the key that replaced the variable.
void read_variables(const Getenv& look_up, Settings& into);

struct Translation {
    std::vector<DefaultValue> defaults;
    std::vector<std::string> notices;
    std::vector<Status> problems;   // unusable values
};
// Relative paths start at `working_directory`. `memory` is a directory in memory, for storage kept in memory.
[[nodiscard]] Translation translate(const Settings& settings, std::string_view working_directory,
                                    std::string_view memory);

// HDF5_CACHE_WR and HDF5_CACHE_RD say if files are staged and cached. A set variable holds for all files: "yes" in any
// case, and true, on, 1 and the like, are on; all other words are off. A word other than no, off, 0 and the like also
// adds a notice to `notices`, if given. If the variable is not set, the access list of the file decides.
enum class Switch : unsigned char { kOff, kOn, kByList };
[[nodiscard]] Switch switch_of(const Getenv& look_up, const char* variable,
                               std::vector<std::string>* notices = nullptr);

}   // namespace forebay::cache_vol
