#include "stage/forwarded_writing.h"

#include <algorithm>

#include "base/attempt.h"
#include "stage/counting.h"

namespace forebay::stage {

Status ForwardedWriting::write(std::span<const Part> parts, ByteClass byte_class) {
    FOREBAY_TRY(file_.refuse_if_inherited("write to"));
    const LockGuard writer(writer_);
    const Call call(file_.counters->stage_ns, file_.context.spare_time(), file_.context.trace());
    add(file_.counters->requests, 1);
    for (const Part& part : parts) FOREBAY_TRY(write_part(part, byte_class));
    return target_->end_call();
}

Status ForwardedWriting::write_part(const Part& part, ByteClass byte_class) {
    FOREBAY_TRY(byte_class == ByteClass::kMetadata ? target_->write_metadata_at(part.offset, part.bytes)
                                                   : target_->write_at(part.offset, part.bytes));
    add(file_.counters->through, part.bytes.size());
    add(file_.counters->target_writes, 1);
    const LockGuard lock(file_.mutex());
    file_.outflow.state.facts.note_unsynced();
    file_.sizes.logical = std::max(file_.sizes.logical, part.offset + part.bytes.size());
    return Status::ok();
}

// Other processes may have made the file longer, so this process does not know whether the size changes.
Status ForwardedWriting::truncate(std::uint64_t size) {
    FOREBAY_TRY(file_.refuse_if_inherited("set the size of"));
    const LockGuard writer(writer_);
    FOREBAY_TRY(target_->resize(size));
    const LockGuard lock(file_.mutex());
    file_.outflow.state.facts.note_unsynced();
    file_.sizes.logical = size;
    return Status::ok();
}

void ForwardedWriting::note_size(std::uint64_t size) noexcept {
    target_->note_size(size);
    const LockGuard lock(file_.mutex());
    file_.sizes.logical = size;
}

void ForwardedWriting::withhold(const Status& why) noexcept {
    const LockGuard writer(writer_);
    withheld_ = copy_of(why, "a write failed");
}

void ForwardedWriting::withhold_at_end(const Status& why) noexcept {
    if (!writer_.try_lock()) return;
    const LockGuard writer(writer_, kLocked);
    withheld_ = copy_of(why, "a write failed");
}

bool ForwardedWriting::sync_due() const noexcept {
    return file_.context.options().durability == Durability::kNode && file_.outflow.state.facts.unsynced();
}

Status ForwardedWriting::commit() {
    if (file_.context.inherited()) return Status::ok();
    const LockGuard writer(writer_);
    const Call call(file_.counters->close_ns, file_.context.spare_time(), file_.context.trace());
    FOREBAY_TRY(withheld_);
    FOREBAY_TRY(target_->commit());
    if (file_.context.options().flush == OnFlush::kDrain) FOREBAY_TRY(target_->drain());
    return sync_due() ? file_.sync_target() : Status::ok();
}

Status ForwardedWriting::drain() {
    if (file_.context.inherited()) return Status::ok();
    const LockGuard writer(writer_);
    FOREBAY_TRY(target_->drain());
    const LockGuard lock(file_.mutex());
    return file_.outflow.state.failures.error();
}

Status ForwardedWriting::step_aside(ledger::AsideReason reason) {
    FOREBAY_TRY(file_.refuse_if_inherited("step aside for"));
    const LockGuard writer(writer_);
    FOREBAY_TRY(withheld_);
    file_.count_aside(reason);
    return target_->step_aside();
}

Status ForwardedWriting::expose_offsets() {
    file_.context.addresses_given(file_.name.identity);
    return step_aside(ledger::AsideReason::kAddressGiven);
}

Status ForwardedWriting::finish() {
    const LockGuard writer(writer_);
    return close();
}

Status ForwardedWriting::finish_unclosed() {
    if (!writer_.try_lock()) return {Code::kUnavailable, "a thread of the program is in a call of the file"};
    const LockGuard writer(writer_, kLocked);
    return close();
}

Status ForwardedWriting::close() {
    const Call call(file_.counters->close_ns, file_.context.spare_time(), file_.context.trace());
    if (!withheld_) target_->withhold(withheld_);
    if (Status closed = target_->close(); !closed) {
        reader_->lifecycle().fail(closed);
        return closed;
    }
    const LockGuard lock(file_.mutex());
    return file_.outflow.state.failures.first_error().is_ok() && sync_due() ? file_.outflow.syncs.sync()
                                                                            : file_.outflow.state.failures.error();
}

}   // namespace forebay::stage
