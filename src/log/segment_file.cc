#include "log/segment_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "extent/stripe.h"
#include "io/spare_descriptors.h"

namespace forebay::log {

namespace {

constexpr std::array<std::byte, 16 * 1024> kZeros{};

}   // namespace

SegmentFile::SegmentFile(std::unique_ptr<io::File> file, const PoolLimits& limits)
    : file_(std::move(file)),
      segment_bytes_(limits.segment_bytes),
      segments_per_map_(std::max<std::uint64_t>(1,
                                                std::min(limits.map_bytes / limits.segment_bytes, limits.segments()))),
      in_memory_(limits.in_memory) {}

Result<std::unique_ptr<Segment>> SegmentFile::create(std::uint64_t index) {
    const std::uint64_t begin = index * segment_bytes_;
    const std::uint64_t grown_to = grown_to_.load();
    const auto file_bytes = file_->size();
    if (!file_bytes) return file_bytes.status();
    if (file_bytes.value() < grown_to)
        return Status::from_errno(EIO, fmt::format("{}: the staging log was cut to {} bytes", file_->name(),
                                                   file_bytes.value()));
    FOREBAY_TRY(file_->allocate(begin, segment_bytes_));
    const auto map = map_of(index);
    if (!map) return map.status();
    auto part = std::make_unique<io::MappingPart>(*map.value(), begin % map.value()->bytes().size(), segment_bytes_);
    auto segment = std::make_unique<Segment>(index, std::move(part), file_.get());
    for (std::uint64_t to = grown_to;
         to < begin + segment_bytes_ && !grown_to_.compare_exchange_weak(to, begin + segment_bytes_);) {
    }
    return segment;
}

// The mapping of a segment. It may reach beyond the end of file; those pages are not touched until the file grows.
Result<io::Mapping*> SegmentFile::map_of(std::uint64_t index) {
    const std::uint64_t which = index / segments_per_map_;
    const std::lock_guard lock(mapping_);
    if (which >= maps_.size()) maps_.resize(which + 1);
    if (!maps_[which]) {
        auto mapping = file_->map(which * segments_per_map_ * segment_bytes_, segments_per_map_ * segment_bytes_);
        if (!mapping) return mapping.status();
        maps_[which] = std::move(mapping).value();
    }
    return maps_[which].get();
}

Status SegmentFile::write(const Segment& segment, std::uint64_t offset, std::span<const io::Bytes> pieces) {
    return file_->write_gather_at(segment.index() * segment_bytes_ + offset, pieces);
}

// The failure is counted before another thread can ask, because the system tells it only once. Nothing allocates
// before: the file reports an error without memory, too (io/file.h).
Status SegmentFile::sync() {
    const std::lock_guard lock(losing_);
    const Status synced = file_->sync();
    if (!synced && !io::lacks_descriptors(synced)) ++losses_;
    return synced;
}

std::uint64_t SegmentFile::losses() {
    const std::lock_guard lock(losing_);
    if (in_memory_) return losses_;
    const Status failure = file_->late_failure();
    if (!failure && !io::lacks_descriptors(failure)) ++losses_;
    return losses_;
}

void SegmentFile::make_warm(Segment& segment) noexcept {
    if (segment.warm()) return;
    // On a disk, a fault on a page that was never written costs twice as much as writing zeros first.
    if (segment.untouched() && !in_memory_) {
        const std::uint64_t begin = segment.index() * segment_bytes_;
        const std::uint64_t from = align_up(segment.tail, kZeros.size());
        try {
            const std::vector<io::Bytes> zeros((segment_bytes_ - std::min(from, segment_bytes_)) / kZeros.size(),
                                               io::Bytes(kZeros));
            (void)file_->write_gather_at(begin + from, zeros);
        } catch (const std::bad_alloc&) {
            // Without zeros the pages fault more slowly.
        }
    }
    segment.touch();
}

void SegmentFile::discard(const Segment& segment) {
    (void)file_->punch(segment.index() * segment_bytes_, segment_bytes_);
}

}   // namespace forebay::log
