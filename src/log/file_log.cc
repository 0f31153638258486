#include "log/file_log.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/copy.h"

namespace forebay::log {

namespace {

constexpr std::uint64_t kSlackBytes = 64 * 1024;
constexpr std::uint64_t kSlackShare = 32;

}   // namespace

FileLog::FileLog(SegmentPool& pool, std::uint64_t log, LogTarget target, bool check_large_payloads)
    : pool_(pool),
      log_(log),
      target_(std::move(target)),
      check_large_payloads_(check_large_payloads),
      slack_bytes_(std::min(kSlackBytes, pool.segment_bytes() / kSlackShare)) {}

FileLog::~FileLog() { release_all(); }

std::uint64_t FileLog::room(bool use_slack) const noexcept {
    if (newest_ == nullptr) return 0;
    const std::uint64_t left = newest_->size() - newest_->tail;
    const std::uint64_t taken = payload_offset(1) + (kRecordAlignment - 1) + (use_slack ? 0 : slack_bytes_);
    return left > taken ? left - taken : 0;
}

bool FileLog::marker_fits() const noexcept {
    return newest_ != nullptr && newest_->size() - newest_->tail >= record_bytes(1, 0);
}

bool FileLog::adopt(Segment* segment, const LastCommit& commit, std::uint64_t sequence) {
    std::vector<std::byte> payload;
    try {
        payload = encode(OpenPayload{target_.device, target_.inode, commit.sequence, target_.sharing, target_.path,
                                     target_.born});
        segments_.push_back(segment);
    } catch (const std::bad_alloc&) {
        pool_.release(segment);   // recovery must not find two segments with one order
        throw;
    }
    ++next_order_;
    newest_ = segment;
    std::byte* const at = end();
    const RecordHeader header{RecordKind::kOpen, DataClass::kRaw,   true,
                              sequence,          payload.size(),    commit.size,
                              commit.time_ns,    checksum(payload), target_.durable};
    // All earlier segments were given back. Recovery must not look for them.
    if (target_.durable && segments_.size() == 1 && next_order_ > 1 && !declare_needed_from(next_order_ - 1))
        return false;
    return store({}, [&]() noexcept {
        if (state_.serial != 0) store_state(*newest_);
        std::memcpy(at + payload_offset(0), payload.data(), payload.size());
        encode(header, {}, newest_->use(), {at, payload_offset(0)});
        publish(record_bytes(0, payload.size()));
    });
}

FileLog::Position FileLog::append_data(std::span<const Part> parts, DataClass data_class, std::uint64_t sequence,
                                       std::uint64_t time_ns) {
    return append(parts, {}, data_class, sequence, time_ns);
}

FileLog::Position FileLog::append(std::span<const Part> parts, io::Bytes from, DataClass data_class,
                                  std::uint64_t sequence, std::uint64_t time_ns) {
    extents_.clear();
    std::uint64_t bytes = 0;
    for (const Part& part : parts) {
        extents_.push_back({part.offset, part.offset + part.bytes.size()});
        bytes += part.bytes.size();
    }
    std::byte* const at = end();
    const std::uint64_t begin = payload_offset(parts.size());
    const Position position{newest_, newest_->tail + begin};
    const bool checked = check_large_payloads_ || bytes <= kCheckedPayloadMax;
    bool write = !newest_->warm() && !checked;
    if (write && !write_payload(parts, position.offset)) {
        // EFBIG: the file size limit of the process fell below the log's size. Mapped memory has no such limit.
        if (write_failure_.sys_errno() != EFBIG) return Position{};
        write_failure_ = Status::ok();
        write = false;
    }
    if (!write) pool_.file().make_warm(*newest_);
    const bool stored = store(from, [&]() noexcept {
        std::byte* payload = at + begin;
        if (!write) {
            for (const Part& part : parts) {
                copy_large(payload, part.bytes.data(), part.bytes.size());
                payload += part.bytes.size();
            }
        }
        encode(RecordHeader{RecordKind::kData, data_class, checked, sequence, bytes, 0, time_ns,
                            checked ? checksum({at + begin, bytes}) : 0, false},
               extents_, newest_->use(), {at, begin});
        publish(record_bytes(parts.size(), bytes));
    });
    return stored ? position : Position{};
}

bool FileLog::write_payload(std::span<const Part> parts, std::uint64_t offset) {
    pieces_.clear();
    for (const Part& part : parts) pieces_.push_back(part.bytes);
    write_failure_ = pool_.file().write(*newest_, offset, pieces_);
    return write_failure_.is_ok();
}

Status FileLog::fault() const {
    if (!write_failure_) return write_failure_;
    return fault_at_ != nullptr ? fault_in_->fault(fault_at_) : Status::ok();
}

bool FileLog::append_marker(RecordKind kind, std::uint64_t argument, std::uint64_t sequence) {
    std::byte* const at = end();
    const RecordHeader header{kind, DataClass::kRaw, false, sequence, 0, argument, realtime_ns(), 0, false};
    return store({}, [&]() noexcept {
        encode(header, {}, newest_->use(), {at, payload_offset(0)});
        publish(record_bytes(0, 0));
    });
}

bool FileLog::append_through(ByteRange range, std::uint64_t sequence, bool supersedes) {
    std::byte* const at = end();
    const RecordHeader header{RecordKind::kBypass,
                              DataClass::kRaw,
                              false,
                              sequence,
                              0,
                              supersedes ? 0 : kSupersedesNothing,
                              realtime_ns(),
                              0,
                              false};
    return store({}, [&]() noexcept {
        encode(header, {&range, 1}, newest_->use(), {at, payload_offset(1)});
        publish(record_bytes(1, 0));
    });
}

Frontier FileLog::needed() const noexcept {
    Frontier needed;
    for (const Segment* const segment : segments_) needed.lower_to(segment->order.needed(segment->live_bytes));
    return needed;
}

std::size_t FileLog::idle_segments() const noexcept {
    std::size_t count = 0;
    while (count + 1 < segments_.size() && segments_[count]->idle()) ++count;
    return count;
}

std::size_t FileLog::segments_that_may_go(const Frontier& frontier, std::uint64_t drained_metadata,
                                          std::size_t keep) const noexcept {
    std::size_t count = 0;
    while (count + keep < segments_.size() && segments_[count]->idle() &&
           segments_[count]->order.may_go(frontier, drained_metadata))
        ++count;
    return count;
}

std::uint64_t FileLog::end_position() const noexcept {
    if (segments_.empty()) return 0;
    return log_position(next_order_ - 1, segments_.back()->published_tail(), pool_.segment_bytes());
}

bool FileLog::pinned() const noexcept {
    return std::any_of(segments_.begin(), segments_.end(), [](const Segment* segment) { return segment->pins > 0; });
}

bool FileLog::declare_needed_from(std::uint64_t order) noexcept {
    return store({}, [&]() noexcept {
        std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(newest_->at(kNeededOffset)))
            .store(little_endian(order), std::memory_order_release);
    });
}

void FileLog::release_oldest() {
    pool_.release(segments_.front());
    segments_.pop_front();
    if (segments_.empty()) newest_ = nullptr;
}

void FileLog::release_all() {
    while (!segments_.empty()) release_oldest();
}

void FileLog::abandon() noexcept {
    segments_.clear();
    newest_ = nullptr;
}

// Overwrites the older one of two copies, so death in the middle leaves the other. Stores words, because another thread
// may be syncing the segment.
void FileLog::store_state(Segment& segment) const noexcept {
    const auto bytes = encode(state_, segment.use());
    static_assert(sizeof bytes % sizeof(std::uint64_t) == 0);
    auto* to = reinterpret_cast<std::uint64_t*>(segment.at(state_offset(state_.serial)));
    for (std::size_t at = 0; at < bytes.size(); at += sizeof *to, ++to) {
        std::uint64_t word = 0;
        std::memcpy(&word, &bytes[at], sizeof word);
        std::atomic_ref<std::uint64_t>(*to).store(word, std::memory_order_relaxed);
    }
}

void FileLog::note(const TargetState& state) noexcept {
    state_ = state;
    if (newest_ == nullptr) return;
    (void)io::guarded(newest_->bytes(), io::Bytes{}, [&]() noexcept { store_state(*newest_); });
}

void FileLog::publish(std::uint64_t bytes) noexcept {
    Segment& segment = *newest_;
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(segment.at(kTailOffset)))
        .store(little_endian(segment.tail + bytes), std::memory_order_release);
    segment.tail += bytes;
}

}   // namespace forebay::log
