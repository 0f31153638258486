#include "file/grouped.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/attempt.h"
#include "base/clock.h"
#include "io/posix_file.h"

namespace forebay::file {

namespace {

using group::board_name;

// The ranks of a program end together. The staged bytes of a rank that runs on stay in its log.
constexpr std::chrono::seconds kOthersMax{30};

Result<std::unique_ptr<io::File>> open_in(std::string_view directory, const std::string& name) {
    auto opened = io::open_posix_directory(std::string(directory));
    if (!opened) return opened.status();
    return opened.value()->open_file(name, io::OpenMode::kReadWrite);
}

}   // namespace

std::size_t Grouped::Node::size() const noexcept {
    return static_cast<std::size_t>(std::ranges::count_if(all, [&](const Introduction& one) { return has(one); }));
}

const Introduction& Grouped::Node::drainer() const noexcept {
    return *std::ranges::find_if(all, [&](const Introduction& one) { return has(one); });
}

Status Grouped::join(const Node& node) {
    drains_ = node.drains();
    state_.engine->area().share_reserve(node.size());
    Result<group::Board> board = Status(Code::kInternal, "no board");
    const Status mine = attempt([&] { return drains_ ? make_board(node, board) : Status::ok(); });
    Status made = state_.team->agree(mine);
    if (!made && mine) remove_board(node.drainer().log);   // the board of another node failed
    if (!made) return made;
    return state_.team->agree(attempt([&] { return share_board(node, board); }));
}

Status Grouped::make_board(const Node& node, Result<group::Board>& board) {
    std::uint64_t ring = 0;
    for (const Introduction& one : node.all)
        if (node.has(one)) ring = std::max(ring, one.segments_max);
    auto file = state_.engine->area().directory()->open_file(board_name(node.drainer().log), io::OpenMode::kCreateNew);
    const Status made = attempt([&] {
        if (file) board = group::Board::create(std::move(file).value(), node.size(), ring, group_of(node.drainer()));
        else board = file.status();
        return board.status();
    });
    if (file && !made) remove_board(node.drainer().log);
    // A failure with kNoSpace would let all members go on without staging, which option strict forbids.
    if (!made && state_.engine->options().options.strict) return {Code::kUnavailable, made.message(), made.sys_errno()};
    return made;
}

Status Grouped::share_board(const Node& node, Result<group::Board>& board) {
    std::vector<const Introduction*> members;
    std::set<std::string_view> nodes;
    for (const Introduction& one : node.all) {
        if (node.has(one)) members.push_back(&one);
        nodes.insert(one.node);
    }
    const auto self = static_cast<std::uint64_t>(std::ranges::find(members, &node.all[node.rank]) - members.begin());
    const bool several = nodes.size() > 1;
    if (!drains_) {
        auto file = open_in(node.drainer().directory, board_name(node.drainer().log));
        FOREBAY_TRY(file.status());
        board = group::Board::open(std::move(file).value(), members.size());
        FOREBAY_TRY(board.status());
    }
    std::vector<area::ProcessIdentity> processes;
    std::vector<std::string> directories;
    for (const Introduction* one : members) {
        processes.push_back(one->process);
        directories.emplace_back(one->directory);
    }
    group_ = std::make_shared<group::Group>(group::Group::Setup{
        std::move(board).value(), self, 0, std::move(processes), state_.file->state().outflow.state.facts.stripe(),
        several, node.durable, several ? group_of(node.all.front()) : 0, nodes.size(), journal() != nullptr,
        std::move(directories)});
    Status mine;
    for (std::size_t i = 0; i < members.size() && mine; ++i) {
        std::unique_ptr<io::File> pool;
        if (!drains_ || i != self) {
            auto file = open_in(members[i]->directory, "log");
            mine = file.status();
            if (mine) pool = std::move(file).value();
        }
        group_->add_log(std::move(pool), members[i]->segment_bytes);
    }
    FOREBAY_TRY(mine);
    FOREBAY_TRY(state_.file->membership().join(group_, several));
    FOREBAY_TRY(group_->lost());
    if (!drains_) return Status::ok();
    return group_->listen([file = std::weak_ptr(state_.file)](bool room_wanted) {
        const auto alive = file.lock();
        return alive ? alive->membership().poll(room_wanted) : std::nullopt;
    });
}

void Grouped::leave(const Node& node) noexcept {
    remove_journal();
    state_.attached = false;
    if (state_.team->agree(state_.engine->detach(state_.file, true))) remove_board(node.drainer().log);
}

// Runs on the drainer only. Recovery removes a board that stays here.
void Grouped::remove_board(std::uint64_t log) noexcept {
    if (!drains_) return;
    (void)attempt([&] { return state_.engine->area().directory()->remove_file(board_name(log)); });
}

Status Grouped::write(std::span<const Part> parts, stage::ByteClass byte_class, bool together) {
    Status written = attempt([&] { return write_parts(parts, byte_class, together); });
    if (written && !group_->lost().is_ok()) written = copy_of(group_->lost(), "board lost");   // may stay unseen
    if (written && read_around_ && byte_class == stage::ByteClass::kRaw)
        written = attempt([&] { return state_.file->membership().drain_present(); });
    return written;
}

Status Grouped::expose_offsets() {
    state_.file->lifecycle().note_addresses_given();
    read_around_ = true;
    return state_.file->membership().drain_present();
}

Status Grouped::by_drainers(const std::function<Status()>& act, Untold untold, const std::function<Status()>& all) {
    const std::uint64_t begin_ns = monotonic_ns();
    const auto own_log_lost = [&] { return attempt([&] { return state_.file->membership().own_log_lost(); }); };
    // A state without the failed write, or without bytes that a log has lost, must not replace the last commit.
    Status mine = untold == Untold::kTell ? state_.take_deferred_error() : Status::ok();
    if (mine) mine = own_log_lost();
    FOREBAY_TRY(agree(mine));
    if (drains_) {
        mine = attempt(act);
        group_->marked();
    }
    if (mine && all) mine = attempt(all);
    if (mine) mine = copy_of(group_->lost(), "board lost");
    if (mine) mine = own_log_lost();   // the drainer has read it meanwhile
    Status agreed = agree(mine);
    if (!drains_) state_.file->membership().waited_since(begin_ns);   // the drainers' own calls count their time
    return agreed;
}

// The steps that can fail come first, and change no member's mode: if one fails on any member, all go on staging.
Status Grouped::step_aside(ledger::AsideReason reason) {
    FOREBAY_TRY(by_drainers([&] { return state_.file->drain(); }));
    const Status prepared = agree(attempt([&] { return state_.file->membership().prepare_bypass(); }));
    if (!prepared) return prepared;
    // After a failure of end_group some bytes may still have to be undone. The file bypasses the log all the same.
    const Status ended = end_group();
    if (drains_) group_->stop_listening();
    const auto bypass = [&] { return attempt([&] { return state_.file->membership().bypass_log(reason); }); };
    // The drainers give their logs back first, as at a close: the others' logs mean nothing then.
    const Status first = state_.team->agree(drains_ ? bypass() : Status::ok());
    const Status second = state_.team->agree(drains_ ? Status::ok() : bypass());
    group_.reset();
    if (!first || !second) return first ? second : first;
    remove_board(state_.file->state().name.log_number);
    return ended;
}

void Grouped::abandon(const Status& why) noexcept {
    group_->stop_listening();
    Sharing::abandon(why);
}

Status Grouped::end_part(const Status& whole, Status committed) {
    Status mine;
    if (drains_) {
        group_->stop_listening();
        if (!whole) state_.file->lifecycle().withhold(copy_of(whole, "a write failed"));
        mine = state_.engine->detach(state_.file, true);
        group_->ending().finished();
    } else {
        mine = attempt([&]() -> Status {
            FOREBAY_TRY(group_->ending().wait_until_finished());
            FOREBAY_TRY(state_.file->membership().own_log_lost());
            return state_.file->membership().confirm_own_writes();
        });
    }
    state_.end_claim();   // any member's return lets other programs open the file
    return agree(mine ? committed : mine);
}

Status Grouped::give_back(const Status& outcome) {
    if (drains_) return Status::ok();
    const Status given_back = attempt([&] { return state_.file->membership().finish_followed(outcome); });
    (void)state_.engine->detach(state_.file, true);
    return given_back;
}

void Grouped::finish_unclosed() noexcept {
    const Status outcome = attempt([&]() -> Status {
        if (journal() != nullptr)
            return {Code::kUnavailable,
                    "with nodes=consistent it stays as it is; run `forebay recover` on every node to bring it to its "
                    "last flush"};
        return drains_ ? await_and_drain() : follow_unclosed();
    });
    if (!outcome) state_.file->lifecycle().withhold(copy_of(outcome, "a write failed"));
    state_.end_claim();
}

Status Grouped::kept_at_last_commit() const {
    return keeps_last_commit() ? copy_of(state_.incomplete, "a write failed") : Status::ok();
}

Status Grouped::follow_unclosed() {
    Status kept = kept_at_last_commit();
    // No close reports a loss, and the end of a process tells of a log that stays.
    if (kept) kept = attempt([&] { return state_.file->membership().own_log_lost(); });
    if (!kept) {
        group_->ending().publish(group::Ending::Phase::kIncomplete);
        return state_.file->membership().finish_followed(kept);
    }
    group_->ending().publish(group::Ending::Phase::kWritten);
    Status finished = group_->ending().wait_until_finished(kOthersMax);
    if (finished) finished = group_->ending().outcome();
    if (finished) finished = state_.file->membership().own_log_lost();   // the drainer has read it meanwhile
    FOREBAY_TRY(state_.file->membership().finish_followed(finished));
    group_->ending().publish(group::Ending::Phase::kLogGivenBack);
    return Status::ok();
}

// All members have come to their ends.
Status Grouped::finish_all() {
    FOREBAY_TRY(kept_at_last_commit());
    FOREBAY_TRY(keeps_last_commit() ? group_->ending().incomplete() : Status::ok());
    return drain_unclosed();
}

Status Grouped::await_and_drain() {
    if (const Status ended = group_->ending().await(group::Ending::Phase::kWritten, kOthersMax); !ended) {
        (void)attempt([&] { return state_.file->drain(); });   // drains the present bytes; the logs stay
        return ended;
    }
    group_->stop_listening();
    const Status outcome = attempt([&] { return finish_all(); });
    group_->ending().finished(outcome);   // a failure ends the others' waits as well
    if (!outcome) return outcome;
    if (group_->ending().await(group::Ending::Phase::kLogGivenBack, kOthersMax) &&
        group_->ending().all_came_to(group::Ending::Phase::kLogGivenBack))
        remove_board(state_.file->state().name.log_number);
    return Status::ok();
}

}   // namespace forebay::file
