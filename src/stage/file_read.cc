// Reading a staged file: what is staged on top of what the target has.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "io/guarded_access.h"
#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

namespace {

// So many staged bytes between two gaps are read from the target along with them: a request more costs a
// file server as much.
constexpr std::uint64_t kReadAlongMax = 64 * 1024;

// Reads all of `into`; what the file does not have is zeros.
Status read_or_zeros(io::File& file, std::uint64_t offset, io::MutableBytes into) {
    auto got = file.read_at(offset, into);
    if (!got) return got.status();
    if (got.value() < into.size()) std::memset(into.data() + got.value(), 0, into.size() - got.value());
    return Status::ok();
}

}   // namespace

// What a read has to copy from where, decided under the lock and carried out without it.
struct StagedFile::CopyPlan {
    struct Staged {
        ByteRange range;
        StagedBytes bytes;
    };
    std::vector<Staged> staged;
    std::vector<ByteRange> target;
    std::vector<ByteRange> zeros;
};

// True if anything but the target is needed. Pins nothing.
bool StagedFile::plan_copy_locked(ByteRange all, CopyPlan& plan) const {
    const bool plain = state_ == State::kPassive || state_ == State::kThrough;
    if (plain && index_.empty()) {
        plan.target.push_back(all);
        return false;
    }
    // Others may have made the file longer than is known here: then the target tells where it ends.
    const ByteRange inside = share_ ? all : all.intersect({0, std::max(logical_size_, all.begin)});
    const std::uint64_t real_end = shrink_to_.value_or(kOffsetMax);
    index_.for_each_newest(
        inside,
        [&](ByteRange range, const StagedBytes& bytes) {
            if (bytes.zeros()) plan.zeros.push_back(range);
            else plan.staged.push_back({range, bytes});
        },
        [&](ByteRange gap) {
            // Bytes that the target still has, but that were cut off, are not content.
            const ByteRange real = gap.intersect({0, std::max(real_end, gap.begin)});
            if (!real.empty()) plan.target.push_back(real);
            if (real.end < gap.end) plan.zeros.push_back({real.end, gap.end});
        });
    if (inside.end < all.end) plan.zeros.push_back({inside.end, all.end});
    return true;
}

// Whether the segment is still in the use that the bytes are from. False as well if that cannot be seen.
bool StagedFile::unchanged(const StagedBytes& bytes) noexcept {
    if (bytes.gathered != nullptr) return true;   // a copy
    bool same = false;
    const std::byte* const fault = io::guarded(bytes.segment->bytes(), [&]() noexcept {
        same = static_cast<std::uint32_t>(bytes.segment->generation()) == bytes.generation;
    });
    return same && fault == nullptr;
}

// Copies what the plan says into the bytes of a read from `offset` on. False: a segment was used again
// before its bytes were copied.
Result<bool> StagedFile::carry_out(const CopyPlan& plan, io::File& target, std::uint64_t offset,
                                   io::MutableBytes into) {
    const auto part = [&](ByteRange range) { return into.subspan(range.begin - offset, range.size()); };
    // What is staged or cut off between two gaps that are read in one goes on top of them.
    for (std::size_t first = 0, last = 0; first < plan.target.size(); first = ++last) {
        while (last + 1 < plan.target.size() && plan.target[last + 1].begin - plan.target[last].end <= kReadAlongMax) ++last;
        const ByteRange hull{plan.target[first].begin, plan.target[last].end};
        FOREBAY_TRY(read_or_zeros(target, hull.begin, part(hull)));
    }
    for (const ByteRange& range : plan.zeros) std::memset(part(range).data(), 0, range.size());
    for (const auto& [range, bytes] : plan.staged) {
        std::byte* const to = part(range).data();
        const std::byte* const from = bytes.data();
        const std::byte* const fault =
            io::guarded({from, range.size()}, [to, from, size = range.size()]() noexcept { std::memcpy(to, from, size); });
        if (fault != nullptr) return bytes.segment->fault(fault);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    return std::all_of(plan.staged.begin(), plan.staged.end(), [](const CopyPlan::Staged& staged) { return unchanged(staged.bytes); });
}

Status StagedFile::read(std::uint64_t offset, io::MutableBytes into) {
    if (into.empty()) return Status::ok();
    const bool inherited = surroundings_.inherited();
    // Whoever does not drain cannot keep segments from being used again: it looks, and tries again.
    bool pinned = false;
    for (;;) {
        CopyPlan plan;
        std::shared_ptr<io::File> target;
        std::shared_ptr<Share> share;   // keeps the segments of others mapped
        {
            const std::lock_guard lock(mutex_);
            if (!inherited) follow_locked();
            if (share_ && !share_->damage().is_ok()) return share_->damage().with_context("read " + path_);
            target = target_;
            share = share_;
            plan_copy_locked({offset, offset + into.size()}, plan);
            pinned = !plan.staged.empty() && !inherited && !follows();
            if (pinned)
                for (const auto& staged : plan.staged) staged.bytes.pin();
        }
        const auto intact = carry_out(plan, *target, offset, into);
        if (intact && (intact.value() || pinned)) {   // else these bytes are read again
            std::uint64_t stolen = 0;
            for (const auto& staged : plan.staged) stolen += staged.range.size();
            add(slot_->stolen, stolen);
        }
        if (pinned) {
            const std::lock_guard lock(mutex_);
            for (const auto& staged : plan.staged) staged.bytes.unpin();
            completed_.notify_all();   // a close may be waiting to give the segments back
            if (log_) recycle_locked();
        }
        if (!intact) return intact.status().with_context("read " + path_);
        if (intact.value() || pinned) return Status::ok();
        if (!inherited) {
            // What was followed has been drained and its segment used again.
            const std::lock_guard lock(mutex_);
            if (!share_) continue;
            index_.clear();
            share_->restart();
            continue;
        }
        // The parent has drained these bytes and used the segment again.
        for (const auto& [range, bytes] : plan.staged)
            if (!unchanged(bytes))
                FOREBAY_TRY(read_or_zeros(*target, range.begin, into.subspan(range.begin - offset, range.size())));
        return Status::ok();
    }
}

}   // namespace forebay::stage
