// The target of an outflow: what is done to it, noted in the log before and after, so that recovery can tell whether
// the target is still as this process has left it (log/target_state.h, recover/untouched.h); writes that go past the
// log; syncs.
//
// Before a change begins its sign is in the log. Once the target is at rest it is looked at, by the thread that has
// brought the last write to an end: a drain thread, or the program's own where the target is local and a look costs
// less than a microsecond.
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
    SyncWork(std::shared_ptr<Outflow> outflow, std::shared_ptr<io::File> target, std::shared_ptr<Syncing> syncing)
        : outflow_(std::move(outflow)), target_(std::move(target)), syncing_(std::move(syncing)) {}
    void run() noexcept override { outflow_->complete_sync(*syncing_, target_->sync()); }

  private:
    const std::shared_ptr<Outflow> outflow_;
    const std::shared_ptr<io::File> target_;
    const std::shared_ptr<Syncing> syncing_;
};

// ---- opening ---------------------------------------------------------------------------------------

void Outflow::open(std::shared_ptr<io::File> target, const io::FileTraits& traits, std::uint64_t size,
                   std::uint64_t log_mount) {
    target_ = std::move(target);
    may_hang_ = traits.may_hang && process_.options.patience != 0;
    const std::uint64_t asked_for = process_.options.stripe;
    stripe_ = asked_for != 0 ? asked_for : traits.stripe_bytes != 0 ? traits.stripe_bytes : kStripeUnlessTold;
    target_size_ = shown_size_ = size;
    cut_due_.reset();
    was_cut_ = others_extend_ = false;
    forget_pace();
    size_late_at_ = kOffsetMax;
    cursor_ = planned_since_start_bytes_ = plan_from_bytes_ = 0;
    guard_.end();
    lease_.reset();
    nameless_bytes_ = 0;
    turn_open_ = looking_ = size_in_doubt_ = false;
    wraps_ = urgent_ = halted_ = shared_ = at_once_ = paused_ = false;
    unreadable_.clear();
    attempts_ = 0;
    retry_at_ns_ = 0;
    error_ = target_lost_ = Status::ok();
    unsynced_ = true;   // emptied or extended by whoever opened it, perhaps
    const Status known = attempt([&]() NO_THREAD_SAFETY_ANALYSIS -> Status {
        const auto now = target_->state();
        if (!now) return now.status();
        witness_.open(traits.times, now.value(), log_mount != 0 ? log::mounts_of(now.value().mount, log_mount) : 0);
        return Status::ok();
    });
    if (!known) witness_.give_up();
    note_target();
}

void Outflow::share(group::RecordOrder& order, std::size_t processes, bool at_once) {
    order_ = &order;
    shared_ = true;
    at_once_ = at_once;
    paused_ = paused_ && !at_once;
    // Each of the others would have had a write in flight of its own.
    concurrency_.drain_for(processes, waits_for_target());
    process_.scheduler.allow(processes);
}

void Outflow::note_external_writers() noexcept {
    witness_.note_external_writers();
    note_target();
}

void Outflow::note_external_growth() noexcept {
    others_extend_ = true;
    note_external_writers();
}

// ---- what is done to it ----------------------------------------------------------------------------

void Outflow::begin_write(ByteRange range, io::Bytes sample) noexcept {
    if (range.empty()) return;
    witness_.begin_write(range, sample);
    note_target();
}

// Else whoever is killed before the first byte of the first write has come leaves nothing that tells the file from
// another one of its size.
void Outflow::look_before_write(ByteRange range) noexcept {
    std::shared_ptr<io::File> target;
    ByteRange place;
    std::uint64_t serial = 0;
    {
        const LockGuard lock(mutex_);
        place = witness_.to_be_seen_before(range);
        if (place.empty()) return;
        target = target_;
        serial = witness_.state().serial;
    }
    std::array<std::byte, log::kSampleMax> bytes;
    Result<std::size_t> got = out_of_memory();
    (void)attempt([&] { got = target->read_at(place.begin, std::span(bytes).first(place.size())); });
    if (!got) return;
    const LockGuard lock(mutex_);
    witness_.saw(place.begin, std::span(bytes).first(got.value()), serial);
}

// The first bytes, as far as they lie together in the log.
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
    begin_write(write.range, io::Bytes(sample).first(length));
}

void Outflow::go_on_with_write() noexcept {
    const LockGuard lock(mutex_);
    witness_.go_on();
    note_target();
}

void Outflow::end_write(ByteRange range, bool written) noexcept {
    if (range.empty()) return;
    witness_.end_write(range, written);
    note_target();
}

void Outflow::begin_resize(std::uint64_t size) noexcept {
    const LockGuard lock(mutex_);
    witness_.begin_resize(size);
    note_target();
}

void Outflow::end_resize(bool done) noexcept {
    witness_.end_resize(done);
    note_target();
}

// By a drain thread, if the target may hang.
Status Outflow::resize_target(std::uint64_t size) {
    const auto mine = std::make_shared<Syncing>();
    carry_out(take_resize(size, mine));
    FOREBAY_TRY(await([&mine] { return mine->done; }));
    unsynced_ = true;
    if (!may_hang()) {
        const Unlocked meanwhile(mutex_);
        watch_rest();
    }
    return mine->outcome;
}

// What begins meanwhile makes what was seen void.
void Outflow::watch_rest() noexcept {
    std::shared_ptr<io::File> target;
    std::uint64_t serial = 0;
    {
        const LockGuard lock(mutex_);
        if (!listener_.has_records() || !idle() || !witness_.to_be_looked_at()) return;
        target = target_;
        serial = witness_.state().serial;
    }
    Result<io::FileState> now = out_of_memory();
    (void)attempt([&] { now = target->state(); });
    if (!now) return;
    const LockGuard lock(mutex_);
    if (witness_.rested(now.value(), serial)) note_target();
}

// ---- writes that go past the log -------------------------------------------------------------------

Status Outflow::begin_bypass(std::uint64_t offset, io::Bytes bytes) {
    const ByteRange range{offset, offset + bytes.size()};
    for (;;) {
        FOREBAY_TRY(await([&]() NO_THREAD_SAFETY_ANALYSIS { return !in_flight_.overlaps(range) && !resizing_; }));
        if (!cut_due_ || range.end <= *cut_due_) break;
        FOREBAY_TRY(drain());   // carries the cut out
    }
    in_flight_.add(range);
    if (!witness_.to_be_seen_before(range).empty()) {
        const Unlocked meanwhile(mutex_);
        look_before_write(range);
    }
    begin_write(range, bytes.first(log::sample_length(offset, bytes.size())));
    target_size_ = std::max(target_size_, range.end);
    return Status::ok();
}

void Outflow::end_bypass(ByteRange range, bool written) noexcept {
    in_flight_.remove(range);
    end_write(range, written);
    if (!written) size_in_doubt_ = true;
    announce();
}

void Outflow::bypassed(ByteRange range) noexcept {
    if (unreadable_.overlaps(range)) unreadable_.clear();
    unsynced_ = true;
    shown_size_ = std::max(shown_size_, range.end);
}

// ---- durability ------------------------------------------------------------------------------------

void Outflow::complete_sync(Syncing& syncing, const Status& outcome) noexcept {
    if (outcome) process_.progress.note();
    const LockGuard lock(mutex_);
    listener_.synced();
    if (outcome) {
        progress_ns_ = clock().now_ns();
    } else if (target_lost_.is_ok()) {
        try {
            target_lost_ = outcome.with_context("what was written to " + path_ + " may not have reached its device");
        } catch (const std::bad_alloc&) {
            target_lost_ = copy_of(outcome, kFailed);
        }
        halt(target_lost_);
    }
    syncing.outcome = copy_of(target_lost_, kFailed);
    syncing.done = true;
    ended_.notify_all();
}

// One that was given up may be under way still; it began before what this one has to make certain.
Status Outflow::sync_by_drain_thread() {
    FOREBAY_TRY(await([this]() NO_THREAD_SAFETY_ANALYSIS { return !syncing_ || syncing_->done; }));
    const auto mine = std::make_shared<Syncing>();
    auto work = std::make_unique<SyncWork>(self(), target_, mine);
    syncing_ = mine;
    {
        const Unlocked meanwhile(mutex_);
        process_.scheduler.carry_out(std::move(work));
    }
    const Status waited = await([&mine] { return mine->done; });
    mine->given_up = !waited;
    return waited ? mine->outcome : waited;
}

bool Outflow::sync_hangs() const noexcept { return syncing_ && syncing_->given_up && !syncing_->done; }

Status Outflow::sync() {
    if (!target_lost_.is_ok()) return target_lost_;   // a second sync would know nothing of what the first one lost
    unsynced_ = false;
    try {
        if (may_hang()) {
            const Status synced = sync_by_drain_thread();
            if (!synced) unsynced_ = true;
            return synced;
        }
    } catch (const std::bad_alloc&) {
        // As without a thread: this one does it.
    }
    Syncing syncing;
    const std::shared_ptr<io::File> target = target_;
    const Unlocked meanwhile(mutex_);
    complete_sync(syncing, target->sync());
    return syncing.outcome;
}

}   // namespace forebay::drain
