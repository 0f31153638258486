#include "io/file_control.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace forebay::io {

Status set_modified(File& file, std::uint64_t modified_ns) {
    constexpr std::uint64_t kSecond = 1'000'000'000;
    const auto descriptor = descriptor_of(file);
    if (descriptor == nullptr) return {Code::kUnsupported, file.name() + ": files of this kind have no times"};
    const auto use = descriptor->use();
    if (!use) return use.status();
    const std::array times{timespec{0, UTIME_OMIT}, timespec{static_cast<time_t>(modified_ns / kSecond),
                                                             static_cast<long>(modified_ns % kSecond)}};
    if (::futimens(use.value().number(), times.data()) != 0)
        return Status::from_errno(errno, "set the time of the last change of " + file.name());
    return Status::ok();
}

// The kernel signals a lease's owner, by default with SIGIO, which ends a process without a handler. So this chooses an
// ignored signal for this thread, and then removes the owner: the drain already runs as fast as it can.
std::unique_ptr<Lease> Lease::take(File& file) {
    auto descriptor = descriptor_of(file);
    if (descriptor == nullptr) return nullptr;
    const auto use = descriptor->use();
    if (!use) return nullptr;
    const int number = use.value().number();
    f_owner_ex owner{F_OWNER_TID, ::gettid()};
    if (::fcntl(number, F_SETSIG, SIGURG) != 0 || ::fcntl(number, F_SETOWN_EX, &owner) != 0) return nullptr;
    std::unique_ptr<Lease> lease(new Lease(std::move(descriptor)));
    const bool had = ::fcntl(number, F_SETLEASE, F_WRLCK) == 0;
    (void)::fcntl(number, F_SETOWN, 0);
    if (had) return lease;
    (void)::fcntl(number, F_SETSIG, 0);
    return nullptr;
}

Lease::~Lease() {
    if (!descriptor_->is_ours()) return;   // the lease ended with its descriptor
    (void)::fcntl(descriptor_->number(), F_SETLEASE, F_UNLCK);
    (void)::fcntl(descriptor_->number(), F_SETSIG, 0);
}

}   // namespace forebay::io
