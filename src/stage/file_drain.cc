// The target's side of a staged file: planning target writes, carrying them out, keeping the accounts.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "base/clock.h"
#include "extent/stripe.h"
#include "io/guarded_access.h"
#include "io/page_buffer.h"
#include "stage/staged_file.h"

namespace forebay::stage {

namespace {

constexpr std::size_t kPlanPiecesMax = 65536;
constexpr std::uint64_t kPlanWrites = 8;   // of the largest size, per plan
// So much may be left staged in pieces smaller than a stripe, in the hope for neighbours: no more than
// this, and than this share of the log.
constexpr std::uint64_t kSmallPiecesMax = std::uint64_t{128} << 20;
constexpr std::uint64_t kSmallPiecesShare = 8;
// So much of the log may be dead before small pieces have to go.
constexpr std::uint64_t kDeadMax = std::uint64_t{16} << 20;
// Only writes of at least this size, carried out alone, tell how the target behaves.
constexpr std::uint64_t kTellingWriteMin = 64 * 1024;
constexpr std::array<std::byte, 64 * 1024> kZeros{};
// A write of many pieces, smaller than this on average, is put together in memory first: one system call takes only so many pieces,
// and each costs more than copying it. A target that is waited for is worth more copying: what hands pages on (FUSE) makes twice as many
// requests of pieces of a page, as each of them lies in two.
constexpr std::uint64_t kGatherBelowBytes = 2048, kGatherBelowBytesWaiting = 32 * 1024;
constexpr std::size_t kGatherFromPieces = 32;
constexpr std::uint64_t kGatherBytes = std::uint64_t{1} << 20;   // at a time: what FUSE takes in one request, unless told otherwise

// on_error=retry: so many attempts more, after pauses that double. Together less than a second.
constexpr unsigned kAttemptsMax = 5;
constexpr std::uint64_t kPauseNs = 20'000'000;

bool may_pass(int sys_errno) noexcept {
    switch (sys_errno) {
        case EIO:
        case ENOSPC:
        case EDQUOT:
        case ESTALE:
        case EINTR:
        case EAGAIN: return true;
        default: return false;
    }
}

// The parts of a write, page by page, that cannot be read back from the log. `fault` tells of the first one.
std::vector<ByteRange> find_unreadable(const plan::TargetWrite& write, Status& fault) {
    constexpr std::uintptr_t kPage = 4096;   // the smallest one there is
    std::vector<ByteRange> unreadable;
    for (const plan::Piece& piece : write.pieces) {
        if (piece.bytes == nullptr) continue;
        const io::Bytes bytes(piece.bytes, piece.range.size());
        for (const std::byte* at = piece.bytes; at < bytes.data() + bytes.size();) {
            const std::byte* const found = io::find_unreadable(bytes, at);
            if (found == nullptr) break;
            if (unreadable.empty()) fault = piece.segment->fault(found);
            const std::byte* const begin = std::max(found, at);
            const auto into_page = reinterpret_cast<std::uintptr_t>(begin) % kPage;
            at = std::min(begin + (kPage - into_page), bytes.data() + bytes.size());
            const std::uint64_t offset = piece.range.begin + static_cast<std::uint64_t>(begin - piece.bytes);
            const ByteRange range{offset, offset + static_cast<std::uint64_t>(at - begin)};
            if (!unreadable.empty() && unreadable.back().end == range.begin) unreadable.back().end = range.end;
            else unreadable.push_back(range);
        }
    }
    return unreadable;
}

Status out_of_memory(const char* doing, const std::string& path) noexcept {
    try {
        return {Code::kUnavailable, doing + (" " + path) + ": out of memory", ENOMEM};
    } catch (const std::bad_alloc&) {
        return forebay::out_of_memory();
    }
}

bool has_small_pieces(const plan::TargetWrite& write, std::uint64_t below_bytes) noexcept {
    return write.pieces.size() >= kGatherFromPieces && write.range.size() / write.pieces.size() < below_bytes;
}

// EFAULT: bytes of the log cannot be read.
Status copy_piece(const plan::Piece& piece, std::uint64_t from, io::MutableBytes to) {
    if (piece.bytes == nullptr) {
        std::memset(to.data(), 0, to.size());
        return Status::ok();
    }
    const io::Bytes bytes(piece.bytes + from, to.size());
    if (io::guarded(bytes, [=]() noexcept { std::memcpy(to.data(), bytes.data(), bytes.size()); }) == nullptr) return Status::ok();
    return {Code::kIo, "staged bytes cannot be read", EFAULT};
}

Status given_up_meanwhile() { return {Code::kUnavailable, "given up", ECANCELED}; }

// By way of a buffer that stays small: pages that were not touched before would cost more than the copy. `given_up` is asked before each call:
// where one has hung for too long, nobody counts on the rest any more.
template <class GivenUp>
Status write_gathered(io::File& target, const plan::TargetWrite& write, GivenUp&& given_up) {
    const io::PageBuffer buffer(std::min(write.range.size(), kGatherBytes));
    const io::MutableBytes bytes = buffer.bytes();
    std::uint64_t offset = write.range.begin;
    std::size_t filled = 0;
    for (const plan::Piece& piece : write.pieces)
        for (std::uint64_t from = 0; from < piece.range.size();) {
            // Each call ends at a multiple in the file.
            const std::uint64_t limit = std::min<std::uint64_t>(bytes.size(), kGatherBytes - offset % kGatherBytes);
            const io::MutableBytes part = bytes.subspan(filled, std::min(piece.range.size() - from, limit - filled));
            FOREBAY_TRY(copy_piece(piece, from, part));
            from += part.size();
            filled += part.size();
            if (filled < limit && offset + filled < write.range.end) continue;
            if (given_up()) return given_up_meanwhile();
            FOREBAY_TRY(target.write_at(offset, bytes.first(filled)));
            offset += std::exchange(filled, 0);
        }
    return Status::ok();
}

// EFAULT: bytes of the log cannot be read.
Status write_pieces(io::File& target, const plan::TargetWrite& write) {
    std::vector<io::Bytes> pieces;
    pieces.reserve(write.pieces.size());
    for (const plan::Piece& piece : write.pieces) {
        if (piece.bytes != nullptr) {
            pieces.emplace_back(piece.bytes, piece.range.size());
            continue;
        }
        for (std::uint64_t left = piece.range.size(); left > 0; left -= pieces.back().size())
            pieces.push_back(io::Bytes(kZeros).first(std::min<std::uint64_t>(left, kZeros.size())));
    }
    return target.write_gather_at(write.range.begin, pieces);
}

// Where the pieces that adjoin up to the last one begin. `pieces` is not empty.
std::uint64_t begin_of_last_run(const std::vector<plan::Piece>& pieces) noexcept {
    std::size_t at = pieces.size() - 1;
    while (at > 0 && pieces[at - 1].range.end == pieces[at].range.begin) --at;
    return pieces[at].range.begin;
}

}   // namespace

// What one target write took.
struct StagedFile::Cost {
    std::uint64_t begin_ns = monotonic_ns();
    std::uint64_t end_ns = 0;
    std::uint64_t cpu_ns = thread_cpu_ns();
    std::uint64_t sleeps = thread_sleeps();
    std::optional<std::uint64_t> beside;   // nothing: the program was writing straight to the target when it began
    bool alone = true;                     // no other write of the drain was under way then

    void stop() noexcept {
        end_ns = monotonic_ns();
        cpu_ns = thread_cpu_ns() - cpu_ns;
        sleeps = thread_sleeps() - sleeps;
    }
};

class StagedFile::WriteWork final : public drain::Work {
  public:
    // `waits`: the target is known to be waited for.
    WriteWork(std::shared_ptr<StagedFile> file, std::shared_ptr<io::File> target, plan::TargetWrite write, bool alone, bool waits,
              std::optional<std::uint64_t> beside)
        : file_(std::move(file)), target_(std::move(target)), write_(std::move(write)), alone_(alone), waits_(waits), beside_(beside) {}

    void run() noexcept override {
        Cost cost;
        cost.beside = beside_;
        cost.alone = alone_;
        Status outcome;
        std::vector<ByteRange> unreadable;
        try {
            if (has_small_pieces(write_, waits_ ? kGatherBelowBytesWaiting : kGatherBelowBytes))
                outcome = write_gathered(*target_, write_, [this] { return file_->given_up(); });
            else
                outcome = file_->given_up() ? given_up_meanwhile() : write_pieces(*target_, write_);
            if (outcome.sys_errno() == EFAULT) unreadable = find_unreadable(write_, outcome);
        } catch (const std::bad_alloc&) {
            outcome = out_of_memory("write to", file_->path_);
        }
        cost.stop();
        file_->complete(write_, outcome, cost, unreadable);
    }

  private:
    std::shared_ptr<StagedFile> file_;
    std::shared_ptr<io::File> target_;
    plan::TargetWrite write_;
    const bool alone_, waits_;
    const std::optional<std::uint64_t> beside_;
};

class StagedFile::ResizeWork final : public drain::Work {
  public:
    // `lengthen`: never cuts, as others may be writing beyond `size` meanwhile. The byte before `size` is known not to be written yet.
    ResizeWork(std::shared_ptr<StagedFile> file, std::shared_ptr<io::File> target, std::uint64_t size, bool lengthen)
        : file_(std::move(file)), target_(std::move(target)), size_(size), lengthen_(lengthen) {}
    void run() noexcept override {
        Status outcome;
        try {
            outcome = file_->given_up() ? given_up_meanwhile()
                      : lengthen_            ? target_->write_at(size_ - 1, std::span(kZeros).first(1))
                                             : target_->resize(size_);
        } catch (const std::bad_alloc&) {
            outcome = out_of_memory("set the size of", file_->path_);
        }
        file_->complete_resize(size_, lengthen_, outcome);
    }

  private:
    std::shared_ptr<StagedFile> file_;
    std::shared_ptr<io::File> target_;
    std::uint64_t size_;
    bool lengthen_;
};

// What waited for a thread must not reach the target after the file was closed for the program.
bool StagedFile::given_up() const noexcept {
    const std::lock_guard lock(mutex_);
    return state_ == State::kFailed;
}

drain::Source::Taken StagedFile::take() {
    Taken taken;
    bool nothing_left;
    {
        const std::lock_guard lock(mutex_);
        taken = take_locked();
        nothing_left = !taken.work && in_flight_.empty() && !resizing_;
    }
    // Whoever waits for room because this file had something to drain must look again.
    if (nothing_left && surroundings_.pool() != nullptr) surroundings_.pool()->announce_change();
    return taken;
}

drain::Source::Taken StagedFile::take_locked() {
    if (state_ != State::kStaged || halted_ || resizing_ || running_ >= concurrency_.allowed() || follows() || pausing_locked()) return {};
    follow_locked(true);
    // Writes beyond the new end that are planned already come before the cut; whatever is planned later
    // comes after it.
    if (shrink_to_ && planned_.empty()) {
        if (in_flight_.overlaps({*shrink_to_, kOffsetMax})) return {};
        return take_resize_locked(*shrink_to_);
    }
    if (planned_.empty()) plan_locked();
    if (planned_.empty()) {
        // Everything committed is there but for space that nobody has written: others see the file whole.
        const bool short_of_commit = target_size_ < committed_size_ && index_.ready_empty() && in_flight_.empty();
        return short_of_commit ? take_resize_locked(committed_size_) : Taken{};
    }
    // The one thing that may fail comes first.
    auto work = std::make_unique<WriteWork>(shared_from_this(), target_, std::move(planned_.front()), running_ == 0, waits_for_target_locked(),
                                            beside_locked().none_now());
    planned_.pop_front();
    if (running_++ == 0) busy_since_ns_ = monotonic_ns();
    return {std::move(work), !planned_.empty() && running_ < concurrency_.allowed()};
}

// Before anything was measured: as far as is known of its file system.
bool StagedFile::waits_for_target_locked() const noexcept { return target_pace_.of_memory() == 0 && (target_pace_.known() || may_hang_); }

drain::Source::Taken StagedFile::take_resize_locked(std::uint64_t size) {
    // Others may be writing straight what comes after the commit. What came before it has been followed, and is shorter.
    auto work = std::make_unique<ResizeWork>(shared_from_this(), target_, size, told_pace_ && size > target_size_);
    resizing_ = true;
    return {std::move(work), false};
}

// Makes target writes of what is ready from where the last plan ended, or of what lies before, if nothing behind may go yet: what is
// written last in file order may be growing still, while others have filled gaps before it.
void StagedFile::plan_locked() {
    if (!worth_draining_locked()) return;
    // What keeps a clogged log may lie before the cursor, and a stream of new bytes behind it would never let the plans begin anew.
    // Twice what is ready: less would end sweeps over many growing places before they have come to the last ones.
    if (planned_since_start_bytes_ >= 2 * ready_bytes_locked() && clogged_locked()) cursor_ = 0;
    const bool from_within = cursor_ > 0;
    Found found = plan_from_locked(cursor_);
    // Where something waits for its neighbours, what arrives before the writes in flight have ended goes together.
    wraps_ = from_within && found == Found::kTooLittle && !in_flight_.empty();
    if (from_within && !wraps_ && (found == Found::kNothing || found == Found::kTooLittle)) found = plan_from_locked(0);
    // Nothing: all is in flight, or not complete yet. Its end is what to wait for, not more bytes.
    if (found != Found::kNothing) plan_from_bytes_ = planned_.empty() ? ready_bytes_locked() + stripe() : 0;
}

// Takes ready extents from `begin` on, in file order, leaving out what overlaps a write in flight, and makes target writes of
// them. All of these are in flight from now on. Moves the cursor.
StagedFile::Found StagedFile::plan_from_locked(std::uint64_t begin) {
    const Options& options = surroundings_.options();
    const std::uint64_t bytes_max = kPlanWrites * options.write_max;
    std::vector<plan::Piece> pieces;
    std::uint64_t bytes_total = 0, last_end = begin;
    const std::uint64_t complete_below = complete_below_locked();
    bool incomplete = false, to_the_end = true;
    if (begin == 0) planned_since_start_bytes_ = 0;
    index_.walk_ready(begin, [&](ByteRange range, const StagedBytes& bytes) {
        last_end = range.end;
        incomplete = incomplete || bytes.sequence >= complete_below;
        if (bytes.sequence >= complete_below) return true;
        const auto take_part = [&](ByteRange part) {
            pieces.push_back({part, bytes.advanced(part.begin - range.begin).data(), bytes.sequence, bytes.segment, bytes.gathered});
            bytes_total += part.size();
        };
        in_flight_.for_each_gap(range, [&](ByteRange part) {
            if (unreadable_.empty()) take_part(part);
            else unreadable_.for_each_gap(part, take_part);
        });
        return to_the_end = pieces.size() < kPlanPiecesMax && bytes_total < bytes_max;
    });
    if (pieces.empty()) {
        if (incomplete) share_->await_complete();
        cursor_ = last_end;
        return to_the_end ? Found::kNothing : Found::kMore;
    }

    plan::Policy policy{stripe(), options.write_max};
    if (!urgent_ && !several_nodes_ && !clogged_locked()) {
        policy.growing_at = logical_size_;
        if (ready_bytes_locked() < std::min(kSmallPiecesMax, options.size / kSmallPiecesShare)) policy.run_min = stripe() / 2;
    }
    // More follows what was taken: the next plan begins at a stripe boundary.
    if (!to_the_end && pieces.back().range.end == last_end && align_down(last_end, stripe()) > begin_of_last_run(pieces)) policy.growing_at = last_end;
    for (plan::TargetWrite& write : plan::merge(pieces, policy)) {
        in_flight_.add(write.range);
        try {
            planned_.push_back(std::move(write));
        } catch (...) {
            in_flight_.remove(write.range);
            throw;
        }
        const plan::TargetWrite& planned = planned_.back();
        in_flight_bytes_ += planned.range.size();
        planned_since_start_bytes_ += planned.range.size();
        target_size_ = std::max(target_size_, planned.range.end);
        for (const plan::Piece& piece : planned.pieces) {
            if (piece.gathered != nullptr) piece.gathered->pin();
            else if (piece.segment != nullptr) ++piece.segment->pins;
        }
    }
    // The next plan begins where this one ends; a run that is still growing there is looked at as a whole.
    cursor_ = planned_.empty() ? begin_of_last_run(pieces) : planned_.back().range.end;
    if (planned_.empty() && last_end != logical_size_) cursor_ = last_end;
    return !planned_.empty() ? Found::kWrites : to_the_end ? Found::kTooLittle : Found::kMore;
}

// A few small pieces that wait for neighbours keep every segment behind them: most of the log is dead.
bool StagedFile::clogged_locked() const noexcept {
    return log_->segments() * surroundings_.options().segment > 2 * pending_bytes_locked() + kDeadMax;
}

// Little is left to gather more, unless everything is wanted out.
bool StagedFile::worth_draining_locked() const noexcept {
    if (halted_) return false;
    if (shrink_to_) return true;
    if (ready_bytes_locked() == 0 && index_.ready_empty()) return false;
    // Nodes wait for each other's bytes: they go as soon as a write can be in flight.
    if (urgent_ || several_nodes_ || clogged_locked()) return true;
    return ready_bytes_locked() >= std::max(plan_from_bytes_, in_flight_bytes_ + stripe());
}

// After the end of a write to the target, the drain's or the program's own: whether there is something to take now. What would not go
// beside the writes in flight is planned once they have all ended.
bool StagedFile::look_again_locked() noexcept {
    if (wraps_ && in_flight_.empty()) plan_from_bytes_ = 0;
    return !planned_.empty() || worth_draining_locked() || target_size_ < committed_size_;
}

// The end of a write in flight: its range may be written again, its segments may go.
void StagedFile::release_locked(const plan::TargetWrite& write) {
    in_flight_.remove(write.range);
    in_flight_bytes_ -= write.range.size();
    for (const plan::Piece& piece : write.pieces) {
        if (piece.gathered != nullptr) piece.gathered->unpin();
        else if (piece.segment != nullptr) --piece.segment->pins;
    }
}

// What is written and cannot be forgotten for want of memory is written again.
std::uint64_t StagedFile::forget_drained_locked(const plan::TargetWrite& write) noexcept {
    try {
        return index_.erase_drained(write);
    } catch (const std::bad_alloc&) {
        return 0;
    }
}

void StagedFile::complete(const plan::TargetWrite& write, const Status& outcome, const Cost& cost, const std::vector<ByteRange>& unreadable) {
    if (outcome) surroundings_.trace(cost.begin_ns, cost.end_ns, write.range);
    if (outcome) surroundings_.progressed();
    bool more = false, settled = false;
    {
        const std::lock_guard lock(mutex_);
        release_locked(write);
        --running_;
        const std::uint64_t now = monotonic_ns();
        if (outcome) progress_ns_ = now;
        concurrency_.completed(write.range.size(), now - std::exchange(busy_since_ns_, now));
        const std::uint64_t took_ns = cost.end_ns - cost.begin_ns;
        if (outcome && write.range.size() >= kTellingWriteMin && cost.alone && beside_locked().none_since(cost.beside)) {
            target_pace_.wrote(write.range.size(), cost.cpu_ns, took_ns, cost.sleeps > 0);
            tell_pace_locked();
        }
        std::uint64_t drained = 0;
        if (outcome) drained = forget_drained_locked(write);
        slot_->target_writes.fetch_add(1, std::memory_order_relaxed);
        if (outcome && (write.pieces.size() > 1 || write.pieces.front().gathered != nullptr)) slot_->merged.fetch_add(write.range.size(), std::memory_order_relaxed);
        slot_->drain_ns.fetch_add(took_ns, std::memory_order_relaxed);
        slot_->drained.fetch_add(drained, std::memory_order_relaxed);
        if (!unreadable.empty() && !share_) lost_locked(unreadable, outcome);
        else if (!outcome) failed_locked(outcome);
        if (ready_bytes_locked() == 0 && index_.ready_empty() && !shrink_to_) {
            urgent_ = false;
            if (outcome) attempts_ = 0;
        }
        try {
            if (several_nodes_) follow_locked();   // others may wait to hear that this was all
        } catch (const std::bad_alloc&) {
            // Whoever looks next finds it.
        }
        recycle_locked();
        update_ledger_locked();
        ++completions_;
        completed_.notify_all();
        settled = in_flight_.empty();
        more = look_again_locked();
        let_through_locked();
        if (settled && share_) share_->at_rest();
    }
    if (more) wake();
    // Somebody may be waiting for room that this file will not give.
    if (settled) surroundings_.pool()->announce_change();
}

// Everything has to be staged where the target is waited for or has failed; by those who do not drain also where it may have to be cut or zeroed.
void StagedFile::tell_pace_locked() noexcept {
    was_cut_ = was_cut_ || shrink_to_.has_value();
    memory_pace_ = halted_ ? 0 : target_pace_.of_memory();
    if (!share_ || !share_->drains()) return;
    const std::uint64_t pace = was_cut_ || may_hang_ || several_nodes_ || durable_ ? 0 : memory_pace_.load(std::memory_order_relaxed);
    told_pace_ = told_pace_ || pace != 0;
    share_->set_memory_pace(pace);
}

void StagedFile::complete_resize(std::uint64_t size, bool lengthened, const Status& outcome) {
    if (outcome) surroundings_.progressed();
    {
        const std::lock_guard lock(mutex_);
        resizing_ = false;
        if (outcome) {
            progress_ns_ = monotonic_ns();
            target_size_ = lengthened ? std::max(target_size_, size) : size;
            if (shrink_to_ == target_size_) shrink_to_.reset();
            // A commit to less came while the file was being extended.
            if (!shrink_to_ && target_size_ > committed_size_ && target_size_ > logical_size_)
                shrink_to_ = std::max(committed_size_, logical_size_);
            tell_pace_locked();
        } else {
            failed_locked(outcome);
        }
        recycle_locked();
        let_through_locked();
        if (in_flight_.empty() && share_) share_->at_rest();
        ++completions_;
        completed_.notify_all();
    }
    wake();
    surroundings_.pool()->announce_change();
}

// What was planned stays staged, and is planned again.
void StagedFile::drop_planned_locked() {
    for (const plan::TargetWrite& write : planned_) release_locked(write);
    planned_.clear();
}

// A write or a change of size in the background has failed.
void StagedFile::failed_locked(const Status& failure) {
    const bool again = surroundings_.options().on_error == OnError::kRetry && !halted_ && may_pass(failure.sys_errno());
    if (!again || attempts_ == kAttemptsMax) return keep_error_locked(failure);
    retry_at_ns_ = monotonic_ns() + (kPauseNs << attempts_++);
    drop_planned_locked();
}

bool StagedFile::pausing_locked() noexcept {
    if (retry_at_ns_ != 0 && monotonic_ns() >= retry_at_ns_) retry_at_ns_ = 0;
    return retry_at_ns_ != 0;
}

// Whoever needs the target may wait; drain threads never do, they are those of all files.
void StagedFile::wait_out_pause_locked(std::unique_lock<std::mutex>& lock) {
    using Clock = std::chrono::steady_clock;
    while (pausing_locked()) completed_.wait_until(lock, Clock::time_point(std::chrono::nanoseconds(retry_at_ns_)));
}

void StagedFile::keep_error_locked(const Status& failure) {
    halted_ = true;
    retry_at_ns_ = 0;
    drop_planned_locked();
    tell_pace_locked();
    if (share_) share_->fail(failure.sys_errno(), surroundings_.options().on_error == OnError::kThrough && !shrink_to_);
    let_through_locked();
    if (!background_error_.is_ok()) return;
    background_error_ = copy_of(failure, kFailed);
    slot_->error.store(static_cast<std::uint64_t>(failure.sys_errno()), std::memory_order_relaxed);
}

// After a failure, with on_error=through: the others may write to the target once no older bytes are on their way there. Never where
// the target could not be cut: that is made up for in the close, and would take with it what they write. Then all go on staging, as with
// the other policies. Nothing that comes after a failure asks for a cut before the close.
void StagedFile::let_through_locked() noexcept {
    if (share_ && halted_ && share_->drains() && surroundings_.options().on_error == OnError::kThrough && in_flight_.empty() && !resizing_ && !shrink_to_)
        share_->let_through();
}

// Whether anything is ready but what could not be read back: that will not drain.
bool StagedFile::readable_left_locked() const {
    if (unreadable_.empty()) return !index_.ready_empty();
    bool any = false;
    index_.walk_ready(0, [&](ByteRange range, const StagedBytes&) {
        unreadable_.for_each_gap(range, [&](ByteRange) { any = true; });
        return !any;
    });
    return any;
}

// Until all that is ready is in the target. To one that may hang this thread writes nothing itself: nobody could call it
// back from a write that does not return. To others it does, which saves waking a thread.
Status StagedFile::drain_writer() {
    std::unique_lock lock(mutex_);
    urgent_ = true;
    if (index_.ready_bytes() > 2 * surroundings_.options().write_max) {
        lock.unlock();
        wake();
        lock.lock();
    }
    for (;;) {
        if (Taken taken = take_locked(); taken.work) {
            lock.unlock();
            if (may_hang_) surroundings_.scheduler().carry_out(std::move(taken.work));
            else taken.work->run();
            lock.lock();
        } else if (!in_flight_.empty() || resizing_) {
            FOREBAY_TRY(await_locked(lock, [this, seen = completions_] { return completions_ != seen; }));
        } else if (pausing_locked()) {
            wait_out_pause_locked(lock);
        } else if (share_ && !halted_ && readable_left_locked()) {
            // Others went on writing, or have not finished a record that is older; `look` comes once they have.
            if (std::exchange(urgent_, true))
                FOREBAY_TRY(await_locked(lock, [this, seen = completions_] { return completions_ != seen; }));
        } else {
            break;
        }
    }
    urgent_ = false;
    recycle_locked();
    update_ledger_locked();
    return background_error_locked();
}

void StagedFile::wake() {
    if (surroundings_.scheduler().wake(shared_from_this())) return;
    // Not even one thread could be had: this one does the work. Its completions come here again.
    thread_local bool draining = false;
    if (draining) return;
    draining = true;
    try {
        while (const Taken taken = take()) taken.work->run();
    } catch (const std::bad_alloc&) {
        // As with a thread: what was not taken is woken again with the next write, at the latest at close.
    }
    draining = false;
}

void StagedFile::update_ledger_locked() {
    if (follows()) return;   // the drainer keeps the accounts; what is in this index was found by reading
    slot_->pending.store(pending_bytes_locked(), std::memory_order_relaxed);
    slot_->held.store(index_.held_bytes(), std::memory_order_relaxed);
    slot_->superseded.store(index_.superseded_bytes(), std::memory_order_relaxed);
    const bool any = pending_bytes_locked() > 0 && log_ && !log_->empty();
    slot_->oldest_ns.store(any ? log_->oldest()->first_time_ns : 0, std::memory_order_relaxed);
}

}   // namespace forebay::stage
