#include "hdf5/open_file.h"

namespace forebay::hdf5 {

Status OpenFile::step_aside(ledger::AsideReason reason) {
    if (shared != nullptr) return shared->step_aside(reason);
    return staged != nullptr ? staged->step_aside(reason) : Status::ok();
}

Status OpenFile::expose_offsets() {
    if (shared != nullptr) return shared->expose_offsets();
    // What ranks only read may be written through another handle, which gives the addresses.
    return staged != nullptr && !with_mpi ? staged->expose_offsets() : Status::ok();
}

void OpenFile::note_closed() noexcept {
    closed_ = true;
    staged.reset();
    shared.reset();
    engine.reset();
    descriptor.reset();
}

void OpenFile::keep_failure(During during, Status failed) noexcept {
    const std::lock_guard lock(mutex_);
    if (Status& kept = failure(during); kept.is_ok()) kept = std::move(failed);
}

Status OpenFile::take_failure(During during) noexcept {
    const std::lock_guard lock(mutex_);
    return std::exchange(failure(during), Status::ok());
}

bool OpenFile::has_failure(During during) const noexcept {
    const std::lock_guard lock(mutex_);
    return !(during == During::kFlush ? flush_failure_ : close_failure_).is_ok();
}

}   // namespace forebay::hdf5
