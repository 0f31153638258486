#include "hdf5/telling.h"

#include <unistd.h>

#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "area/told.h"
#include "base/immortal.h"
#include "file/launch.h"
#include "hdf5/warning.h"

namespace forebay::hdf5 {

namespace {

bool is_first_here(std::string_view message) {
    static Immortal<std::mutex> mutex;
    static Immortal<std::set<std::string, std::less<>>> asked;
    const std::lock_guard lock(*mutex);
    return (*asked).emplace(message).second;
}

}   // namespace

void tell(const Options& options, std::string_view message, Audience audience) noexcept {
    bool mine = true;
    try {
        if (!is_first_here(message)) return;
        const std::optional<file::LaunchedRank> rank = file::launched_rank(::getpid());
        if (rank && !rank->on_first_node && audience != Audience::kNode) return;
        if (audience == Audience::kUser) mine = area::is_first_to_tell(options, message, std::nullopt);
        else if (rank) mine = area::is_first_to_tell(options, message, rank->launcher);
    } catch (...) {   // short of memory, the notice is printed again
        mine = true;
    }
    if (mine) warn_once(message);
}

}   // namespace forebay::hdf5
