// Facts about the target that a group's participants share: commits, pace, failures. Thread-safe. No call blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "extent/range.h"
#include "group/bypass_count.h"
#include "group/participants.h"
#include "group/staged_regions.h"
#include "log/file_log.h"

namespace forebay::group {

class SharedTarget {
  public:
    explicit SharedTarget(Participants& participants) noexcept : participants_(participants) {}

    // The file's size at the last commit. The drainer sets it.
    [[nodiscard]] std::uint64_t committed_size() const noexcept {
        return participants_.header().committed_size.load(std::memory_order_acquire);
    }
    void set_committed_size(std::uint64_t size) noexcept {
        participants_.header().committed_size.store(size, std::memory_order_release);
    }
    // For a target that is as fast as the log: the ns of a write of drain::TargetPace::kBytes while all participants
    // write. Nullopt if the target is slower or its pace unknown: all writes are staged. The drainer sets it.
    [[nodiscard]] std::optional<std::uint64_t> memory_pace() const noexcept {
        const std::uint64_t ns = participants_.header().memory_pace.load();
        return ns != 0 ? std::optional(ns) : std::nullopt;
    }
    void set_memory_pace(std::optional<std::uint64_t> ns) noexcept {
        participants_.header().memory_pace.store(ns.value_or(0) * participants_.count());
    }
    [[nodiscard]] BypassCount& bypasses() noexcept { return participants_.header().bypasses; }
    // See group/staged_regions.h. The result of `first_unstaged` holds only if `Participants::lost` is ok after it.
    void note_staged(std::span<const log::FileLog::Part> parts) noexcept {
        group::note_staged(participants_.header().exposed, parts);
    }
    [[nodiscard]] ByteRange first_unstaged(ByteRange range) const noexcept {
        return group::first_unstaged(participants_.header().exposed, range);
    }

    // Reports that the drainer cannot write the target, and ends the waits for room. With `through`, writes bypass the
    // log after `allow_bypass`. The drainer then has no target write in flight, and begins none before the close.
    void fail(int sys_errno, bool through) noexcept;
    void allow_bypass() noexcept;
    [[nodiscard]] bool bypasses_log() const noexcept {
        return participants_.header().bypass.load(std::memory_order_acquire) == Bypass::kNow;
    }

  private:
    Participants& participants_;
};

}   // namespace forebay::group
