#include "hdf5/mpi_recovery.h"

#include <string>

#include "base/attempt.h"
#include "hdf5/warning.h"
#include "node/look_together.h"

namespace forebay::hdf5 {

Status recover_together(node::Team& team, stage::Engine* engine, const char* path, bool writable) {
    const auto looked = node::look_together(team, [&]() -> Result<std::string> {
        return engine != nullptr ? engine->recover_before_open(path, true) : std::string();
    });
    if (!looked)
        return looked.status();
    (void)attempt([&] {
        if (!looked.value().say.empty())
            warn_once(looked.value().say);
    });
    if (writable)
        return team.agree(looked.value().mine);
    if (looked.value().first_to_fail)
        warn_once(looked.value().mine.message());
    return Status::ok();
}

}   // namespace forebay::hdf5
