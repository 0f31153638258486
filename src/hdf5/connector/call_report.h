// How the outcome of a call with an event set comes to the program.
//
// HDF5's own connector returns it from the call. Async VOL gives it to the event set, and returns an object also where
// none could be made. Files whose connector stands in Async VOL's place have it so, too (`Origin::fails_in_event_set`):
// each such call has a request there, which has ended. Such an object is an `Object` without one beneath; calls on it
// fail, and closing it succeeds.
//
// Thread-safety: as HDF5's. Nothing blocks, nothing is thrown. Without memory for a request the call returns its
// failure itself. docs/migrating.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "hdf5/host/guard.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

struct Origin;

// kAtOnce: HDF5 needs more of the answer than an object without anything beneath can give.
enum class Failure : bool { kInEventSet, kAtOnce };

class CallReport {
  public:
    // While there is one that reports, no failure is printed: the program may ask for it later.
    CallReport(const Origin& origin, void** request, Failure failure = Failure::kInEventSet) noexcept;

    // The same results as these, or success, with a request for the failure.
    [[nodiscard]] herr_t of(herr_t result) const noexcept;
    [[nodiscard]] void* of_new(void* made, const std::shared_ptr<Origin>& origin) const noexcept;

  private:
    // False: there is no memory for it. The error stack stays as it is then.
    [[nodiscard]] bool add_request(bool failed) const noexcept;

    void** const request_;   // null: it reports nothing
    const Failure failure_;
    std::uint64_t begin_ns_ = 0;   // monotonic
    std::optional<QuietErrors> quiet_;
};

}   // namespace forebay::hdf5
