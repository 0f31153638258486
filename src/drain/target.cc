#include "drain/target.h"

#include "base/attempt.h"

namespace forebay::drain {

void Target::open(std::shared_ptr<io::File> file, io::TimesKind times, std::uint64_t size, std::uint64_t log_mount) {
    file_ = std::move(file);
    size_ = shown_size_ = size;
    cut_due_.reset();
    was_cut_ = others_extend_ = size_in_doubt_ = false;
    const Status known = attempt([&]() -> Status {
        const auto now = file_->state();
        if (!now) return now.status();
        witness_.open(times, now.value(), log_mount != 0 ? log::mounts_of(now.value().mount, log_mount) : 0);
        return Status::ok();
    });
    if (!known) witness_.give_up();
    note();
}

void Target::resized(std::uint64_t size, bool lengthened, const Backlog& backlog) noexcept {
    if (!lengthened) size_in_doubt_ = false;
    size_ = lengthened ? std::max(size_, size) : size;
    shown_size_ = lengthened ? std::max(shown_size_, size) : size;
    if (cut_due_ == size_) cut_due_.reset();
    // A commit to less came while the file was being extended.
    if (!cut_due_ && size_ > backlog.committed_size && size_ > backlog.logical_size)
        cut_to(std::max(backlog.committed_size, backlog.logical_size));
}

void Target::end_write(ByteRange range, bool written) noexcept {
    size_in_doubt_ = size_in_doubt_ || !written;
    if (written) shows(range.end);
    if (range.empty()) return;
    witness_.end_write(range, written);
    note();
}

}   // namespace forebay::drain
