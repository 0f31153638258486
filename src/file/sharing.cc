#include "file/sharing.h"

#include <algorithm>

#include "base/attempt.h"
#include "file/meeting.h"

namespace forebay::file {

namespace {

// Bits of the word that each member gives at the close.
constexpr std::uint64_t kIncomplete = 1, kMayDefer = 2, kHasFailure = 4;

bool any_says(Team::Words words, std::uint64_t what) {
    return std::ranges::any_of(words, [&](std::uint64_t one) { return (one & what) != 0; });
}

bool all_say(Team::Words words, std::uint64_t what) {
    return std::ranges::all_of(words, [&](std::uint64_t one) { return (one & what) != 0; });
}

}   // namespace

Status SharedState::take_deferred_error() noexcept {
    Status told = std::exchange(untold, Status::ok());
    if (!incomplete) return copy_of(incomplete, "a write failed");
    return told;
}

void end_claim(stage::Engine& engine, const stage::StagedFile& file, std::shared_ptr<io::Claim> claim) noexcept {
    if (claim != nullptr && (file.lifecycle().failed() || file.lifecycle().leaves_log()))
        engine.area().keep_claim(std::move(claim));
}

// Uses MPI, and does not sleep on the board: another rank may need this one in MPI to finish its own MPI call.
Status Sharing::meet() {
    const Meeting meeting(journal());
    return state_.team->barrier();
}

Status Sharing::agree(const Status& mine) {
    const Meeting meeting(journal());
    return state_.team->agree(mine);
}

void Sharing::abandon(const Status& why) noexcept {
    (void)attempt([&] { return state_.file->membership().finish_followed(why); });
    state_.end_claim();
}

Sharing::Detached Sharing::close(AfterClose afterwards) {
    stage::Engine& engine = *state_.engine;
    // After a success no byte is left to be written. A failure is reported by the steps below; the undo journal stays.
    Status committed = commit_before_close();
    state_.attached = false;
    std::optional<stage::WaitedClose> waits = stage::WaitedClose::kShared;
    if (afterwards) (void)attempt([&] { waits = why_close_waits(); });
    const bool lacks = keeps_last_commit() && !state_.incomplete;
    const Status before = engine.closes().take_failure();
    bool any_lacks = false, all_may = false, any_failed = false;
    Status met;
    {
        const Meeting meeting(journal());
        const auto words = state_.team->agree(Status::ok(), (lacks ? kIncomplete : 0) | (waits ? 0 : kMayDefer) |
                                                                (before ? 0 : kHasFailure));
        met = attempt([&] { return words.status(); });
        if (met) {
            any_lacks = any_says(words.value(), kIncomplete);
            all_may = all_say(words.value(), kMayDefer);
            any_failed = any_says(words.value(), kHasFailure);
        }
    }
    if (!met) {
        abandon(met);
        return {met};
    }
    Status whole;
    if (any_lacks) whole = agree(state_.incomplete);
    Detached closed;
    if (all_may && whole) {
        waits = stage::WaitedClose::kShared;
        closed.deferred = defer(waits, afterwards);
    }
    if (!closed.deferred) {
        engine.closes().count_waited(waits.value_or(stage::WaitedClose::kShared));
        closed.outcome = close_now(whole, std::move(committed));
    }
    // All members report a failure that followed an earlier close, on any member.
    if (any_failed)
        if (Status told = agree(before); closed.outcome) closed.outcome = std::move(told);
    return closed;
}

Status Sharing::close_now(const Status& whole, Status committed) {
    // Returned by moves: copying a text may throw, and all ranks take part in further steps.
    Status outcome = end_part(whole, std::move(committed));
    Status given_back = give_back(outcome);
    if (!outcome) return outcome;
    const Status untold = state_.take_deferred_error();
    const auto told = state_.team->agree(given_back, untold ? 1 : 0);
    if (told) {
        remove_common_files();
        return std::ranges::count(told.value(), 0u) == 0 ? Status::ok() : agree(untold);
    }
    // A lost write is the worse news, if a rank has both to tell.
    Status all = agree(untold ? given_back : untold);
    if (all) all = told.status();
    return all;
}

template <class Act>
Status WithoutLog::all_meet(bool acts, Act&& act, Untold untold) {
    // A state without the failed write must not replace the last commit.
    FOREBAY_TRY(untold == Untold::kTell ? agree(state_.take_deferred_error()) : meet());
    return agree(acts ? attempt(act) : Status::ok());
}

Status WithoutLog::end_part(const Status& /*whole*/, Status committed) {
    const Status mine = state_.engine->detach(state_.file, true);
    state_.end_claim();
    return agree(mine ? committed : mine);
}

Status Unstaged::write(std::span<const Part> parts, stage::ByteClass byte_class, bool /*together*/) {
    return attempt([&] { return state_.file->write(parts, byte_class); });
}

Status Unstaged::truncate(std::uint64_t size) {
    return all_meet(true, [&] { return state_.file->truncate(size); });
}

Status Unstaged::commit() {
    const auto commit = [&] {
        FOREBAY_TRY(state_.file->commit());
        FOREBAY_TRY(state_.file->drain());
        return state_.file->membership().confirm_own_writes();   // other nodes find the bytes then
    };
    return all_meet(true, commit, Untold::kTell);
}

Status Unstaged::step_aside(ledger::AsideReason reason) {
    return all_meet(true, [&] { return state_.file->lifecycle().step_aside(reason); });
}

Status Forwarded::write(std::span<const Part> parts, stage::ByteClass byte_class, bool /*together*/) {
    return attempt([&] { return writing_->write(parts, byte_class); });
}

Status Forwarded::truncate(std::uint64_t size) {
    FOREBAY_TRY(all_meet(acts(), [&] { return writing_->truncate(size); }));
    if (!acts()) writing_->note_size(size);
    return Status::ok();
}

Status Forwarded::commit() {
    const auto commit = [&] {
        const Status committed = writing_->commit();
        return committed ? writing_->drain() : committed;
    };
    return all_meet(acts(), commit, Untold::kTell);
}

Status Forwarded::step_aside(ledger::AsideReason reason) {
    return all_meet(acts(), [&] { return writing_->step_aside(reason); });
}

// The engine ends the session. The server then has a session without a close, which keeps the file at its last commit.
void Forwarded::finish_unclosed() noexcept {
    if (!state_.incomplete) writing_->withhold_at_end(state_.incomplete);
    WithoutLog::finish_unclosed();
}

Status Forwarded::end_part(const Status& whole, Status committed) {
    if (!whole) writing_->withhold(whole);
    return WithoutLog::end_part(whole, std::move(committed));
}

}   // namespace forebay::file
