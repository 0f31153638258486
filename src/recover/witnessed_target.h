// A target that recovery writes to: what is about to be done to it is noted in the log first, as the process did that
// has left the log.
//
// If the recovery is killed, the next one can tell what this one has written from what somebody else has. Thread-safe.
// Blocks as the target does, and on a write of the log before each change.
#pragma once

#include <memory>
#include <mutex>

#include "base/status.h"
#include "io/forwarding_file.h"
#include "log/scan.h"
#include "log/target_witness.h"

namespace forebay::recover {

class WitnessedTarget final : public io::ForwardingFile {
  public:
    // `log` has a state of the target, and lies in `pool`; both outlive this. The target is as `now` says, and locked.
    // `although_changed`: somebody else has changed it, so the log's samples are no sign of it any more.
    WitnessedTarget(std::shared_ptr<io::File> target, io::File& pool, const log::ScannedLog& log,
                    const io::FileState& now, bool although_changed = false);

    Status write_at(std::uint64_t offset, io::Bytes bytes) override;
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override;
    Status resize(std::uint64_t size) override;
    Status punch(std::uint64_t offset, std::uint64_t length) override;

    // Nothing more comes: notes what the target is now.
    [[nodiscard]] Status note_rest();

  private:
    // Notes what a write of `range` is about to change, if nothing else is known of the target's content.
    void look_before_write(ByteRange range);
    template <class Change>
    Status note(Change&& change) {
        const std::lock_guard lock(mutex_);
        change();
        return log::store_target_state(pool_, log_, witness_.state());
    }

    io::File& pool_;
    const log::ScannedLog& log_;
    std::mutex mutex_;
    log::TargetWitness witness_;   // under mutex_
};

}   // namespace forebay::recover
