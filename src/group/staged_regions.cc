#include "group/staged_regions.h"

#include <algorithm>

namespace forebay::group {

void mark_regions(Exposed& exposed, ByteRange range, std::uint64_t ticket) noexcept {
    if (range.empty()) return;
    const std::uint64_t first = range.begin / Exposed::kRegionBytes, last = (range.end - 1) / Exposed::kRegionBytes;
    for (std::uint64_t region = first; region <= last && region - first < Exposed::kMarks; ++region) {
        auto& mark = exposed.marks[region % Exposed::kMarks];
        for (std::uint64_t old = mark.load(); old < ticket && !mark.compare_exchange_weak(old, ticket);) {
        }
    }
}

// Most regions are marked already. A store would take the cache line from other processes.
void note_staged(Exposed& exposed, std::span<const log::FileLog::Part> parts) noexcept {
    std::uint64_t noted = UINT64_MAX;
    for (const auto& part : parts) {
        if (part.bytes.empty()) continue;
        const std::uint64_t first = part.offset / Exposed::kRegionBytes,
                            last = (part.offset + part.bytes.size() - 1) / Exposed::kRegionBytes;
        if (first == noted && last == noted) continue;
        for (std::uint64_t region = first; region <= last && region - first < Exposed::kMarks; ++region)
            if (auto& mark = exposed.marks[region % Exposed::kMarks]; mark.load() == 0) mark.store(1);
        noted = last;
    }
}

ByteRange first_unstaged(const Exposed& exposed, ByteRange range) noexcept {
    const auto staged = [&exposed](std::uint64_t offset) {
        return exposed.marks[offset / Exposed::kRegionBytes % Exposed::kMarks].load() != 0;
    };
    const auto next = [&range](std::uint64_t offset) {
        return std::min(range.end, (offset / Exposed::kRegionBytes + 1) * Exposed::kRegionBytes);
    };
    while (!range.empty() && staged(range.begin)) range.begin = next(range.begin);
    ByteRange part{range.begin, range.begin};
    while (part.end < range.end && !staged(part.end)) part.end = next(part.end);
    return part;
}

}   // namespace forebay::group
