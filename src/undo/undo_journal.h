// Keeps the bytes that a file holds before a rank overwrites them, until the next commit (option nodes=consistent).
// Each rank of a file that several nodes write together has one journal. The first time that a rank overwrites bytes
// after a commit, it copies those below the file's size at that commit into the journal. The file's size covers bytes
// beyond. So the journals of all ranks can take the file back to that commit, whatever the target has received since.
// A commit takes two steps, with a meeting of all ranks between them. `prepare` says that this rank has written
// everything, and `decide` that all ranks have. Bytes overwritten after `prepare` belong to the next epoch.
// Phases tell which of two ranks overwrote a byte first. The count rises when this rank enters a meeting of all ranks,
// and again when it leaves. Every rank has the same meetings in the same order.
// Thread-safety: all calls from any thread, but `prepare`, `decide` and `close` one at a time. Blocks on reads of the
// target, on writes to the journal, and on another thread that copies overlapping bytes. `prepare` waits for threads
// that are overwriting. After a crash, the journal holds every byte of the target that was overwritten between
// `begin_overwriting` and `end_overwriting`, except those that it was told to give up. That holds for the death of
// processes; the journal syncs nothing.
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
    // Creates a journal in an empty `file`, at commit 0 of this size. The records take at most `bytes_max`.
    [[nodiscard]] static Result<std::unique_ptr<UndoJournal>> create(std::unique_ptr<io::File> file,
                                                                     const UndoHeader& header, std::uint64_t size,
                                                                     std::uint64_t bytes_max);

    // Copies the bytes of `target` in `range` that a commit needs. Returns the number of bytes that it could not copy;
    // it notes them, and the caller may overwrite them all the same. Each call needs an `end_overwriting`.
    std::uint64_t begin_overwriting(ByteRange range, io::File& target);
    void end_overwriting() noexcept;

    // Counts that this rank enters or leaves a meeting of all ranks.
    void step() noexcept { phase_.fetch_add(1); }
    [[nodiscard]] std::uint64_t phase() const noexcept { return phase_.load(); }

    // Notes that this rank has written all its bytes of commit `number()` to the target.
    [[nodiscard]] Status prepare(std::uint64_t size);
    // Makes the commit and drops the bytes preserved for it. All ranks have prepared. Without their agreement the
    // caller does not call this; the last commit stays, and the next one gets another number.
    [[nodiscard]] Status decide();
    // Ends preserving. All ranks have decided, and no later write concerns this journal.
    [[nodiscard]] Status close();

    // Returns the number of the next commit.
    [[nodiscard]] std::uint64_t number() const;
    [[nodiscard]] std::uint64_t decided() const;
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
    UndoState state_;           // as in the file
    std::uint64_t epoch_ = 1;   // the epoch of new writes
    std::uint64_t limit_ = 0;   // no commit needs bytes beyond it
    RangeUnion preserved_;      // in this epoch
    bool preparing_ = false;    // no thread may begin to overwrite
    std::size_t overwriting_ = 0;
    std::vector<ByteRange> being_copied_;
    std::uint64_t end_ = kUndoFrontBytes;   // offset of the next record
    std::uint64_t end_of_prepared_ = 0;     // offset of the first record after `prepare`
};

// Returns a target that preserves bytes before it overwrites or cuts them. Calls `given_up` with the number of bytes
// that it changes without preserving them.
using GivenUp = std::function<void(std::uint64_t bytes)>;
[[nodiscard]] std::shared_ptr<io::File> make_guarded_file(std::shared_ptr<io::File> target,
                                                          std::shared_ptr<UndoJournal> journal, GivenUp given_up);

}   // namespace forebay::undo
