#include "hdf5/open_file.h"

namespace forebay::hdf5 {

void OpenFile::note_closed() noexcept {
    closed_ = true;
    file.reset();
    shared.reset();
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
