#include "hdf5/mpi_recovery.h"

#include <algorithm>
#include <span>
#include <string>

#include "hdf5/warning.h"

namespace forebay::hdf5 {

Status recover_together(node::Team& team, stage::Engine* engine, const char* path, bool writable) {
    const Result<std::string> recovered = engine != nullptr ? engine->recover_before_open(path, writable) : std::string();
    FOREBAY_TRY(team.agree(recovered.status()));
    // All who could not use the log say the same.
    const std::string& mine = recovered.value();
    const std::byte anything{static_cast<unsigned char>(mine.empty() ? 0 : 1)};
    const auto all = team.gather({&anything, 1});
    if (!all)
        return all.status();
    const auto first = std::find_if(all.value().begin(), all.value().end(), [](const auto& told) { return !told.empty() && told.front() != std::byte{0}; });
    if (first - all.value().begin() == team.rank())
        warn_once(mine);
    return Status::ok();
}

}   // namespace forebay::hdf5
