// Memory of a client's that its server uses too, in places of kDataMax bytes (docs/protocol.md, "Exposed memory").
//
// A place is taken for a request, and given back with the answer: in the same order, as answers come in that of their
// requests. The first places are used as long as they are free, so that they stay in the processor's cache.
// Invariant: those in use are `used_` places behind `oldest_`, counted around.
//
// Ownership: the memory. Thread-safety: one thread at a time. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "io/shared_memory.h"
#include "wire/frame.h"

namespace forebay::wire {

inline constexpr std::size_t kExposedPlaces = 4;
inline constexpr std::size_t kExposedBytes = kExposedPlaces * kDataMax;
static_assert(kExposedBytes <= kExposedMax);
// It takes a millisecond to make, so it comes once so much has gone through the connection without it.
inline constexpr std::uint64_t kExposeAfter = kExposedBytes;
// Smaller requests have their bytes in the frame.
inline constexpr std::size_t kExposedMin = std::size_t{64} << 10;

class ExposedMemory {
  public:
    explicit ExposedMemory(std::unique_ptr<io::SharedMemory> memory) noexcept : memory_(std::move(memory)) {}

    [[nodiscard]] const io::SharedMemory& memory() const noexcept { return *memory_; }
    [[nodiscard]] io::MutableBytes bytes() const noexcept { return memory_->bytes(); }
    [[nodiscard]] bool full() const noexcept { return used_ == kExposedPlaces; }
    // Where a place begins. There has to be one.
    [[nodiscard]] std::size_t take() noexcept {
        if (used_ == 0) oldest_ = 0;
        return (oldest_ + used_++) % kExposedPlaces * kDataMax;
    }
    // The one taken first.
    void give_back() noexcept {
        oldest_ = (oldest_ + 1) % kExposedPlaces;
        --used_;
    }

  private:
    const std::unique_ptr<io::SharedMemory> memory_;
    std::size_t oldest_ = 0, used_ = 0;
};

}   // namespace forebay::wire
