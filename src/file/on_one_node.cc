#include "file/on_one_node.h"

#include <algorithm>

#include "base/attempt.h"

namespace forebay::file {

Status OnOneNode::join(const Node& node) {
    FOREBAY_TRY(Grouped::join(node));
    durable_ = node.durable;
    if (!durable_) return Status::ok();
    // All members have joined, and none has written. Puts the board and the beginning of every log on the device.
    return state_.team->agree(attempt([&]() -> Status {
        if (!drains_) return Status::ok();
        FOREBAY_TRY(state_.file->membership().begin_statements());
        return state_.engine->area().directory()->sync();
    }));
}

Status OnOneNode::write_parts(std::span<const Part> parts, stage::ByteClass byte_class, bool /*together*/) {
    return state_.file->write(parts, byte_class);
}

void OnOneNode::collective_write_done() noexcept {
    if (drains_) (void)attempt([&] { state_.file->membership().collective_write_done(); });
}

Status OnOneNode::truncate(std::uint64_t size) {
    FOREBAY_TRY(by_drainers([&] { return state_.file->truncate(size); }));
    if (drains_) return Status::ok();
    if (Status followed = attempt([&] { return state_.file->truncate(size); }); !followed && state_.untold)
        state_.untold = std::move(followed);
    return Status::ok();
}

Status OnOneNode::commit() {
    // All members sync at the same time. The drainer then syncs only bytes that were written since.
    if (durable_) FOREBAY_TRY(agree(attempt([&] { return state_.file->membership().sync_own_log(); })));
    return by_drainers(
        [&] {
            const Status committed = state_.file->commit();
            return committed ? state_.file->drain() : committed;
        },
        Untold::kTell);
}

std::optional<stage::WaitedClose> OnOneNode::why_close_waits() {
    if (durable_) return stage::WaitedClose::kShared;
    const auto waits = state_.engine->closes().why_waits(*state_.file);
    if (!waits && (!state_.untold || !group_->lost() || !state_.file->membership().own_log_lost()))
        return stage::WaitedClose::kFailing;
    return waits;
}

// Returns the rest of a close that does not wait. The drainer has committed, and every member knows it. The function
// runs without MPI and without this object, which holds the team. May throw std::bad_alloc.
std::function<Status()> OnOneNode::rest_of_close() const {
    if (!drains_)
        return [file = state_.file, group = group_] {
            Status finished = group->ending().wait_until_finished();
            if (finished) finished = group->ending().outcome();
            // The drainer has read this log, and cannot know whether the device has lost bytes of it.
            Status lost = attempt([&] { return file->membership().own_log_lost(); });
            const Status given_back = file->membership().finish_followed(finished);
            group->ending().publish(group::Ending::Phase::kLogGivenBack);
            return given_back ? lost : given_back;
        };
    return [engine = state_.engine.get(), file = state_.file, group = group_, claim = state_.claim]() mutable {
        const Status outcome = attempt([&] {
            return file->lifecycle().finish(stage::Lifecycle::Finish::kBehindProgram);
        });
        group->ending().finished(outcome);
        if (const Status given_back = group->ending().await(group::Ending::Phase::kLogGivenBack, std::nullopt);
            outcome && given_back && group->ending().all_came_to(group::Ending::Phase::kLogGivenBack))
            (void)attempt([&] {
                return engine->area().directory()->remove_file(group::board_name(file->state().name.log_number));
            });
        end_claim(*engine, *file, std::move(claim));
        return outcome;
    };
}

bool OnOneNode::defer(std::optional<stage::WaitedClose>& waits, AfterClose& afterwards) {
    stage::DeferredCloses::SharedClose close{{}, {}, drains_};
    // First, as a member that agrees to defer cannot fail any more.
    const Status prepared = attempt([&] {
        close.finish = rest_of_close();
        return Status::ok();
    });
    const auto word_of = [](stage::WaitedClose why) { return 1 + static_cast<std::uint64_t>(why); };
    std::uint64_t word = 0;   // 0, or 1 plus the reason
    if (drains_) {
        group_->stop_listening();
        word = word_of(stage::WaitedClose::kFailing);
        (void)attempt([&] {
            const auto why = state_.file->lifecycle().commit_to_finish_later();
            word = why ? word_of(*why) : 0;
        });
    }
    if (!prepared) word = word_of(stage::WaitedClose::kUnclaimed);
    const auto words = state_.team->agree(Status::ok(), word);
    if (!words) return false;
    word = *std::ranges::max_element(words.value());
    if (word != 0) {
        waits = static_cast<stage::WaitedClose>(word - 1);
        return false;
    }
    state_.claim.reset();   // the rest of the close has it
    close.afterwards = std::move(afterwards);
    state_.engine->closes().finish_later(state_.file, std::move(close));
    return true;
}

}   // namespace forebay::file
