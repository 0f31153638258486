#include "file/shared_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/attempt.h"
#include "file/meeting.h"

namespace forebay::file {

namespace {

std::string unstaged(const Status& why) { return why.message() + " (no rank stages the file)"; }

}   // namespace

SharedFile::SharedFile(std::shared_ptr<stage::Engine> engine, std::shared_ptr<Team> team)
    : ProgramFile(engine), state_{std::move(engine), std::move(team), {}, {}, false, {}, {}} {}

SharedFile::~SharedFile() {
    // Attached only after an open that failed, when no byte is staged yet.
    if (state_.attached) (void)engine_->detach(file_, true);
}

Status SharedFile::attach(stage::OpenTarget target, std::string& warning) {
    if (target.forwarded != nullptr) {
        auto writing = engine_->attach_forwarded(std::move(target));
        FOREBAY_TRY(writing.status());
        file_ = state_.file = writing.value()->reader();
        forwarded_.adopt(std::move(writing).value());
        sharing_ = &forwarded_;
    } else {
        auto attached = engine_->attach(std::move(target));
        FOREBAY_TRY(attached.status());
        file_ = state_.file = std::move(attached.value().file);
        warning = std::move(attached.value().warning);
    }
    state_.attached = true;
    return Status::ok();
}

// Fills `me` with this member's facts, and `warning` with a text for the user.
Status SharedFile::introduce(Result<stage::OpenTarget>&& opened, Introduction& me, std::string& warning) {
    FOREBAY_TRY(opened.status());
    FOREBAY_TRY(attach(std::move(opened).value(), warning));
    if (file_->membership().shared())
        return {Code::kUnsupported, fmt::format("open {}: it is open for writing already, with another communicator "
                                                "or by an open that has not been closed",
                                                file_->path())};
    const Options& options = engine_->options().options;
    const auto process = area::identify_this_process();
    FOREBAY_TRY(process.status());
    me.process = process.value();
    me.staged = file_->staged() ? 1 : 0;
    // If one member has no room for a log, no member stages.
    if (const Status room = me.staged != 0 ? file_->membership().take_first_segment() : Status::ok(); !room) {
        me.staged = 0;
        if (options.strict || room.code() != Code::kNoSpace) return room;
        warning = unstaged(room);
    }
    me.log = file_->state().name.log_number;
    me.segment_bytes = options.segment;
    me.segments_max = std::max<std::uint64_t>(2, options.size / options.segment) + 2;
    me.durable = options.durability == Durability::kNode ? 1 : 0;
    if (io::Directory* const directory = engine_->area().directory()) me.directory = directory->name();
    return Status::ok();
}

Result<SharedFile::Opened> SharedFile::open(std::shared_ptr<stage::Engine> engine, Result<stage::OpenTarget> opened,
                                            std::shared_ptr<Team> team) {
    Opened result;
    Introduction me;
    std::string node;
    std::vector<std::byte> introduction;
    std::vector<Introduction> all;
    const Status introduced = attempt([&] {
        all.resize(static_cast<std::size_t>(team->size()));
        node = engine->area().node_name();
        me.node = node;
        result.file = std::shared_ptr<SharedFile>(new SharedFile(std::move(engine), team));
        const Status mine = result.file->introduce(std::move(opened), me, result.warning);
        introduction = encode(me);
        return mine;
    });
    const auto told = team->gather(introduced, introduction);
    if (!told) return told.status();
    // All members decode the same bytes, without allocating.
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        auto one = decode(told.value()[rank]);
        if (!one) return one.status();
        all[rank] = one.value();
    }
    FOREBAY_TRY(result.file->choose_sharing(all, me, result.warning));
    return result;
}

// All members stage, or none: a member would not see bytes that another member has staged.
Status SharedFile::choose_sharing(const std::vector<Introduction>& all, const Introduction& me, std::string& warning) {
    if (std::ranges::any_of(all, [](const Introduction& one) { return one.staged == 0; })) return stay_unstaged();
    Team& team = *state_.team;
    // Warns on rank 0, for all ranks. A warning that lacks memory is dropped.
    const auto warn = [&](auto&& text) {
        if (team.rank() != 0) return;
        (void)attempt([&] { warning += (warning.empty() ? "" : "; ") + text(); });
    };
    const auto wants = [](const Introduction& one) { return one.durable != 0; };
    Grouped::Node node{all, me.node, static_cast<std::size_t>(team.rank())};
    const bool several = !node.is_all();
    node.durable = !several && std::ranges::all_of(all, wants);
    Grouped& grouped = several ? static_cast<Grouped&>(several_nodes_) : one_node_;
    if (!node.durable && std::ranges::any_of(all, wants))
        warn([&] {
            return fmt::format(
                "{} is opened by {}: durability=node does not hold for it, so a flush does not survive a loss of power",
                file_->path(), several ? "several nodes" : "ranks of which not all have durability=node");
        });
    if (several) {
        const auto begun = several_nodes_.begin_consistency(all.front(), me.process);
        if (!begun) return begun.status();
        if (!begun.value().empty()) warn([&] { return begun.value(); });
    }
    const Status joined = grouped.join(node);
    if (joined.code() == Code::kNoSpace && !grouped.joined()) {
        // All members see the same failure, and none has joined: the drainer of a node has no room for the board.
        if (team.rank() == 0) warning.clear();
        warn([&] { return unstaged(joined); });
        return stay_unstaged();
    }
    if (joined) sharing_ = &grouped;
    else grouped.leave(node);
    return joined;
}

// No member has a log, so all writes go to the target, where every other member sees them at once.
Status SharedFile::stay_unstaged() {
    if (several_nodes_.journal() != nullptr) FOREBAY_TRY(several_nodes_.end_consistency());
    return state_.team->agree(attempt([&] {
        if (!file_->staged()) return Status::ok();   // the attach has counted it
        engine_->count_never_staged(ledger::AsideReason::kStagingArea);
        return file_->lifecycle().step_aside(ledger::AsideReason::kStagingArea);
    }));
}

Status SharedFile::write_part(std::span<const Part> parts, stage::ByteClass byte_class, bool together) {
    if (parts.empty()) return Status::ok();
    Status written = sharing_->write(parts, byte_class, together);
    if (!written) defer_error(copy_of(written, "a write failed"), byte_class);
    return written;
}

void SharedFile::defer_error(Status failure, stage::ByteClass of) noexcept {
    const bool stays = of == stage::ByteClass::kMetadata || state_.file->state().outflow.state.facts.lost();
    Status& kept = stays ? state_.incomplete : state_.untold;
    if (kept.is_ok()) kept = std::move(failure);
}

Status SharedFile::agree_on_write(const Status& mine, Status earlier) {
    Status outcome = agree(mine);
    if (!outcome) state_.untold = Status::ok();   // all members know it
    if (!earlier) state_.untold = std::move(earlier);
    sharing_->collective_write_done();
    return outcome;
}

Result<bool> SharedFile::any(bool mine) {
    const Meeting meeting(sharing_->journal());
    const auto all = state_.team->agree(Status::ok(), mine ? 1 : 0);
    if (!all) return all.status();
    return std::ranges::count(all.value(), 0u) < static_cast<std::ptrdiff_t>(all.value().size());
}

Status SharedFile::step_aside(ledger::AsideReason reason) {
    Status outcome = sharing_->step_aside(reason);
    if (sharing_->has_ended()) sharing_ = &unstaged_;
    return outcome;
}

void SharedFile::finish_unclosed() noexcept {
    if (engine_->inherited()) return;
    if (!state_.attached) return state_.claim.reset();
    sharing_->finish_unclosed();
}

}   // namespace forebay::file
