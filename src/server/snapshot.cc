#include "server/snapshot.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/attempt.h"
#include "stage/target_reads.h"

namespace forebay::server {

namespace {

constexpr std::uint64_t kPieceMax = std::uint64_t{1} << 20;
constexpr std::uint64_t kPieceCost = 64;   // memory of each known range, in bytes

}   // namespace

Snapshot::Snapshot(std::unique_ptr<io::File> store, std::shared_ptr<SnapshotAccount> account) noexcept
    : store_(std::move(store)), account_(std::move(account)) {}

Snapshot::~Snapshot() { account_->bytes.fetch_sub(charged_, std::memory_order_relaxed); }

void Snapshot::begin(std::uint64_t size, std::span<const ByteRange> elsewhere) {
    const std::lock_guard lock(mutex_);
    size_ = size;
    for (const ByteRange& range : elsewhere) saved_.add(range);
}

Status Snapshot::charge(std::uint64_t bytes) {
    const std::uint64_t cost = bytes + kPieceCost;
    if (account_->bytes.fetch_add(cost, std::memory_order_relaxed) + cost > account_->bytes_max) {
        account_->bytes.fetch_sub(cost, std::memory_order_relaxed);
        return {Code::kNoSpace, "the file changed by more bytes than the server keeps for readers; open it again"};
    }
    const std::lock_guard lock(mutex_);
    charged_ += cost;
    return Status::ok();
}

Status Snapshot::put(std::uint64_t offset, io::Bytes bytes) {
    FOREBAY_TRY(charge(bytes.size()));
    return store_->write_at(offset, bytes);
}

Status Snapshot::replace(std::uint64_t offset, io::Bytes bytes) {
    const std::lock_guard saving(saving_);
    FOREBAY_TRY(put(offset, bytes));
    const auto gaps = missing({offset, offset + bytes.size()});
    const std::lock_guard lock(mutex_);
    for (const ByteRange& gap : gaps) saved_.add(gap);
    return Status::ok();
}

std::vector<ByteRange> Snapshot::missing(ByteRange range) const {
    std::vector<ByteRange> gaps;
    const std::lock_guard lock(mutex_);
    if (failure_) saved_.for_each_gap(range.intersect({0, size_}), [&](ByteRange gap) { gaps.push_back(gap); });
    return gaps;
}

Status Snapshot::save_missing(io::File& file, ByteRange range) {
    const std::lock_guard saving(saving_);
    std::vector<std::byte> buffer;
    for (ByteRange gap : missing(range)) {
        for (; !gap.empty(); gap.begin += buffer.size()) {
            buffer.resize(std::min(gap.size(), kPieceMax));
            FOREBAY_TRY(charge(buffer.size()));
            FOREBAY_TRY(stage::read_or_zeros(file, gap.begin, buffer));
            FOREBAY_TRY(store_->write_at(gap.begin, buffer));
            // Comes before the write: a reader that still finds the range unsaved has read the old bytes.
            const std::lock_guard lock(mutex_);
            saved_.add({gap.begin, gap.begin + buffer.size()});
        }
    }
    return Status::ok();
}

void Snapshot::save(io::File& file, ByteRange range) noexcept {
    if (const Status saved = attempt([&] { return save_missing(file, range); }); !saved) give_up(saved);
}

Status Snapshot::read(io::File& file, std::uint64_t offset, io::MutableBytes into) {
    const ByteRange all{offset, offset + into.size()};
    for (;;) {
        FOREBAY_TRY(failure());
        const std::vector<ByteRange> gaps = missing(all);
        std::uint64_t at = all.begin;
        const auto part = [&](ByteRange range) { return into.subspan(range.begin - offset, range.size()); };
        const std::uint64_t end = std::max(all.begin, std::min(all.end, size_));
        for (const ByteRange& gap : gaps) {
            if (at < gap.begin) FOREBAY_TRY(stage::read_or_zeros(*store_, at, part({at, gap.begin})));
            FOREBAY_TRY(stage::read_or_zeros(file, gap.begin, part(gap)));
            at = gap.end;
        }
        if (at < end) FOREBAY_TRY(stage::read_or_zeros(*store_, at, part({at, end})));
        const io::MutableBytes beyond = part({end, all.end});
        std::fill(beyond.begin(), beyond.end(), std::byte{0});
        FOREBAY_TRY(failure());
        // Bytes saved meanwhile may have been overwritten before this read.
        if (gaps.empty() || missing(all) == gaps) return Status::ok();
    }
}

void Snapshot::give_up(const Status& why) noexcept {
    const std::lock_guard lock(mutex_);
    if (!failure_) return;
    try {
        failure_ = {Code::kUnavailable, "this flush of the file can no longer be read: " + why.message()};
    } catch (const std::bad_alloc&) {
        failure_ = Status(Code::kUnavailable, "");
    }
}

Status Snapshot::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

}   // namespace forebay::server
