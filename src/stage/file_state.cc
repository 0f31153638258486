#include "stage/file_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stage/commit_policy.h"   // IWYU pragma: keep

namespace forebay::stage {

namespace {

// Small pieces of at most so many bytes, and this share of the log, wait for neighbours before each is staged alone.
constexpr std::uint64_t kWaitingMax = std::uint64_t{32} << 20;
constexpr std::uint64_t kWaitingShare = 8;

}   // namespace

FileState::FileState(FileContext& file_context, Name file_name, std::shared_ptr<io::File> file,
                     drain::DrainListener& listener)
    : context(file_context),
      name(std::move(file_name)),
      outflow({context.options(), context.scheduler(), context.progress()}, bytes, listener, name.path),
      target(std::move(file)) {}

FileState::~FileState() = default;

Status FileState::refuse_if_inherited(const char* action) const {
    if (!context.inherited()) return Status::ok();
    return {Code::kUnsupported, fmt::format("{} {}: the file was opened before this process was forked; open it again "
                                            "here",
                                            action, name.path)};
}

index::FileBounds FileState::bounds() noexcept {
    return {sizes.logical, progress.dirty, sizes.committed, outflow.state.target.size(), several_nodes};
}

void FileState::follow(bool may_wait) {
    if (!group || mode != FileMode::kStaged) return;
    index::FileBounds found = bounds();
    while (!group->order().find()) {
        index().clear();
        group->order().restart();
        // The target has the released records, and its size tells of the rest.
        if (const auto size = target->size()) {
            outflow.state.target.reaches(size.value());
            found.reach(size.value());
        }
    }
    if (follower) return follower->take_in(found);
    group->order().count_found(counters->pending);
    if (!group->order().damage().is_ok() && !outflow.state.failures.halted())
        outflow.state.halt(group->order().damage());
    const Options& options = context.options();
    const bool gathers = may_wait && !outflow.state.planner.urgent() && !several_nodes && !progress.all_written &&
                         !group->order().completeness_awaited();
    if (!bytes.take_in(group->order(), found, options.write_max,
                       gathers ? std::min(kWaitingMax, options.size / kWaitingShare) : 0))
        return;
    outflow.state.target.reaches(found.target_size);
    update_ledger();   // some of the new bytes replaced older ones
    progress.all_written = false;
}

// Other processes may have staged bytes of a shared file. A log that was left behind has bytes that are nowhere else.
void FileState::offer_target() noexcept {
    const bool unstaged_now = !group && mode != FileMode::kFailed && bytes.empty() && !outflow.state.target.cut_due();
    unstaged.offer(unstaged_now ? target.get() : nullptr);
}

// After a failure other processes may write beyond the file's end, where a cut would take their bytes
// (DrainedFile::allow_bypass).
std::uint64_t FileState::make_held_ready() {
    index::ExtentIndex& index = bytes.index();
    const std::uint64_t given_up = index.held().bytes() + index.held().zero_bytes();
    if (index.held().map().overlaps({sizes.logical, kOffsetMax}) && !(group && outflow.state.failures.halted())) {
        index.truncate(sizes.logical, sizes.logical, sizes.logical);
        outflow.state.target.commit(sizes.logical);
    }
    (void)index.make_held_ready();
    add(counters->guarantee_given_up, given_up);
    return given_up;
}

Status FileState::sync_target() {
    const LockGuard lock(mutex());
    return outflow.syncs.sync();
}

std::optional<std::uint64_t> FileState::memory_pace() const noexcept {
    return group ? group->target().memory_pace() : outflow.state.facts.pace();
}

void FileState::update_ledger() {
    offer_target();
    if (follows()) return;   // the drainer keeps the accounts; reads filled the index of this process
    const std::uint64_t pending = bytes.pending_bytes() + retained_log.bytes;
    counters->pending.store(pending + (group ? group->order().found_bytes() : 0), std::memory_order_relaxed);
    counters->held.store(bytes.index().held().bytes(), std::memory_order_relaxed);
    counters->superseded.store(bytes.index().superseded_bytes(), std::memory_order_relaxed);
    const bool any = pending > 0 && log && !log->segments().empty();
    // A size that the target has not got yet counts as well.
    const bool sized = !drains() || (!outflow.state.target.cut_due() && outflow.state.target.size() >= sizes.committed);
    counters->oldest_ns.store(any     ? log->segments().oldest()->first_time_ns
                              : sized ? 0
                                      : sizes.commit_time_ns,
                              std::memory_order_relaxed);
}

void FileState::count_aside(ledger::AsideReason reason) noexcept {
    counters->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(reason), std::memory_order_relaxed);
}

}   // namespace forebay::stage
