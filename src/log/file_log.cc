#include "log/file_log.h"

#include <fmt/format.h>

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
      segments_(pool, log),
      target_(std::move(target)),
      check_large_payloads_(check_large_payloads),
      slack_bytes_(std::min(kSlackBytes, pool.segment_bytes() / kSlackShare)),
      losses_before_(pool.file().losses()),
      losses_(losses_before_) {}

Status FileLog::sync() {
    FOREBAY_TRY(lost());
    const Status synced = pool_.file().sync();
    if (synced) return lost();
    losses_.store(pool_.file().losses());
    return synced;
}

Status FileLog::lost_since(std::uint64_t losses) const {
    if (pool_.file().losses() == losses) return Status::ok();
    return {Code::kIo,
            fmt::format("the staging device has lost bytes of {} after it had taken them: bytes written to {} may be "
                        "wrong",
                        pool_.file().name(), target_.path),
            EIO};
}

std::uint64_t FileLog::room(bool use_slack) const noexcept {
    if (segments_.empty()) return 0;
    const std::uint64_t left = newest().size() - newest().tail;
    const std::uint64_t taken = payload_offset(1) + (kRecordAlignment - 1) + (use_slack ? 0 : slack_bytes_);
    return left > taken ? left - taken : 0;
}

bool FileLog::marker_fits() const noexcept {
    return !segments_.empty() && newest().size() - newest().tail >= record_bytes(1, 0);
}

bool FileLog::adopt(Segment* segment, const LastCommit& commit, std::uint64_t sequence) {
    std::vector<std::byte> payload;
    try {
        payload = encode(OpenPayload{target_.device, target_.inode, commit.sequence, target_.sharing, target_.path,
                                     target_.born});
    } catch (const std::bad_alloc&) {
        pool_.release(segment);   // recovery must not find two segments with one order
        throw;
    }
    segments_.add(segment);
    std::byte* const at = end();
    const RecordHeader header{RecordKind::kOpen, DataClass::kRaw,   true,
                              sequence,          payload.size(),    commit.size,
                              commit.time_ns,    checksum(payload), target_.durable};
    // All earlier segments were given back. Recovery must not look for them.
    if (target_.durable && segments_.size() == 1 && segments_.oldest_order() > 0 &&
        !declare_needed_from(segments_.oldest_order()))
        return false;
    return store({}, [&]() noexcept {
        if (state_.serial != 0) store_state(newest());
        std::memcpy(at + payload_offset(0), payload.data(), payload.size());
        encode(header, {}, newest().use(), {at, payload_offset(0)});
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
    const Position position{segments_.newest(), newest().tail + begin};
    const bool checked = check_large_payloads_ || bytes <= kCheckedPayloadMax;
    bool write = !newest().warm() && !checked;
    if (write && !write_payload(parts, position.offset)) {
        // EFBIG: the file size limit of the process fell below the log's size. Mapped memory has no such limit.
        if (write_failure_.sys_errno() != EFBIG) return Position{};
        write_failure_ = Status::ok();
        write = false;
    }
    if (!write) pool_.file().make_warm(newest());
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
               extents_, newest().use(), {at, begin});
        publish(record_bytes(parts.size(), bytes));
    });
    return stored ? position : Position{};
}

bool FileLog::write_payload(std::span<const Part> parts, std::uint64_t offset) {
    pieces_.clear();
    for (const Part& part : parts) pieces_.push_back(part.bytes);
    write_failure_ = pool_.file().write(newest(), offset, pieces_);
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
        encode(header, {}, newest().use(), {at, payload_offset(0)});
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
        encode(header, {&range, 1}, newest().use(), {at, payload_offset(1)});
        publish(record_bytes(1, 0));
    });
}

bool FileLog::declare_needed_from(std::uint64_t order) noexcept {
    return store({}, [&]() noexcept {
        std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(newest().at(kNeededOffset)))
            .store(little_endian(order), std::memory_order_release);
    });
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
    if (segments_.empty()) return;
    (void)io::guarded(newest().bytes(), io::Bytes{}, [&]() noexcept { store_state(newest()); });
}

void FileLog::publish(std::uint64_t bytes) noexcept {
    Segment& segment = newest();
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(segment.at(kTailOffset)))
        .store(little_endian(segment.tail + bytes), std::memory_order_release);
    segment.tail += bytes;
}

}   // namespace forebay::log
