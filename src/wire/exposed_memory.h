// Memory of a client that its server uses too, in places of kDataMax bytes (docs/protocol.md, "Exposed memory"). A
// request takes a place, and its answer gives it back; answers have the order of requests. The first places are used
// while free, so that they stay in the processor's cache. Invariant: the used places are the `used_` ones from
// `oldest_` on, counted cyclically. Owns the memory. Thread-safety: one thread at a time. No call blocks.
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
// The memory takes a millisecond to make, so a connection makes it after it has carried this many bytes without it.
inline constexpr std::uint64_t kExposeAfter = kExposedBytes;
// Smaller requests carry their bytes in the frame.
inline constexpr std::size_t kExposedMin = std::size_t{64} << 10;

class ExposedMemory {
  public:
    explicit ExposedMemory(std::unique_ptr<io::SharedMemory> memory) noexcept : memory_(std::move(memory)) {}

    [[nodiscard]] const io::SharedMemory& memory() const noexcept { return *memory_; }
    [[nodiscard]] io::MutableBytes bytes() const noexcept { return memory_->bytes(); }
    [[nodiscard]] bool full() const noexcept { return used_ == kExposedPlaces; }
    // Returns the offset of a free place. The caller checks `full` first.
    [[nodiscard]] std::size_t take() noexcept {
        if (used_ == 0) oldest_ = 0;
        return (oldest_ + used_++) % kExposedPlaces * kDataMax;
    }
    void give_back() noexcept {
        oldest_ = (oldest_ + 1) % kExposedPlaces;
        --used_;
    }

  private:
    const std::unique_ptr<io::SharedMemory> memory_;
    std::size_t oldest_ = 0, used_ = 0;
};

}   // namespace forebay::wire
