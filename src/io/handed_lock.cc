#include "io/handed_lock.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/lock_wait.h"

namespace forebay::io {

HandedLock::HandedLock(std::shared_ptr<Descriptor> own, const Identity& identity, int passed) noexcept
    : own_(std::move(own)), passed_(passed) {
    struct stat facts{};
    if (passed_ < 0 ||
        (::fstat(passed_, &facts) == 0 && facts.st_dev == identity.device && facts.st_ino == identity.inode))
        return;
    ::close(std::exchange(passed_, -1));
}

HandedLock::~HandedLock() {
    if (passed_ >= 0) ::close(passed_);
}

// The own descriptor comes first: it fails exactly if another open file has the lock. A second lock through the passed
// descriptor then changes nothing if its open file holds the lock, and fails if a third process does.
bool HandedLock::keep_now() noexcept {
    const std::lock_guard lock(mutex_);
    if (kept_) return true;
    kept_ = own_->lock(LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK ||
            (passed_ >= 0 && ::flock(passed_, LOCK_EX | LOCK_NB) == 0);
    return kept_;
}

bool HandedLock::keep(std::chrono::milliseconds at_most) {
    if (keep_now()) return true;
    const auto use = at_most.count() > 0 ? own_->use() : Result<Descriptor::Use>(Status(Code::kUnavailable, ""));
    return use && await_lock(use.value().number(), at_most, [this](int) {
               const bool kept = keep_now();
               if (!kept) errno = EWOULDBLOCK;
               return kept;
           });
}

void HandedLock::end() noexcept {
    const std::lock_guard lock(mutex_);
    if (passed_ >= 0) (void)::flock(passed_, LOCK_UN);
    if (std::exchange(kept_, false)) (void)own_->lock(LOCK_UN);
}

}   // namespace forebay::io
