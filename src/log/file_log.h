// The log of one open file: appending records to its segments, giving segments back oldest first.
//
// A staging device that fails shows as a fault of the mapping (io/guarded_access.h) or, of a cold segment, as the
// failure of a write. What appends or stores here then has appended nothing, says so by its result, and `fault` tells
// what happened. Thread-safety: the owner serialises appending, which touches the newest segment only; everything that
// changes the list of segments (adopt, release_*) needs the lock that guards the segments' accounts.
// After a crash: a record exists once `append_*` has returned.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "io/guarded_access.h"
#include "log/segment_pool.h"

namespace forebay::log {

struct LogTarget {
    std::uint64_t device = 0, inode = 0;
    std::string path;
    Sharing sharing{};
    bool durable = false;   // see RecordHeader
    Birth born{};
};

class FileLog {
  public:
    FileLog(SegmentPool& pool, std::uint64_t log, LogTarget target, bool check_large_payloads);
    ~FileLog();   // gives back what is left
    FileLog(const FileLog&) = delete;
    FileLog& operator=(const FileLog&) = delete;

    [[nodiscard]] bool empty() const noexcept { return newest_ == nullptr; }
    [[nodiscard]] std::size_t segments() const noexcept { return segments_.size(); }
    [[nodiscard]] Segment* oldest() const noexcept { return segments_.front(); }
    [[nodiscard]] Segment* newest() const noexcept { return newest_; }
    // The place in the log of the oldest segment; of the next one, if the log is empty.
    [[nodiscard]] std::uint64_t oldest_order() const noexcept { return next_order_ - segments_.size(); }

    // Payload that one data record could take in the newest segment now. With `use_slack` also from
    // the slack at the segment's end, which is kept for records that must not wait for room: commits,
    // bypass records and data copied forward.
    [[nodiscard]] std::uint64_t room(bool use_slack) const noexcept;

    // A fresh segment for `adopt`, from the pool; does not touch the log. kNoSpace: there is none.
    Result<Segment*> acquire(SegmentPool::Take take = SegmentPool::Take::kAny) {
        return pool_.acquire(log_, next_order_, take);
    }
    // The file is written together with others; nothing has been appended yet.
    void share(const Sharing& sharing, bool durable) noexcept {
        target_.sharing = sharing;
        target_.durable = durable;
    }

    // What every segment repeats: the commit's own record may be given back.
    struct LastCommit {
        std::uint64_t sequence = 0;   // 0: there was none yet
        std::uint64_t size = 0;       // of the file; of none yet: at open
        std::uint64_t time_ns = 0;    // CLOCK_REALTIME
    };
    // What is known of the target from now on; goes into the newest segment, and into each that comes. For who holds
    // the lock that guards the list of segments. Best effort: a fault is found out by whoever appends.
    void note(const TargetState& state) noexcept;
    // Makes `segment` the newest and begins it with an open record. False: a fault; the segment is the newest all the
    // same.
    bool adopt(Segment* segment, const LastCommit& commit, std::uint64_t sequence);

    struct Position {
        Segment* segment = nullptr;   // null: a fault
        std::uint64_t offset = 0;     // of the payload
    };
    // Bytes for one place in the file.
    struct Part {
        std::uint64_t offset = 0;
        io::Bytes bytes;
    };
    // What the table of a record takes in the room for each part after the first.
    static constexpr std::uint64_t kPartBytes = kExtentBytes;
    // Copies the bytes as one data record; they fit (see room). `parts` is not empty. Within the record the
    // parts lie one after the other.
    Position append_data(std::span<const Part> parts, DataClass data_class, std::uint64_t sequence,
                         std::uint64_t time_ns);
    Position append_data(std::uint64_t offset, io::Bytes bytes, DataClass data_class, std::uint64_t sequence,
                         std::uint64_t time_ns) {
        const Part part{offset, bytes};
        return append_data({&part, 1}, data_class, sequence, time_ns);
    }
    // The same for bytes that lie in a segment themselves.
    Position copy_data(std::uint64_t offset, const Segment& from, io::Bytes bytes, DataClass data_class,
                       std::uint64_t sequence, std::uint64_t time_ns) {
        const Part part{offset, bytes};
        return append({&part, 1}, from.bytes(), data_class, sequence, time_ns);
    }
    // Whether a record without payload still fits.
    [[nodiscard]] bool marker_fits() const noexcept;
    // False: a fault.
    bool append_marker(RecordKind kind, std::uint64_t argument, std::uint64_t sequence);
    // `supersedes`: there may be older records of the range, in whichever log.
    bool append_through(ByteRange range, std::uint64_t sequence, bool supersedes = true);
    // EIO: the last fault, by the log file's name and the offset in it.
    [[nodiscard]] Status fault() const;

    // The lowest records that are still needed; for a file that is shared.
    [[nodiscard]] Frontier needed() const noexcept;

    // How many of the oldest segments, not the newest, nobody needs.
    [[nodiscard]] std::size_t idle_segments() const noexcept;

    // How many of the oldest segments may go, if the newest `keep` stay; for a file that is shared.
    [[nodiscard]] std::size_t segments_that_may_go(const Frontier& frontier, std::uint64_t drained_metadata,
                                                   std::size_t keep) const noexcept;

    // The end of its last complete record (log_position); 0 if it is empty. Under the lock that guards the list of
    // segments.
    [[nodiscard]] std::uint64_t end_position() const noexcept;

    // Whether anybody still looks at one of the segments.
    [[nodiscard]] bool pinned() const noexcept;
    // Says, in the newest segment, that those of an order below `order` are about to be given back. Of a durable log:
    // one that comes back with the power must not be replayed. False: a fault.
    bool declare_needed_from(std::uint64_t order) noexcept;
    [[nodiscard]] Status sync() { return pool_.sync(); }
    // Gives the oldest segment back.
    void release_oldest();
    void release_all();
    // Leaves everything where it is, for recovery; the log is empty for its owner.
    void abandon() noexcept;

  private:
    // Where the next record goes. Readers look below the tail only: nothing has to be cleared first.
    [[nodiscard]] std::byte* end() const noexcept { return newest_->at(newest_->tail); }
    Position append(std::span<const Part> parts, io::Bytes from, DataClass data_class, std::uint64_t sequence,
                    std::uint64_t time_ns);
    // Into the newest segment, by a system call. False: it failed.
    bool write_payload(std::span<const Part> parts, std::uint64_t offset);
    void publish(std::uint64_t bytes) noexcept;
    void store_state(Segment& segment) const noexcept;
    // Runs `act`, which stores into the newest segment and may load from memory at `from`.
    template <class Act>
    bool store(io::Bytes from, Act&& act) noexcept {
        const std::byte* const at = io::guarded(newest_->bytes(), from, act);
        if (at == nullptr) return true;
        fault_at_ = at;
        fault_in_ = newest_;
        return false;
    }

    SegmentPool& pool_;
    const std::uint64_t log_;
    LogTarget target_;
    TargetState state_;
    const bool check_large_payloads_;
    const std::uint64_t slack_bytes_;
    std::uint64_t next_order_ = 0;
    std::deque<Segment*> segments_;    // oldest first
    Segment* newest_ = nullptr;        // segments_.back(), readable without the lock by the appender
    std::vector<ByteRange> extents_;   // of the record being appended
    std::vector<io::Bytes> pieces_;    // of its payload
    Status write_failure_;
    const std::byte* fault_at_ = nullptr;
    const Segment* fault_in_ = nullptr;
};

}   // namespace forebay::log
