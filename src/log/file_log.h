// The log of one open file: appends records to the newest segment. `segments` gives them back, oldest first. Errors: a
// failed device faults the mapping (io/guarded_access.h), or fails a write to a cold segment. The call then has
// appended nothing and returns false, or a null segment; `fault` describes the failure. Invariants: a segment begins
// with an open record. A record exists for readers once it is complete. Ownership: the log owns its list of segments;
// the pool outlives both. Thread-safety: the owner serialises appends, which touch the newest segment only. `adopt`
// changes the list and needs its lock, called the segments' lock below. Blocking: appends to a cold segment write to
// the device; `sync` waits for it. After a crash: a record exists once `append_*` has returned.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/guarded_access.h"
#include "log/segment_list.h"
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
    ~FileLog() = default;   // gives back the segments that are left
    FileLog(const FileLog&) = delete;
    FileLog& operator=(const FileLog&) = delete;

    [[nodiscard]] SegmentList& segments() noexcept { return segments_; }
    [[nodiscard]] const SegmentList& segments() const noexcept { return segments_; }

    // The payload bytes that one data record can take in the newest segment. `use_slack` includes the space at the
    // segment's end that is kept for commits, bypass records and data copied forward.
    [[nodiscard]] std::uint64_t room(bool use_slack) const noexcept;

    // Takes a segment for `adopt` from the pool, without changing the log. kNoSpace: the pool has none.
    Result<Segment*> acquire(SegmentPool::Take take = SegmentPool::Take::kAny) { return segments_.acquire(take); }
    // Several processes write the file. Called before the first append.
    void share(const Sharing& sharing, bool durable) noexcept {
        target_.sharing = sharing;
        target_.durable = durable;
    }

    // The last commit. Every segment repeats it, because the commit's own record may have been given back.
    struct LastCommit {
        std::uint64_t sequence = 0;   // 0: no commit yet
        std::uint64_t size = 0;       // of the file at the commit, or at open
        std::uint64_t time_ns = 0;    // CLOCK_REALTIME
    };
    // Stores the target's state in the newest and each later segment. Segments' lock. The next append finds a fault.
    void note(const TargetState& state) noexcept;
    // Makes `segment` the newest, even if it faults, and appends an open record. Returns false after a fault.
    bool adopt(Segment* segment, const LastCommit& commit, std::uint64_t sequence);

    struct Position {
        Segment* segment = nullptr;   // null: a fault
        std::uint64_t offset = 0;     // of the payload
    };
    // Bytes and their offset in the file.
    struct Part {
        std::uint64_t offset = 0;
        io::Bytes bytes;
    };
    // The space that a record's extent table takes for each part after the first.
    static constexpr std::uint64_t kPartBytes = kExtentBytes;
    // Appends one data record with the parts one after another. `parts` is not empty, and fits (see room).
    Position append_data(std::span<const Part> parts, DataClass data_class, std::uint64_t sequence,
                         std::uint64_t time_ns);
    Position append_data(std::uint64_t offset, io::Bytes bytes, DataClass data_class, std::uint64_t sequence,
                         std::uint64_t time_ns) {
        const Part part{offset, bytes};
        return append_data({&part, 1}, data_class, sequence, time_ns);
    }
    // Appends a data record whose bytes lie in segment `from`.
    Position copy_data(std::uint64_t offset, const Segment& from, io::Bytes bytes, DataClass data_class,
                       std::uint64_t sequence, std::uint64_t time_ns) {
        const Part part{offset, bytes};
        return append({&part, 1}, from.bytes(), data_class, sequence, time_ns);
    }
    // Returns true if a record without payload fits.
    [[nodiscard]] bool marker_fits() const noexcept;
    // Returns false after a fault.
    bool append_marker(RecordKind kind, std::uint64_t argument, std::uint64_t sequence);
    // `supersedes` is false if no log has an older record of the range.
    bool append_through(ByteRange range, std::uint64_t sequence, bool supersedes = true);
    // The last fault as EIO, with the log file's name and the offset in it.
    [[nodiscard]] Status fault() const;

    // Notes in the newest segment that segments below `order` are about to be given back. After a loss of power they
    // may reappear, and a durable log must not replay them. Returns false after a fault.
    bool declare_needed_from(std::uint64_t order) noexcept;
    // Fails too if `lost` does.
    [[nodiscard]] Status sync();
    // EIO from then on if the device has failed to write back bytes of the process's segments since the begin of this
    // log: they may be others now. A failure that `sync` has returned does not count again.
    [[nodiscard]] Status lost() const { return lost_since(losses_.load()); }
    // As `lost`, but a failure that `sync` has returned counts too. While this fails, bytes read from the log may be
    // wrong, so their log must not go for good as if the target had them.
    [[nodiscard]] Status ever_lost() const { return lost_since(losses_before_); }

  private:
    [[nodiscard]] Segment& newest() const noexcept { return *segments_.newest(); }   // of a log that is not empty
    // The place of the next record. Readers stop at the tail, so the space needs no clearing.
    [[nodiscard]] std::byte* end() const noexcept { return newest().at(newest().tail); }
    [[nodiscard]] Status lost_since(std::uint64_t losses) const;
    Position append(std::span<const Part> parts, io::Bytes from, DataClass data_class, std::uint64_t sequence,
                    std::uint64_t time_ns);
    // Writes to the newest segment by a system call. Returns false on failure, which it keeps in `write_failure_`.
    bool write_payload(std::span<const Part> parts, std::uint64_t offset);
    void publish(std::uint64_t bytes) noexcept;
    void store_state(Segment& segment) const noexcept;
    // Runs `act`, which stores into the newest segment and may load from memory at `from`.
    template <class Act>
    bool store(io::Bytes from, Act&& act) noexcept {
        const std::byte* const at = io::guarded(newest().bytes(), from, act);
        if (at == nullptr) return true;
        fault_at_ = at;
        fault_in_ = segments_.newest();
        return false;
    }

    SegmentPool& pool_;
    SegmentList segments_;
    LogTarget target_;
    TargetState state_;
    const bool check_large_payloads_;
    const std::uint64_t slack_bytes_;
    const std::uint64_t losses_before_;   // of the segments' file, at the begin of this log
    std::atomic<std::uint64_t> losses_;   // of the segments' file that the caller knows of
    std::vector<ByteRange> extents_;      // of the record being appended
    std::vector<io::Bytes> pieces_;       // of its payload
    Status write_failure_;
    const std::byte* fault_at_ = nullptr;
    const Segment* fault_in_ = nullptr;
};

}   // namespace forebay::log
