// The file of a process's segments: makes segments of it, and writes, warms and syncs them. The file lies on the
// staging area and is cut into segments of equal size. It grows by one segment at a time. Invariants: a segment has its
// device space before it exists, so stores never run out of space. A file that another program cut never grows again,
// because staged bytes beyond the cut would turn into zeros. Touching a mapping's pages costs more than
// writing them once by a system call. So a new segment is cold: large payloads go to the file by `write`. A caller that
// stores small ones calls `make_warm` first. Ownership: this owns the file and its mappings, which outlive the
// segments. Thread-safe: `mapping_` guards the mappings, `losing_` the losses; both are innermost locks. One thread at
// a time makes, warms or writes one segment. Blocking: all calls but the questions wait for the device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "log/segment.h"

namespace forebay::log {

struct PoolLimits {
    std::uint64_t capacity_bytes = 0;   // at least two segments are always allowed
    std::uint64_t segment_bytes = 0;
    std::uint64_t reserve_bytes = 0;   // most that SegmentPool::warm_up touches
    // Delay before the first touch: a short program never uses warm pages.
    std::chrono::milliseconds warm_up_after{1000};
    bool in_memory = false;   // the file's pages are its device (tmpfs)
    // Bytes of one mapping: the system limits the mappings of a process.
    std::uint64_t map_bytes = std::uint64_t{64} << 20;

    [[nodiscard]] std::uint64_t segments() const noexcept {
        return capacity_bytes / segment_bytes < 2 ? 2 : capacity_bytes / segment_bytes;
    }
};

class SegmentFile {
  public:
    // `file` is new and empty.
    SegmentFile(std::unique_ptr<io::File> file, const PoolLimits& limits);
    SegmentFile(const SegmentFile&) = delete;
    SegmentFile& operator=(const SegmentFile&) = delete;

    // Allocates device space for segment `index` and maps it.
    Result<std::unique_ptr<Segment>> create(std::uint64_t index);
    // Writes `pieces` one after another at `offset` of the segment, past its mapping.
    [[nodiscard]] Status write(const Segment& segment, std::uint64_t offset, std::span<const io::Bytes> pieces);
    // Touches the pages of a cold segment; bytes below the tail stay. Reports no failure: the store will fail.
    void make_warm(Segment& segment) noexcept;
    // Gives the segment's device space back. Recovery finds nothing there.
    void discard(const Segment& segment);

    [[nodiscard]] Result<io::FileState> state() { return file_->state(io::File::Ask::kTimes); }
    // Waits until all earlier stores into segments are on the device.
    Status sync();
    // Asks how often the device failed to write back stores that it had taken: a count that only rises. A failed sync
    // counts, since a second one would not report what the first one lost. Waits for a sync at most.
    [[nodiscard]] std::uint64_t losses();

    [[nodiscard]] std::uint64_t segment_bytes() const noexcept { return segment_bytes_; }
    [[nodiscard]] const std::string& name() const noexcept { return file_->name(); }

  private:
    [[nodiscard]] Result<io::Mapping*> map_of(std::uint64_t index);

    const std::unique_ptr<io::File> file_;
    const std::uint64_t segment_bytes_;
    const std::uint64_t segments_per_map_;
    const bool in_memory_;
    std::mutex mapping_, losing_;
    std::uint64_t losses_ = 0;                         // guarded by losing_
    std::vector<std::unique_ptr<io::Mapping>> maps_;   // many segments each
    std::atomic<std::uint64_t> grown_to_{0};           // least size of the file, unless another program cut it
};

}   // namespace forebay::log
