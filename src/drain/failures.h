// The failures of one outflow: keeps the first error, counts attempts, and halts the drain after the last attempt.
// With on_error=retry the drain pauses after a passing failure and tries again. A permanent failure, or the last failed
// attempt, halts it until a closing attempt. Plans leave out ranges that could not be read back from the log.
// Invariants: a halted drain is in no pause. The first error stays until `forget`. A failed sync is never forgotten,
// because a later sync does not restore bytes that it lost. Not thread-safe: the file's lock guards it. Nothing blocks.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "base/status.h"
#include "extent/range_set.h"

namespace forebay::drain {

class Failures {
  public:
    static constexpr char kFailed[] = "a write failed";   // text of a failure without memory for its own

    // `retries`: option on_error=retry.
    explicit Failures(bool retries) noexcept : retries_(retries) {}
    void open() noexcept { *this = Failures(retries_); }

    // Begins a pause before another attempt. Returns false if the failure is final. `now_ns` is of the clock of waits.
    [[nodiscard]] bool retry(const Status& failure, std::uint64_t now_ns) noexcept {
        if (!retries_ || halted_ || !may_pass(failure.sys_errno()) || attempts_ == kAttemptsMax) return false;
        retry_at_ns_ = now_ns + (kPauseNs << attempts_++);
        return true;
    }
    // Begins a pause that is no failed attempt: memory is short.
    void pause(std::uint64_t now_ns) noexcept {
        if (!halted_) retry_at_ns_ = std::max(retry_at_ns_, now_ns + kPauseNs);
    }
    [[nodiscard]] bool pausing(std::uint64_t now_ns) noexcept {
        if (retry_at_ns_ != 0 && now_ns >= retry_at_ns_) retry_at_ns_ = 0;
        return retry_at_ns_ != 0;
    }
    [[nodiscard]] std::uint64_t retry_at_ns() const noexcept { return retry_at_ns_; }
    void end_pause() noexcept { retry_at_ns_ = 0; }
    // All bytes were drained: counts attempts anew.
    void note_drained() noexcept { attempts_ = 0; }

    // True from a final failure until a closing attempt.
    [[nodiscard]] bool halted() const noexcept { return halted_; }
    void halt() noexcept {
        halted_ = true;
        retry_at_ns_ = 0;
    }
    void resume() noexcept { halted_ = false; }
    // Begins a closing attempt: the drain writes and reads back again all that failed.
    void try_again() noexcept {
        halted_ = false;
        unreadable_.clear();
        retry_at_ns_ = 0;
    }

    // Returns true if `failure` is the first one.
    bool keep(const Status& failure) noexcept {
        if (!error_.is_ok()) return false;
        error_ = copy_of(failure, kFailed);
        return true;
    }
    void forget() noexcept { error_ = Status::ok(); }
    [[nodiscard]] const Status& first_error() const noexcept { return error_; }
    // The first failure, with the context "an earlier background write failed", for later calls of the program.
    [[nodiscard]] Status error() const {
        return error_.is_ok() ? Status::ok() : error_.with_context("an earlier background write failed");
    }
    [[nodiscard]] const Status& target_lost() const noexcept { return target_lost_; }
    void lose_target(const Status& failure, const std::string& path) noexcept {
        try {
            target_lost_ = failure.with_context("bytes written to " + path + " may not have reached its device");
        } catch (const std::bad_alloc&) {
            target_lost_ = copy_of(failure, kFailed);
        }
    }

    [[nodiscard]] const RangeSet& unreadable() const noexcept { return unreadable_; }
    void add_unreadable(const std::vector<ByteRange>& ranges) {
        for (const ByteRange& range : ranges) unreadable_.add(range);
    }
    // The log has changed: reads the ranges again.
    void clear_unreadable() noexcept { unreadable_.clear(); }

  private:
    // Attempts after the first. The pauses double, and take less than a second together.
    static constexpr unsigned kAttemptsMax = 5;
    static constexpr std::uint64_t kPauseNs = 20'000'000;

    [[nodiscard]] static bool may_pass(int sys_errno) noexcept {
        return sys_errno == EIO || sys_errno == ENOSPC || sys_errno == EDQUOT || sys_errno == ESTALE ||
               sys_errno == EINTR || sys_errno == EAGAIN;
    }

    bool retries_;
    bool halted_ = false;
    unsigned attempts_ = 0;           // failed since the last complete drain
    std::uint64_t retry_at_ns_ = 0;   // no write begins before; 0: no pause
    Status error_, target_lost_;
    RangeSet unreadable_;
};

}   // namespace forebay::drain
