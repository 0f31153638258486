#include "recover/witnessed_target.h"

#include <utility>

#include "recover/untouched.h"

namespace forebay::recover {

WitnessedTarget::WitnessedTarget(std::shared_ptr<io::File> target, Setup setup)
    : ForwardingFile(std::move(target)), setup_(std::move(setup)), left_(setup_.now), noted_(setup_.known.serial) {
    const log::TargetState& known = setup_.known;
    if (known.kind == io::TimesKind::kUnknown || setup_.although_changed) {
        witness_.resume(known);
        witness_.open(known.kind == io::TimesKind::kUnknown ? traits().times : known.kind, left_, known.mounts);
    } else {
        witness_.resume(known);
        (void)witness_.rested(left_, known.serial);
    }
}

// Notes alternate between two places, so a torn note leaves the one before.
Status WitnessedTarget::note() {
    if (!setup_.store) return Status::ok();
    if (log::state_offset(witness_.state().serial) == log::state_offset(noted_)) witness_.skip_serial();
    noted_ = witness_.state().serial;
    return setup_.store(witness_.state());
}

Status WitnessedTarget::check_untouched_since() {
    const auto now = state(Ask::kTimes);
    if (!now) return now.status();
    log::TargetState left;
    left.kind = witness_.state().kind;
    left.rest = left_;
    Status untouched;
    // Late times may be those of this recovery's own writes.
    if (left.kind != io::TimesKind::kLazy) untouched = check_untouched(left, now.value(), file(), {});
    else if (now.value().size != left_.size) untouched = {Code::kUnsupported, "its size has changed"};
    return untouched.with_context(name() + ": others have changed it while it was being recovered");
}

Status WitnessedTarget::come_to_rest() {
    auto now = state(Ask::kTimes);
    if (now && setup_.set_modified) {
        FOREBAY_TRY(setup_.set_modified(setup_.now.modified_ns));
        now = state(Ask::kTimes);
    }
    if (!now) return now.status();
    left_ = now.value();
    (void)witness_.rested(left_, witness_.state().serial);
    return note();
}

Status WitnessedTarget::change(const std::function<void()>& begin, const std::function<Status()>& act,
                               const std::function<void()>& end) {
    begin();
    FOREBAY_TRY(note());
    FOREBAY_TRY(act());
    end();
    return come_to_rest();
}

Status WitnessedTarget::write_at(std::uint64_t offset, io::Bytes bytes) {
    if (bytes.empty()) return Status::ok();
    const ByteRange range{offset, offset + bytes.size()};
    const std::lock_guard lock(mutex_);
    FOREBAY_TRY(check_untouched_since());
    look_before_write(range);
    return change([&] { witness_.begin_write(range, bytes.first(log::sample_length(offset, bytes.size()))); },
                  [&] { return ForwardingFile::write_at(offset, bytes); }, [&] { witness_.end_write(range); });
}

void WitnessedTarget::look_before_write(ByteRange range) {
    const ByteRange place = witness_.to_be_seen_before(range);
    if (place.empty()) return;
    std::array<std::byte, log::kSampleMax> bytes;
    const auto into = std::span(bytes).first(place.size());
    // A write may heal unreadable bytes.
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
    const std::lock_guard lock(mutex_);
    FOREBAY_TRY(check_untouched_since());
    return change([&] { witness_.begin_resize(size); }, [&] { return ForwardingFile::resize(size); },
                  [&] { witness_.end_resize(); });
}

Status WitnessedTarget::punch(std::uint64_t offset, std::uint64_t length) {
    const std::lock_guard lock(mutex_);
    FOREBAY_TRY(check_untouched_since());
    return change([&] { witness_.begin_punch({offset, offset + length}); },
                  [&] { return ForwardingFile::punch(offset, length); }, [&] { witness_.end_resize(); });
}

}   // namespace forebay::recover
