// Notes the target's state around each change; writes that bypass the log; syncs.
//
// The thread that ends the last write looks at the idle target. That is a drain thread, or the program's own if the
// target is local and a look costs less than a microsecond.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "drain/outflow.h"
#include "io/guarded_access.h"

namespace forebay::drain {

class Outflow::SyncWork final : public Work {
  public:
    SyncWork(std::shared_ptr<Outflow> outflow, std::shared_ptr<io::File> target, std::shared_ptr<AwaitedCall> call)
        : outflow_(std::move(outflow)), target_(std::move(target)), call_(std::move(call)) {}
    void run() noexcept override { outflow_->complete_sync(*call_, target_->sync()); }

  private:
    const std::shared_ptr<Outflow> outflow_;
    const std::shared_ptr<io::File> target_;
    const std::shared_ptr<AwaitedCall> call_;
};

// ---- notes in the log ------------------------------------------------------------------------------

// Without this sample, a process killed during its first write leaves nothing that tells the target from another file
// of its size.
void Outflow::look_before_write(ByteRange range) noexcept {
    std::shared_ptr<io::File> target;
    ByteRange place;
    std::uint64_t serial = 0;
    {
        const LockGuard lock(mutex_);
        place = target_.witness().to_be_seen_before(range);
        if (place.empty()) return;
        target = target_.file();
        serial = target_.witness().state().serial;
    }
    std::array<std::byte, log::kSampleMax> bytes;
    Result<std::size_t> got = out_of_memory();
    (void)attempt([&] { got = target->read_at(place.begin, std::span(bytes).first(place.size())); });
    if (!got) return;
    const LockGuard lock(mutex_);
    target_.witness().saw(place.begin, std::span(bytes).first(got.value()), serial);
}

// The sample is the write's first bytes, as far as they are contiguous in the log.
void Outflow::begin_write(const plan::TargetWrite& write) noexcept {
    const plan::Piece& first = write.pieces.front();
    std::array<std::byte, log::kSampleMax> sample{};
    std::size_t length = log::sample_length(write.range.begin, first.range.size());
    if (first.bytes != nullptr) {
        const io::Bytes from(first.bytes, length);
        if (io::guarded(from, [&]() noexcept { std::memcpy(sample.data(), from.data(), from.size()); }) != nullptr)
            length = 0;
    }
    look_before_write(write.range);
    const LockGuard lock(mutex_);
    target_.begin_write(write.range, io::Bytes(sample).first(length));
}

// If the target may hang, a drain thread sets the size.
Status Outflow::resize_target(std::uint64_t size) {
    const auto mine = std::make_shared<AwaitedCall>();
    carry_out(take_resize(size, mine));
    FOREBAY_TRY(arrivals_.await(mutex_, [&mine] { return mine->done; }));
    facts_.note_unsynced();
    if (!facts_.may_hang()) {
        const Unlocked meanwhile(mutex_);
        watch_rest();
    }
    return mine->outcome;
}

// A change that begins during the look voids it.
void Outflow::watch_rest() noexcept {
    std::shared_ptr<io::File> target;
    std::uint64_t serial = 0;
    {
        const LockGuard lock(mutex_);
        if (!listener_.has_records() || !queue_.idle() || !target_.witness().to_be_looked_at()) return;
        target = target_.file();
        serial = target_.witness().state().serial;
    }
    Result<io::FileState> now = out_of_memory();
    (void)attempt([&] { now = target->state(); });
    if (!now) return;
    const LockGuard lock(mutex_);
    if (target_.witness().rested(now.value(), serial)) target_.note();
}

// ---- writes that bypass the log --------------------------------------------------------------------

Status Outflow::begin_bypass(std::uint64_t offset, io::Bytes bytes) {
    const ByteRange range{offset, offset + bytes.size()};
    for (;;) {
        FOREBAY_TRY(arrivals_.await(mutex_, [&]() NO_THREAD_SAFETY_ANALYSIS {
            return !queue_.in_flight().overlaps(range) && !queue_.resizing();
        }));
        if (range.end <= target_.cut_due().value_or(kOffsetMax)) break;
        FOREBAY_TRY(drain());   // carries out the cut
    }
    queue_.begin_bypass(range);
    if (!target_.witness().to_be_seen_before(range).empty()) {
        const Unlocked meanwhile(mutex_);
        look_before_write(range);
    }
    target_.begin_write(range, bytes.first(log::sample_length(offset, bytes.size())));
    target_.reaches(range.end);
    return Status::ok();
}

void Outflow::end_bypass(ByteRange range, const Status& written) noexcept {
    queue_.end_bypass(range);
    target_.end_write(range, written.is_ok());
    if (written && failures_.unreadable().overlaps(range)) failures_.clear_unreadable();
    if (written) facts_.note_unsynced();
    else resend(written);
    arrivals_.announce();
}

// ---- durability ------------------------------------------------------------------------------------

void Outflow::complete_sync(AwaitedCall& call, const Status& outcome) noexcept {
    if (outcome) context_.progress.note();
    const LockGuard lock(mutex_);
    listener_.synced();
    if (call.confirms) bytes_.index().end_confirm(outcome.is_ok());
    if (outcome) {
        arrivals_.note_progress();
    } else if (failures_.target_lost().is_ok()) {
        failures_.lose_target(outcome, path_);
        halt(failures_.target_lost());
    }
    call.outcome = copy_of(failures_.target_lost(), Failures::kFailed);
    call.done = true;
    arrivals_.announce_unpinned();
}

// An abandoned sync may still be in flight. It began before the writes that this sync must cover.
Status Outflow::sync_by_drain_thread() {
    FOREBAY_TRY(arrivals_.await(mutex_, [this]() NO_THREAD_SAFETY_ANALYSIS {
        return !arrivals_.sync() || arrivals_.sync()->done;
    }));
    const auto mine = std::make_shared<AwaitedCall>();
    auto work = std::make_unique<SyncWork>(self(), target_.file(), mine);
    mine->confirms = bytes_.index().begin_confirm();
    arrivals_.begin_sync(mine);
    {
        const Unlocked meanwhile(mutex_);
        context_.scheduler.carry_out(std::move(work));
    }
    const Status waited = arrivals_.await(mutex_, [&mine] { return mine->done; });
    mine->given_up = !waited;
    return waited ? mine->outcome : waited;
}

Status Outflow::sync() {
    // A second sync would not report bytes that the first one lost.
    if (!failures_.target_lost().is_ok()) return failures_.target_lost();
    facts_.begin_sync();
    try {
        if (facts_.may_hang()) {
            const Status synced = sync_by_drain_thread();
            if (!synced) facts_.note_unsynced();
            return synced;
        }
    } catch (const std::bad_alloc&) {
        // Without memory this thread syncs.
    }
    AwaitedCall call;
    call.confirms = bytes_.index().begin_confirm();
    const std::shared_ptr<io::File> target = target_.file();
    const Unlocked meanwhile(mutex_);
    complete_sync(call, target->sync());
    return call.outcome;
}

}   // namespace forebay::drain
