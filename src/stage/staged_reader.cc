#include "stage/staged_reader.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "io/guarded_access.h"
#include "plan/read_merge.h"
#include "stage/counting.h"
#include "stage/target_reads.h"

namespace forebay::stage {

namespace {

// A gap of at most this size between two pieces is read along with them. On a slow target, one more request costs as
// much as those bytes; in memory, it costs much less.
constexpr std::uint64_t kReadAlongMax = 64 * 1024, kReadAlongMaxMemory = 4096;
// Larger pieces are read straight into the caller's buffer; smaller ones together, up to the size of a FUSE request.
constexpr std::uint64_t kStraightMin = 64 * 1024, kReadTogetherMax = std::uint64_t{1} << 20;
// At most so many pieces are looked up at a time, which bounds the time under the lock and the memory of the lists.
constexpr std::size_t kPartsAtATime = 16384;

}   // namespace

// The copies of one read. They are chosen under the lock and made without it.
struct StagedReader::CopyPlan {
    struct Staged {
        ByteRange range;
        index::StagedPlace bytes;
        std::byte* to;
    };
    std::vector<Staged> staged;
    std::vector<plan::ReadPiece> target;
    std::vector<io::MutableBytes> zeros;
};

void StagedReader::plan_copy(const ReadPart& part, CopyPlan& plan) const {
    const ByteRange all{part.offset, part.offset + part.into.size()};
    const auto to = [&part](ByteRange range) { return part.into.subspan(range.begin - part.offset, range.size()); };
    const bool plain = file_.mode == FileMode::kPassive || file_.mode == FileMode::kBypass ||
                       file_.retained_log.to_others;
    if (plain && file_.index().empty()) {
        plan.target.push_back({all, part.into.data()});
        return;
    }
    // Other processes may have made the file longer than this one knows; then the target tells where it ends.
    const ByteRange inside = file_.group ? all : all.intersect({0, std::max(file_.sizes.logical, all.begin)});
    const std::uint64_t real_end = file_.outflow.state.target.cut_due().value_or(kOffsetMax);
    file_.index().for_each_newest(
        inside,
        [&](ByteRange range, const index::StagedPlace& bytes) {
            if (bytes.zeros()) plan.zeros.push_back(to(range));
            else plan.staged.push_back({range, bytes, to(range).data()});
        },
        [&](ByteRange gap) {
            // Bytes beyond a cut that the target still has are not content.
            const ByteRange real = gap.intersect({0, std::max(real_end, gap.begin)});
            if (!real.empty()) plan.target.push_back({real, to(real).data()});
            if (real.end < gap.end) plan.zeros.push_back(to({real.end, gap.end}));
        });
    if (inside.end < all.end) plan.zeros.push_back(to({inside.end, all.end}));
}

void StagedReader::pin(const CopyPlan& plan) {
    for (const auto& staged : plan.staged) file_.bytes.index().keepers().pin(staged.bytes.keeper());
}

// A close may be waiting to give the segments back.
void StagedReader::unpin(const CopyPlan& plan) {
    const LockGuard lock(file_.mutex());
    for (const auto& staged : plan.staged) file_.bytes.index().keepers().unpin(staged.bytes.keeper());
    file_.outflow.state.arrivals.announce_unpinned();
    if (file_.log) log_.recycle();
}

// Returns true if the segment still has these bytes. Returns false if it was used again, or cannot be read.
bool StagedReader::unchanged(const index::StagedPlace& bytes) noexcept {
    if (bytes.gathered != nullptr) return true;   // a copy
    bool same = false;
    const std::byte* const fault = io::guarded(bytes.segment->bytes(), [&]() noexcept {
        same = static_cast<std::uint32_t>(bytes.segment->generation()) == bytes.generation;
    });
    return same && fault == nullptr;
}

// Copies the staged pieces. `intact` is false if a segment was used again before its bytes were copied.
Status StagedReader::copy_staged(const CopyPlan& plan, bool& intact) {
    for (const io::MutableBytes& part : plan.zeros) std::memset(part.data(), 0, part.size());
    for (const auto& [range, bytes, to] : plan.staged) {
        const std::byte* const from = bytes.data();
        const std::byte* const fault = io::guarded(
            {from, range.size()}, [into = to, from, size = range.size()]() noexcept { std::memcpy(into, from, size); });
        if (fault != nullptr) return bytes.segment->fault(fault);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    intact = std::all_of(plan.staged.begin(), plan.staged.end(),
                         [](const CopyPlan::Staged& staged) { return unchanged(staged.bytes); });
    return Status::ok();
}

// Reads the other pieces from the target, with at most `threads` threads. 0: the target is as fast as memory.
Status StagedReader::read_target(std::shared_ptr<io::File> target, std::vector<plan::ReadPiece> pieces,
                                 std::size_t threads) {
    if (pieces.empty()) return Status::ok();
    const auto begins_before = [](const plan::ReadPiece& a, const plan::ReadPiece& b) {
        return a.range.begin < b.range.begin;
    };
    if (!std::is_sorted(pieces.begin(), pieces.end(), begins_before))
        std::sort(pieces.begin(), pieces.end(), begins_before);
    const plan::ReadPolicy policy{threads > 0 ? kReadAlongMax : kReadAlongMaxMemory, kReadTogetherMax, kStraightMin};
    std::vector<plan::ReadRequest> requests = plan::merge_reads(pieces, policy);
    if (requests.size() == 1 && pieces.size() == 1)
        return read_or_zeros(*target, pieces.front().range.begin, {pieces.front().to, pieces.front().range.size()});
    class Help final : public drain::Work {
      public:
        explicit Help(std::shared_ptr<TargetReads> reads) : reads_(std::move(reads)) {}
        void run() noexcept override { reads_->work(); }

      private:
        std::shared_ptr<TargetReads> reads_;
    };
    const auto reads = std::make_shared<TargetReads>(std::move(target), std::move(pieces), std::move(requests));
    const std::size_t helpers = std::min(std::max<std::size_t>(threads, 1), reads->size()) - 1;
    // Without helpers this thread reads all pieces.
    (void)attempt([&] {
        for (std::size_t i = 0; i < helpers; ++i) file_.context.scheduler().carry_out(std::make_unique<Help>(reads));
    });
    reads->work();
    return reads->wait();
}

bool StagedReader::read_unstaged(const ReadPart& part, Status& outcome) {
    UnstagedTarget::Use use(file_.unstaged);
    if (use.file() == nullptr) return false;
    outcome = read_or_zeros(*use.file(), part.offset, part.into);
    if (!outcome) outcome = outcome.with_context("read " + file_.name.path);
    if (use.end()) {
        const LockGuard lock(file_.mutex());
        file_.unstaged.let_go();
    }
    return true;
}

Status StagedReader::read(std::span<const ReadPart> parts) {
    if (Status outcome; parts.size() == 1 && read_unstaged(parts.front(), outcome)) return outcome;
    for (; parts.size() > kPartsAtATime; parts = parts.subspan(kPartsAtATime))
        FOREBAY_TRY(read_some(parts.first(kPartsAtATime)));
    return read_some(parts);
}

Status StagedReader::read_some(std::span<const ReadPart> parts) {
    const bool inherited = file_.context.inherited();
    // A process that does not drain cannot pin segments. It checks them after the copy, and starts over if need be.
    bool pinned = false, drain_now = false;
    for (;;) {
        CopyPlan plan;
        std::shared_ptr<io::File> target;
        std::shared_ptr<group::Group> group;   // keeps the segments of others mapped
        std::size_t threads = 0;
        {
            const LockGuard lock(file_.mutex());
            if (!inherited) {
                file_.follow();
                // The listener does not report records that are followed here; other nodes may wait for their drain.
                drain_now = file_.group && file_.drains() && file_.outflow.state.planner.wants_thread();
            }
            if (file_.group && !file_.group->order().damage().is_ok())
                return file_.group->order().damage().with_context("read " + file_.name.path);
            target = file_.target;
            group = file_.group;
            for (const ReadPart& part : parts)
                if (!part.into.empty()) plan_copy(part, plan);
            if (!inherited && file_.outflow.state.facts.waited_for()) threads = file_.context.options().drain_threads;
            pinned = !plan.staged.empty() && !inherited && !file_.follows();
            if (pinned) pin(plan);
        }
        if (drain_now) file_.outflow.wake();
        bool intact = false;
        const Status copied = attempt([&] { return copy_staged(plan, intact); });   // the pins must end
        if (copied && (intact || pinned)) {                                         // else these bytes are read again
            std::uint64_t stolen = 0;
            for (const auto& staged : plan.staged) stolen += staged.range.size();
            add(file_.counters->stolen, stolen);
        }
        if (pinned) unpin(plan);
        if (!copied) return copied.with_context("read " + file_.name.path);
        if (!intact && !pinned) {
            if (!inherited) {
                // The followed bytes have drained, and their segment was used again.
                const LockGuard lock(file_.mutex());
                if (!file_.group) continue;
                file_.index().clear();
                file_.group->order().restart();
                continue;
            }
            // The parent has drained these bytes and used the segment again.
            for (const auto& [range, bytes, to] : plan.staged)
                if (!unchanged(bytes)) plan.target.push_back({range, to});
        }
        const Status rest = read_target(std::move(target), std::move(plan.target), threads);
        return rest ? rest : rest.with_context("read " + file_.name.path);
    }
}

// Ready bytes below the committed end are the last commit's: newer ones are held. The keeper gets a count of others.
Status StagedReader::copy_committed(CommitKeeper& keeper) {
    CopyPlan plan;
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode != FileMode::kStaged || file_.group)
            return {Code::kUnavailable,
                    file_.name.path + ": its last flush is not known apart from what came after it"};
        CommitKeeper::State state{
            file_.sizes.committed, file_.counters->guarantee_given_up.load(std::memory_order_relaxed), {}};
        const std::uint64_t real_end = file_.outflow.state.target.cut_due().value_or(kOffsetMax);
        file_.bytes.index().ready().map().for_each_and_gap(
            {0, file_.sizes.committed},
            [&](ByteRange range, const index::StagedPlace& bytes) {
                state.elsewhere.push_back(range);
                if (!bytes.zeros()) plan.staged.push_back({range, bytes, nullptr});
            },
            [&](ByteRange gap) {
                const ByteRange cut{std::max(gap.begin, real_end), gap.end};
                if (!cut.empty()) state.elsewhere.push_back(cut);
            });
        FOREBAY_TRY(keeper.begin(std::move(state)));
        pin(plan);
    }
    const Status copied = attempt([&]() -> Status {
        std::vector<std::byte> buffer;   // an extent is within one segment, or one that was gathered
        for (const auto& [range, bytes, to] : plan.staged) {
            buffer.resize(range.size());
            const std::byte* const from = bytes.data();
            const std::byte* const fault = io::guarded({from, range.size()}, [&buffer, from]() noexcept {
                std::memcpy(buffer.data(), from, buffer.size());
            });
            if (fault != nullptr) return bytes.segment->fault(fault).with_context("read " + file_.name.path);
            FOREBAY_TRY(keeper.take(range.begin, buffer));
        }
        return Status::ok();
    });
    unpin(plan);
    return copied;
}

}   // namespace forebay::stage
