// The end of a shared file: its close, at once or behind the program; and the end of a process that has it open still,
// when nobody may call MPI any more.
#include <algorithm>
#include <chrono>

#include "base/attempt.h"
#include "node/meeting.h"
#include "node/shared_file.h"

namespace forebay::node {

namespace {

// The ranks of a program end together. One that goes on for longer does something else; what it has staged stays in its
// log.
constexpr std::chrono::seconds kOthersMax{30};

}   // namespace

// ---- closing -----------------------------------------------------------------------------------------

namespace {

// What each member says of itself when all have come to the close.
constexpr std::uint64_t kIncomplete = 1, kMayDefer = 2, kHasFailure = 4;

bool anybody(Team::Words words, std::uint64_t what) {
    return std::ranges::any_of(words, [&](std::uint64_t one) { return (one & what) != 0; });
}

// Other programs may write the file now, unless writes of what the log still has may be in flight.
void end_claim(stage::Engine& engine, const stage::StagedFile& file, std::shared_ptr<io::Claim> claim) noexcept {
    if (claim != nullptr && (file.failed() || file.leaves_log())) engine.area().keep_claim(std::move(claim));
}

bool everybody(Team::Words words, std::uint64_t what) {
    return std::ranges::all_of(words, [&](std::uint64_t one) { return (one & what) != 0; });
}

}   // namespace

stage::Engine::Detached SharedFile::close(stage::AfterClose afterwards) {
    // After it nothing is left to be written. If it fails the rest tells why; what is needed for undoing stays.
    Status committed = journal_ != nullptr ? agree(incomplete_) : Status::ok();
    if (journal_ != nullptr && committed) committed = agree(attempt([&] { return commit_consistently(); }));
    window_.reset();
    attached_ = false;
    std::optional<stage::WaitedClose> waits = stage::WaitedClose::kShared;
    if (afterwards && group_ != nullptr && !several_nodes_ && !durable_)
        (void)attempt([&] { waits = engine_->closes().why_waits(*file_); });
    if (!waits && (!untold_ || !group_->lost())) waits = stage::WaitedClose::kFailing;
    // On one node, or at a server, the logs can bring back the last commit, which is better than a file that lacks
    // metadata.
    const bool lacks = (forwarded_ || (group_ != nullptr && !several_nodes_)) && !incomplete_;
    const Status before = engine_->closes().take_failure();
    bool any_lacks = false, all_may = false, any_failed = false;
    Status met;
    {
        const Meeting meeting(journal_.get());
        const auto words = team_->agree(Status::ok(), (lacks ? kIncomplete : 0) | (waits ? 0 : kMayDefer) |
                                                          (before ? 0 : kHasFailure));
        met = attempt([&] { return words.status(); });
        if (met) {
            any_lacks = anybody(words.value(), kIncomplete);
            all_may = everybody(words.value(), kMayDefer);
            any_failed = anybody(words.value(), kHasFailure);
        }
    }
    if (!met) {
        // Somebody is gone; nobody waits for anybody any more.
        if (group_ != nullptr) group_->stop_listening();
        (void)attempt([&] { return file_->finish_followed(met); });
        end_claim(*engine_, *file_, std::move(claim_));
        return {met};
    }
    Status whole;
    if (any_lacks) whole = agree(incomplete_);
    stage::Engine::Detached closed;
    if (all_may && whole) {
        waits = stage::WaitedClose::kShared;
        closed.deferred = defer(waits);
    }
    if (closed.deferred) {
        finish_later(std::move(afterwards));
    } else {
        engine_->closes().count_waited(waits.value_or(stage::WaitedClose::kShared));
        closed.outcome = close_now(whole, std::move(committed));
    }
    // What failed after an earlier close: on whichever member, all report it.
    if (any_failed)
        if (Status told = agree(before); closed.outcome) closed.outcome = std::move(told);
    return closed;
}

// Nobody writes any more. False: the drainer has it closed at once, and `waits` says why.
bool SharedFile::defer(std::optional<stage::WaitedClose>& waits) {
    std::uint64_t word = 0;   // 1 and the reason
    if (drains_) {
        group_->stop_listening();
        std::optional<stage::WaitedClose> why = stage::WaitedClose::kFailing;
        (void)attempt([&] { why = file_->commit_to_finish_later(); });
        if (why) word = 1 + static_cast<std::uint64_t>(*why);
    }
    const auto words = team_->agree(Status::ok(), word);
    if (!words) return false;
    word = *std::ranges::max_element(words.value());
    if (word == 0) return true;
    waits = static_cast<stage::WaitedClose>(word - 1);
    return false;
}

Status SharedFile::close_now(const Status& whole, Status committed) {
    Status mine;
    if (group_ == nullptr) {
        if (forwarded_ && !whole) file_->withhold(copy_of(whole, "a write failed"));
        mine = engine_->detach(file_, true);
    } else if (drains_) {
        group_->stop_listening();
        if (!whole) file_->withhold(copy_of(whole, "a write failed"));
        mine = engine_->detach(file_, true);
        group_->ending().finished();
    } else {
        mine = attempt([&] { return group_->ending().wait_until_finished(); });
    }
    end_claim(*engine_, *file_, std::move(claim_));   // others may open the file as soon as any member has closed it
    const Status outcome = agree(mine ? committed : mine);
    if (outcome && journal_ != nullptr) (void)end_consistency();
    Status given_back;
    if (group_ != nullptr && !drains_) {
        given_back = attempt([&] { return file_->finish_followed(outcome); });
        (void)engine_->detach(file_, true);
    }
    if (!outcome) return outcome;
    const Status untold = take_deferred_error();
    const auto told = team_->agree(given_back, untold ? 1 : 0);
    // The board goes last: without it recovery could not tell what the others' logs mean.
    if (told && group_ != nullptr) remove_board(file_->log_number());
    return told && std::ranges::count(told.value(), 0u) == 0 ? Status::ok() : agree(untold);
}

// The rest of a close that does not wait. The drainer has committed and everybody knows it; nothing here may call MPI,
// or need this object, which has the team.
void SharedFile::finish_later(stage::AfterClose afterwards) noexcept {
    stage::Engine* const engine = engine_.get();
    const std::shared_ptr<stage::StagedFile> file = file_;
    const std::shared_ptr<group::Group> group = group_;
    stage::DeferredCloses::SharedClose close{{}, std::move(afterwards), drains_};
    if (!drains_) {
        close.finish = [file, group] {
            Status finished = group->ending().wait_until_finished();
            if (finished) finished = group->ending().outcome();
            const Status given_back = file->finish_followed(finished);
            group->ending().publish(group::Ending::Phase::kGivenBack);
            return given_back;
        };
        return engine->closes().finish_later(file, std::move(close));
    }
    std::shared_ptr<io::Claim> claim = std::move(claim_);
    close.finish = [engine, file, group, held = std::move(claim)]() mutable {
        const Status outcome = attempt([&] { return file->finish(stage::StagedFile::Finish::kBehindProgram); });
        group->ending().finished(outcome);
        // The board goes last: without it recovery could not tell what the logs of others mean, who may have died.
        if (const Status given_back = group->ending().await(group::Ending::Phase::kGivenBack, std::nullopt);
            outcome && given_back && group->ending().all_came_to(group::Ending::Phase::kGivenBack))
            (void)attempt([&] {
                return engine->area().directory()->remove_file(group::board_name(file->log_number()));
            });
        end_claim(*engine, *file, std::move(held));
        return outcome;
    };
    engine->closes().finish_later(file, std::move(close));
}

// ---- a file that was never closed ----------------------------------------------------------------------

void SharedFile::finish_unclosed() noexcept {
    if (engine_->inherited()) return;
    if (!attached_ || group_ == nullptr) return claim_.reset();   // nothing is staged
    const Status outcome = attempt([&]() -> Status {
        if (journal_ != nullptr)
            return {Code::kUnavailable, "with nodes=consistent it stays as it is, "
                                        "to be taken back to its last flush once recovery has run on every node"};
        return drains_ ? drain_unclosed() : follow_unclosed();
    });
    if (!outcome) file_->withhold(copy_of(outcome, "a write failed"));
    end_claim(*engine_, *file_, std::move(claim_));
}

Status SharedFile::follow_unclosed() {
    group_->ending().publish(group::Ending::Phase::kWritten);
    const Status finished = group_->ending().wait_until_finished(kOthersMax);
    FOREBAY_TRY(file_->finish_followed(finished));
    group_->ending().publish(group::Ending::Phase::kGivenBack);
    return Status::ok();
}

Status SharedFile::drain_unclosed() {
    if (const Status ended = group_->ending().await(group::Ending::Phase::kWritten, kOthersMax); !ended) {
        (void)attempt([&] { return file_->drain(); });   // what there is now; the logs stay
        return ended;
    }
    group_->stop_listening();
    if (several_nodes_) {
        // Other nodes may have made the file longer: its size is what they all have written.
        FOREBAY_TRY(file_->drain());
        FOREBAY_TRY(file_->finish_followed(Status::ok()));
    } else {
        FOREBAY_TRY(file_->finish());
    }
    group_->ending().finished();
    // The board goes last: without it recovery could not tell what the others' logs mean.
    if (group_->ending().await(group::Ending::Phase::kGivenBack, kOthersMax) &&
        group_->ending().all_came_to(group::Ending::Phase::kGivenBack))
        remove_board(file_->log_number());
    return Status::ok();
}

}   // namespace forebay::node
