#include "hdf5/mpi_recovery.h"

#include <algorithm>
#include <span>
#include <string>

#include "hdf5/warning.h"

namespace forebay::hdf5 {

namespace {

// What came of one rank's look.
enum class Found : unsigned char { kNothing, kRecovered, kUnusable, kInUse };

}   // namespace

Status recover_together(node::Team& team, stage::Engine* engine, const char* path, bool writable) {
    Result<std::string> mine = std::string();
    Found found = Found::kInUse;   // so that it looks
    bool said = false;             // by one of them
    bool again = false;            // whoever could not use it has looked once more
    for (;;) {
        // The nodes keep the file from each other while they recover their parts: one of them at least gets through each time.
        if (found == Found::kInUse) {
            mine = engine != nullptr ? engine->recover_before_open(path, true) : std::string();
            found = !mine ? (mine.status().retryable() ? Found::kInUse : Found::kUnusable) : mine.value().empty() ? Found::kNothing : Found::kRecovered;
        } else {
            found = Found::kNothing;
        }
        const std::byte told{static_cast<unsigned char>(found)};
        const auto all = team.gather({&told, 1});
        if (!all)
            return all.status();
        const auto first = [&](auto&& is) {
            return std::find_if(all.value().begin(), all.value().end(), [&](const auto& one) { return is(static_cast<Found>(std::to_integer<unsigned char>(one.at(0)))); }) -
                   all.value().begin();
        };
        const auto nobody = static_cast<std::ptrdiff_t>(all.value().size());
        const auto recovered = first([](Found one) { return one == Found::kRecovered; });
        if (recovered == team.rank() && !said) {
            warn_once(mine.value());
        }
        said = said || recovered < nobody;
        if (recovered < nobody && first([](Found one) { return one == Found::kInUse; }) < nobody)
            continue;
        // Where several nodes have to recover it together, only the last one has found it whole: the others look again.
        if (!again && first([](Found one) { return one == Found::kUnusable; }) < nobody) {
            again = true;
            found = mine ? Found::kNothing : Found::kInUse;
            continue;
        }
        if (writable)
            return team.agree(mine.status());
        if (!said && first([](Found one) { return one == Found::kUnusable || one == Found::kInUse; }) == team.rank())
            warn_once(mine.status().message());
        return Status::ok();
    }
}

}   // namespace forebay::hdf5
