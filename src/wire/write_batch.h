// Small writes that are gathered and sent in one WRITE. Thread-safety: one thread at a time. No call blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "wire/frame.h"

namespace forebay::wire {

// Larger writes are sent at once, alone.
inline constexpr std::size_t kBatchedMax = 64 * 1024;

class WriteBatch {
  public:
    [[nodiscard]] bool empty() const noexcept { return parts_.empty(); }
    [[nodiscard]] bool has_room_for(std::size_t bytes) const noexcept {
        return parts_.size() < kPartsMax && bytes_.size() + bytes <= kBytesMax;
    }
    // Requires `has_room_for(bytes.size())`. Extends the last part if the write continues it.
    void add(std::uint64_t offset, io::Bytes bytes, Class byte_class) {
        bytes_.reserve(kBytesMax);
        const bool continues = !parts_.empty() && parts_.back().byte_class == byte_class &&
                               parts_.back().offset + parts_.back().bytes == offset;
        if (continues) parts_.back().bytes += static_cast<std::uint32_t>(bytes.size());
        else parts_.push_back({offset, static_cast<std::uint32_t>(bytes.size()), byte_class});
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    }
    void clear() noexcept {
        parts_.clear();
        bytes_.clear();
    }
    [[nodiscard]] std::span<const Part> parts() const noexcept { return parts_; }
    [[nodiscard]] io::Bytes bytes() const noexcept { return bytes_; }

  private:
    static constexpr std::size_t kBytesMax = 256 * 1024;
    std::vector<Part> parts_;
    std::vector<std::byte> bytes_;
};

}   // namespace forebay::wire
