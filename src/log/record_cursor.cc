#include "log/record_cursor.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace forebay::log {

RecordCursor::Found RecordCursor::look(SegmentBytes& segment, std::uint64_t end, PayloadCheck check) {
    const auto torn = [&](const Status& why) {
        why_ = why;
        return Found::kTorn;
    };
    if (position_ >= end) return Found::kEnd;
    if (end > segment.bytes().size()) return torn({Code::kCorrupt, "the tail is outside the segment"});
    const std::uint64_t left = end - position_;
    const io::Bytes bytes = segment.bytes().subspan(position_, left);
    why_ = segment.load(position_, position_ + std::min<std::uint64_t>(left, kRecordHeaderBytes));
    if (why_ && left >= kRecordHeaderBytes) why_ = segment.load(position_, position_ + bytes_looked_at(bytes, left));
    if (!why_) return Found::kUnreadable;
    auto decoded = decode_record(bytes, use_, check);
    if (!decoded) return torn(decoded.status());
    record_ = std::move(decoded).value();
    payload_position_ = position_ + payload_offset(record_.extents.size());
    if (searching_) return Found::kRecord;
    const bool opens = record_.header.kind == RecordKind::kOpen;
    if (opens != (position_ == kSegmentHeaderBytes))
        return torn({Code::kCorrupt,
                     opens ? "a second open record" : "the segment does not begin with an open record"});
    if (!opens) return Found::kRecord;
    auto target = decode_open_payload(record_.payload);
    if (!target) return torn(target.status());
    opening_ = {record_.header, std::move(target).value()};
    return Found::kRecord;
}

RecordCursor::Found RecordCursor::search(SegmentBytes& segment, std::uint64_t end) {
    searching_ = true;
    end = std::min<std::uint64_t>(end, segment.bytes().size());
    for (;; position_ += kRecordAlignment)
        if (const Found found = look(segment, end, PayloadCheck::kTrust); found != Found::kTorn) return found;
}

Status RecordCursor::confirm(const SegmentBytes& segment) const {
    std::atomic_thread_fence(std::memory_order_acquire);   // after the loads of the records
    const auto now = segment.generation();
    if (!now) return now.status();
    return now.value() == generation_ ? Status::ok() : Status(Code::kNotFound, "used again");
}

}   // namespace forebay::log
