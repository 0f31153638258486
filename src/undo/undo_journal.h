// Keeps what a file holds before it is overwritten, until the commit that makes the overwriting good (option
// nodes=consistent).
//
// One per rank of a file that several nodes write together. Bytes below the file's size at the last commit are copied
// into the journal the first time that they are overwritten after it; what lies beyond goes with the size. So whoever
// has the journals of all ranks can take the file back to that commit, whatever has reached it since.
//
// A commit takes two steps, with a meeting of all ranks between them: `prepare` says that this rank has written
// everything, `decide` that all have. What is overwritten after `prepare` belongs to the next epoch already.
//
// Phases tell which of two ranks has overwritten a byte first. The count goes up when this rank comes to a meeting of
// all, and again when it leaves; every rank has the same meetings in the same order.
//
// Thread-safety: all calls, from any thread; `prepare`, `decide` and `close` one at a time. Blocks on reads of the
// target and writes to the journal, and on another thread that is preserving overlapping bytes; `prepare` waits for
// those that are overwriting. After a crash: a byte of the target that is overwritten between `begin_overwriting` and
// `end_overwriting` is in the journal, unless it was told to be given up. That holds for the death of processes;
// nothing is synced.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "extent/range_union.h"
#include "undo/undo_format.h"

namespace forebay::undo {

class UndoJournal {
  public:
    // `file` is new and empty. The state is that of a commit 0 with this size. The records take `bytes_max` at most.
    [[nodiscard]] static Result<std::unique_ptr<UndoJournal>> create(std::unique_ptr<io::File> file,
                                                                     const UndoHeader& header, std::uint64_t size,
                                                                     std::uint64_t bytes_max);

    // Copies what `target` has of `range` and what no commit can do without. Returns how many bytes could not be
    // copied, which is noted: they may be overwritten all the same. Every call is followed by one of `end_overwriting`.
    std::uint64_t begin_overwriting(ByteRange range, io::File& target);
    void end_overwriting() noexcept;

    // This rank comes to a meeting of all, or leaves it.
    void step() noexcept { phase_.fetch_add(1); }
    [[nodiscard]] std::uint64_t phase() const noexcept { return phase_.load(); }

    // Everything that commit `number()` promises is in the target, as far as this rank has written it.
    [[nodiscard]] Status prepare(std::uint64_t size);
    // All ranks have prepared: the commit is made, and what was preserved for it is let go. If they have not, this is
    // not called; the last commit stays what it was, and the next one gets another number.
    [[nodiscard]] Status decide();
    // All ranks have decided, and nobody writes any more, or what is written is nobody's business. Nothing is preserved
    // from now on.
    [[nodiscard]] Status close();

    // Of the commit that comes next.
    [[nodiscard]] std::uint64_t number() const;
    [[nodiscard]] std::uint64_t decided() const;
    // Ever copied.
    [[nodiscard]] std::uint64_t preserved_bytes() const noexcept { return preserved_bytes_.load(); }

  private:
    UndoJournal(std::unique_ptr<io::File> file, std::uint64_t size, std::uint64_t bytes_max);
    std::uint64_t copy_missing(ByteRange range, io::File& target, std::unique_lock<std::mutex>& lock);
    bool copy(ByteRange piece, io::File& target, std::unique_lock<std::mutex>& lock);
    void give_up(std::uint64_t bytes);
    [[nodiscard]] Status write_state(const UndoState& state);
    [[nodiscard]] bool is_being_copied(ByteRange range) const noexcept;

    const std::unique_ptr<io::File> file_;
    const std::uint64_t bytes_max_;
    std::atomic<std::uint64_t> phase_{0}, preserved_bytes_{0};

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    UndoState state_;           // as it is in the file
    std::uint64_t epoch_ = 1;   // of what is overwritten now
    std::uint64_t limit_ = 0;   // no commit needs what lies beyond
    RangeUnion preserved_;      // of this epoch
    bool preparing_ = false;    // no overwriting begins
    std::size_t overwriting_ = 0;
    std::vector<ByteRange> being_copied_;
    std::uint64_t end_ = kUndoFrontBytes;   // where the next record goes
    std::uint64_t end_of_prepared_ = 0;     // where the first record after `prepare` goes
};

// A target of which everything is preserved before it is overwritten or cut off. Told of bytes that could not be.
using GivenUp = std::function<void(std::uint64_t bytes)>;
[[nodiscard]] std::shared_ptr<io::File> make_guarded_file(std::shared_ptr<io::File> target,
                                                          std::shared_ptr<UndoJournal> journal, GivenUp given_up);

}   // namespace forebay::undo
