#include "hdf5/call_scope.h"

#include <algorithm>

#include "base/attempt.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

using During = OpenFile::During;

void CallScope::keep_failure(const std::shared_ptr<OpenFile>& file, During during, Status failure) noexcept {
    file->keep_failure(during, std::move(failure));
    note_failed(file);
}

void CallScope::note_closed(const std::shared_ptr<OpenFile>& file) noexcept {
    file->note_closed();
    if (file->has_failure(During::kClose)) note_failed(file);
}

bool CallScope::add_failed(const std::shared_ptr<OpenFile>& file) noexcept {
    if (failed_ == nullptr) failed_ = file;
    if (failed_ == file || std::ranges::find(failed_too_, file) != failed_too_.end()) return true;
    return attempt([&] {
               failed_too_.push_back(file);
               return Status::ok();
           })
        .is_ok();
}

// Outside of any call, or without memory, the file's next flush or close reports the failure, or the session.
void CallScope::note_failed(const std::shared_ptr<OpenFile>& file) noexcept {
    if ((innermost_ != nullptr && innermost_->add_failed(file)) || !file->closed()) return;
    if (Status failure = file->take_failure(During::kClose); !failure)
        Session::get().keep_unreported(std::move(failure));
}

// Drops a flush's failure that no call reported: the staged file keeps the reason for its next flush.
void CallScope::pass_on() noexcept {
    each_failed([&](const std::shared_ptr<OpenFile>& file) {
        if (outer_ == nullptr) (void)file->take_failure(During::kFlush);
        if (outer_ != nullptr || file->closed()) note_failed(file);
    });
}

Status CallScope::take_failure(During during) noexcept {
    Status first;
    if (innermost_ == nullptr) return first;
    innermost_->each_failed([&](const std::shared_ptr<OpenFile>& file) {
        if (Status failure = file->take_failure(during); first.is_ok()) first = std::move(failure);
    });
    return first;
}

void CallScope::leave_failures_to(OpenFile& file) noexcept {
    if (innermost_ == nullptr) return;
    innermost_->each_failed([&](const std::shared_ptr<OpenFile>& failed) {
        if (failed.get() == &file || failed->identity != file.identity) return;
        if (Status failure = failed->take_failure(During::kClose); !failure)
            file.keep_failure(During::kClose, std::move(failure));
    });
}

}   // namespace forebay::hdf5
