#include "io/event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace forebay::io {

Result<std::unique_ptr<Event>> Event::create() {
    const int number = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (number < 0) return Status::from_errno(errno, "make an event descriptor");
    return std::unique_ptr<Event>(new Event(number));
}

Event::~Event() { ::close(number_); }

void Event::signal() noexcept {
    const std::uint64_t one = 1;
    // A full counter is readable already.
    while (::write(number_, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void Event::clear() noexcept {
    std::uint64_t count = 0;
    while (::read(number_, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

}   // namespace forebay::io
