#include "hdf5/telling.h"

#include <unistd.h>

#include <optional>

#include "area/told.h"
#include "base/text_set.h"
#include "file/launch.h"
#include "hdf5/warning.h"

namespace forebay::hdf5 {

void tell(const Options& options, std::string_view message, Audience audience) noexcept {
    bool mine = true;
    try {
        static constinit TextSet asked;
        if (!asked.add(message)) return;
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
