#include "recover/witnessed_target.h"

#include <utility>

namespace forebay::recover {

WitnessedTarget::WitnessedTarget(std::shared_ptr<io::File> target, io::File& pool, const log::ScannedLog& log,
                                 const io::FileState& now, bool although_changed)
    : ForwardingFile(std::move(target)), pool_(pool), log_(log) {
    witness_.resume(*log.state);
    if (although_changed) witness_.open(log.state->kind, now, log.state->mounts);
    else (void)witness_.rested(now, log.state->serial);
}

Status WitnessedTarget::write_at(std::uint64_t offset, io::Bytes bytes) {
    if (bytes.empty()) return Status::ok();
    const ByteRange range{offset, offset + bytes.size()};
    look_before_write(range);
    FOREBAY_TRY(note([&] { witness_.begin_write(range, bytes.first(log::sample_length(offset, bytes.size()))); }));
    FOREBAY_TRY(ForwardingFile::write_at(offset, bytes));
    return note([&] { witness_.end_write(range); });
}

void WitnessedTarget::look_before_write(ByteRange range) {
    const std::lock_guard lock(mutex_);
    const ByteRange place = witness_.to_be_seen_before(range);
    if (place.empty()) return;
    std::array<std::byte, log::kSampleMax> bytes;
    const auto into = std::span(bytes).first(place.size());
    // What cannot be read may be healed by the write.
    const auto got = ForwardingFile::read_at(place.begin, into);
    if (got) witness_.saw(place.begin, into.first(got.value()), witness_.state().serial);
}

Status WitnessedTarget::write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) {
    for (const io::Bytes& piece : pieces) {
        FOREBAY_TRY(write_at(offset, piece));
        offset += piece.size();
    }
    return Status::ok();
}

Status WitnessedTarget::resize(std::uint64_t size) {
    FOREBAY_TRY(note([&] { witness_.begin_resize(size); }));
    FOREBAY_TRY(ForwardingFile::resize(size));
    return note([&] { witness_.end_resize(); });
}

Status WitnessedTarget::punch(std::uint64_t offset, std::uint64_t length) {
    FOREBAY_TRY(note([&] { witness_.begin_punch({offset, offset + length}); }));
    FOREBAY_TRY(ForwardingFile::punch(offset, length));
    return note([&] { witness_.end_resize(); });
}

Status WitnessedTarget::note_rest() {
    const auto now = state(Ask::kTimes);
    if (!now) return now.status();
    return note([&] { (void)witness_.rested(now.value(), witness_.state().serial); });
}

}   // namespace forebay::recover
