#include "hdf5/pause.h"

namespace forebay::hdf5 {

namespace {

constinit PauseCount the_own_count{0};
constinit std::atomic<PauseCount*> the_count{&the_own_count};

}   // namespace

PauseCount& pause_count() noexcept { return *the_count.load(); }
void use_pause_count(PauseCount& count) noexcept { the_count.store(&count); }

void pause() noexcept { ++pause_count(); }

bool resume() noexcept {
    PauseCount& count = pause_count();
    for (std::uint64_t now = count.load(); now > 0;)
        if (count.compare_exchange_weak(now, now - 1)) return true;
    return false;
}

bool is_paused() noexcept { return pause_count().load(std::memory_order_relaxed) > 0; }

}   // namespace forebay::hdf5
