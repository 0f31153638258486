// Brings the outcome of a call with an event set to the program (docs/migrating.md).
// HDF5's own connector returns it. Async VOL gives it to the event set, and returns an object even if none could be
// made. In its place (`Origin::fails_in_event_set`) a connector adds an ended request for each such call. An `Object`
// that could not be made has no object beneath; calls on it fail, and closing it succeeds. Without memory for a
// request, the call returns its failure. Thread-safety: as HDF5's. No call blocks or throws.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "hdf5/host/guard.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

struct Origin;

// kAtOnce: HDF5 needs more of the answer than such an empty object has.
enum class Failure : bool { kInEventSet, kAtOnce };

class CallReport {
  public:
    // A reporting object keeps failures from being printed: the program may ask for them later.
    CallReport(const Origin& origin, void** request, Failure failure = Failure::kInEventSet) noexcept;

    // Return their argument, or success with a request for the failure.
    [[nodiscard]] herr_t of(herr_t result) const noexcept;
    [[nodiscard]] void* of_new(void* made, const std::shared_ptr<Origin>& origin) const noexcept;

  private:
    // Returns false, with an unchanged error stack, if memory is short.
    [[nodiscard]] bool add_request(bool failed) const noexcept;

    void** const request_;   // null if it does not report
    const Failure failure_;
    std::uint64_t begin_ns_ = 0;
    std::optional<QuietErrors> quiet_;
};

}   // namespace forebay::hdf5
