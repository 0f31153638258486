#include "index/staged_place.h"

#include <cerrno>

namespace forebay::index {

namespace {

// A keeper is the address of a segment or, with this bit set, of a run.
constexpr std::uintptr_t kIsGathered = 1;
static_assert(alignof(log::Segment) > kIsGathered && alignof(Gathered) > kIsGathered);

}   // namespace

plan::Keeper StagedPlace::keeper() const noexcept {
    return plan::Keeper{gathered != nullptr ? reinterpret_cast<std::uintptr_t>(gathered) | kIsGathered
                                            : reinterpret_cast<std::uintptr_t>(segment)};
}

log::Segment* segment_of(plan::Keeper keeper) noexcept {
    const auto word = static_cast<std::uintptr_t>(keeper);
    return (word & kIsGathered) != 0 ? nullptr : reinterpret_cast<log::Segment*>(word);
}

Gathered* gathered_of(plan::Keeper keeper) noexcept {
    const auto word = static_cast<std::uintptr_t>(keeper);
    return (word & kIsGathered) != 0 ? reinterpret_cast<Gathered*>(word & ~kIsGathered) : nullptr;
}

Status fault(plan::Keeper keeper, const std::byte* address) {
    const log::Segment* const segment = segment_of(keeper);
    return segment != nullptr ? segment->fault(address) : Status(Code::kIo, "staged bytes cannot be read", EIO);
}

}   // namespace forebay::index
