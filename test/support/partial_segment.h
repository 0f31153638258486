// The bytes of a segment for a log::RecordCursor, of which only loaded ones are right.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "log/record_cursor.h"

namespace forebay::test {

struct UnloadedBytes {
    explicit UnloadedBytes(std::size_t size) : unloaded(size, std::byte{0xEE}) {}
    std::vector<std::byte> unloaded;
};

class PartialSegment final : private UnloadedBytes, public log::SegmentBytes {
  public:
    explicit PartialSegment(std::vector<std::byte> content)
        : UnloadedBytes(content.size()), SegmentBytes(unloaded), content_(std::move(content)) {}

    Status load(std::uint64_t begin, std::uint64_t end) override {
        in_order_ = in_order_ && last_ <= begin && begin <= end && end <= content_.size();
        if (!in_order_) return {Code::kInvalidArgument, "the cursor loads backwards, or beyond the segment"};
        last_ = begin;
        if (end > readable) return Status::from_errno(EIO, "load a segment");
        std::copy(content_.begin() + static_cast<std::ptrdiff_t>(begin),
                  content_.begin() + static_cast<std::ptrdiff_t>(end),
                  unloaded.begin() + static_cast<std::ptrdiff_t>(begin));
        loaded_to = std::max(loaded_to, end);
        return Status::ok();
    }
    [[nodiscard]] Result<std::uint64_t> generation() const override {
        if (readable < log::kGenerationOffset) return Status::from_errno(EIO, "load the header of a segment");
        return owner_generation;
    }
    [[nodiscard]] std::vector<std::byte>& content() noexcept { return content_; }
    // False once a load began before an earlier one, or outside the segment.
    [[nodiscard]] bool in_order() const noexcept { return in_order_; }

    std::uint64_t owner_generation = 0;
    std::uint64_t readable = UINT64_MAX;   // loads beyond it fail
    std::uint64_t loaded_to = 0;

  private:
    std::vector<std::byte> content_;
    std::uint64_t last_ = 0;
    bool in_order_ = true;
};

}   // namespace forebay::test
