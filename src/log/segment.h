// One segment of a staging log: its mapped bytes, the words in its header that change in use, and its accounts. A
// segment in use belongs to one FileLog, and the lock of that log's owner guards its accounts. A free segment belongs
// to the pool (log/segment_pool.h). Invariants: the generation rises whenever the segment changes hands. The pages only
// become warmer. Ownership: the segment owns its mapping. Other processes map the same file, and read the words of the
// header. Thread-safety: as above; the words in the header are atomic. Nothing blocks but a page fault, which may be
// reported as a fault of the device (io/guarded_access.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "area/process.h"
#include "base/status.h"
#include "io/file.h"
#include "log/frontier.h"

namespace forebay::log {

class Segment {
  public:
    // `file` names the segment in messages, and outlives it.
    Segment(std::uint64_t index, std::unique_ptr<io::Mapping> mapping, const io::File* file = nullptr)
        : index_(index), mapping_(std::move(mapping)), file_(file) {}

    [[nodiscard]] std::uint64_t index() const noexcept { return index_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return mapping_->bytes().size(); }
    [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return mapping_->bytes().data() + offset; }
    [[nodiscard]] io::MutableBytes bytes() const noexcept { return mapping_->bytes(); }

    // Rises whenever the segment changes hands: a copy is valid if it has not risen. Reads the mapping, and may fault.
    [[nodiscard]] std::uint64_t generation() const noexcept;

    // The value that seals the segment's records (log/format.h). Reads the mapping, so it may fault.
    [[nodiscard]] std::uint64_t use() const noexcept;

    // The end of the last complete record, as every process sees it. None if the mapping faults.
    [[nodiscard]] std::optional<std::uint64_t> published_tail() const noexcept;

    // EIO with the file's name and the offset of `address`, where the mapping faulted (io/guarded_access.h).
    [[nodiscard]] Status fault(const std::byte* address) const;

    // Begins a use by log `log` as its segment `order_in_log`: empty, with a header. Fails if the mapping faults.
    [[nodiscard]] Status begin(const area::ProcessIdentity& process, std::uint64_t log, std::uint64_t order_in_log);
    // Ends the use: the header is no longer valid, and the generation is new. Returns false if the mapping faults.
    [[nodiscard]] bool end() noexcept;

    // True if the pages were touched. Stores to a cold segment succeed too, but each page costs a fault.
    [[nodiscard]] bool warm() const noexcept { return pages_ == Pages::kTouched; }
    // True if the pages were never written.
    [[nodiscard]] bool untouched() const noexcept { return pages_ == Pages::kNone; }
    void note_written() noexcept {
        if (pages_ == Pages::kNone) pages_ = Pages::kWritten;
    }
    // Maps all pages for writing.
    void touch() noexcept {
        mapping_->touch();
        pages_ = Pages::kTouched;
    }

    // True if the segment has no live bytes, no pins, and no records to index.
    [[nodiscard]] bool idle() const noexcept {
        return live_bytes == 0 && pins == 0 && unindexed.load(std::memory_order_relaxed) == 0;
    }

    std::uint64_t tail = 0;                    // end of the last record
    std::uint64_t own_generation = 0;          // the generation, for its owner
    std::uint64_t live_bytes = 0;              // payload that no other place has yet for certain
    std::uint64_t pins = 0;                    // readers and target writes that use it
    std::atomic<std::uint64_t> unindexed{0};   // records that the owner has not indexed yet; not guarded
    std::uint64_t first_time_ns = 0;           // CLOCK_REALTIME of the first data record; 0: none
    std::uint64_t participant = 0;             // the log's owner among the group that writes the file
    SegmentOrder order;                        // order of the records among those of all logs of the file

  private:
    enum class Pages : std::uint8_t {
        kNone,      // allocated only
        kWritten,   // mostly in the page cache, but not mapped
        kTouched,   // mapped and writable
    };

    std::uint64_t index_;
    std::unique_ptr<io::Mapping> mapping_;
    const io::File* file_;
    Pages pages_ = Pages::kNone;   // changed by the owner or, while the segment is free, by the pool
};

}   // namespace forebay::log
