// The place of staged bytes: in a segment of the log, or in a run (index/gathered.h).
// Segments and runs are the *keepers* of staged bytes. A plan names a keeper by a plan::Keeper. Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "index/gathered.h"
#include "log/segment_pool.h"
#include "plan/merge.h"

namespace forebay::index {

struct StagedPlace {
    log::Segment* segment = nullptr;                    // null, without `gathered`: zeros
    std::uint64_t offset = 0;                           // in the segment or the run
    std::uint64_t sequence = 0;                         // of the record
    std::uint32_t generation = 0;                       // of the segment, lower half
    log::DataClass data_class = log::DataClass::kRaw;   // of the record
    Gathered* gathered = nullptr;

    [[nodiscard]] StagedPlace advanced(std::uint64_t bytes) const noexcept {
        return {segment, offset + bytes, sequence, generation, data_class, gathered};
    }
    // Zeros that a truncation left: no record has them.
    [[nodiscard]] bool zeros() const noexcept { return segment == nullptr && gathered == nullptr; }
    [[nodiscard]] const std::byte* data() const noexcept {
        return gathered != nullptr ? gathered->at(offset) : segment == nullptr ? nullptr : segment->at(offset);
    }
    // The keeper for a plan; kNone for zeros.
    [[nodiscard]] plan::Keeper keeper() const noexcept;
};

// Return the keeper if it is of that kind, else null.
[[nodiscard]] log::Segment* segment_of(plan::Keeper keeper) noexcept;
[[nodiscard]] Gathered* gathered_of(plan::Keeper keeper) noexcept;
// The EIO status for bytes at `address`, which `keeper` keeps (io/guarded_access.h).
[[nodiscard]] Status fault(plan::Keeper keeper, const std::byte* address);

}   // namespace forebay::index
