#include "index/followed_bytes.h"

namespace forebay::index {

void FollowedBytes::take_in(FileBounds& bounds) {
    order_.visit_found([&](const group::RecordOrder::Record& record) { take_in(record, bounds); });
    order_.followed();
}

void FollowedBytes::release(const group::OwnLog& own, log::FileLog& log, std::size_t keep) {
    const std::uint64_t released = own.released();
    while (log.segments().size() > keep && log.segments().oldest_order() < released) log.segments().release_oldest();
}

void FollowedBytes::take_in(const group::RecordOrder::Record& record, FileBounds& bounds) {
    switch (record.kind) {
        case log::RecordKind::kData: {
            std::uint64_t payload = record.payload;
            bounds.dirty = true;
            for (const ByteRange& range : record.extents) {
                index_.insert_unless_newer(range,
                                           {record.segment, payload, record.sequence,
                                            static_cast<std::uint32_t>(record.generation), record.data_class},
                                           kOffsetMax, kOffsetMax);
                bounds.reach(range.end);
                payload += range.size();
            }
            break;
        }
        case log::RecordKind::kBypass:
            record.segment->order.note_bypass(record.sequence, record.argument != log::kSupersedesNothing);
            for (const ByteRange& range : record.extents) index_.drop_older(range, record.sequence);
            if (bounds.several_nodes) break;
            // The target, and with it the file, may be longer now.
            for (const ByteRange& range : record.extents) bounds.reach(range.end);
            bounds.dirty = true;
            break;
        case log::RecordKind::kTruncate:
            if (bounds.several_nodes)
                index_.drop_older({record.argument, kOffsetMax}, record.sequence);   // the target has been cut
            else index_.truncate(record.argument, kOffsetMax, 0);   // the target's length is unknown here
            bounds.logical_size = record.argument;
            break;
        case log::RecordKind::kOpen:
        case log::RecordKind::kCommit:
        case log::RecordKind::kClose: break;
    }
}

}   // namespace forebay::index
