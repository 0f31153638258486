// A descriptor that is closed at the end of its scope, within a few calls: too soon for the program to close it by
// mistake and reuse its number. For longer lives: io/descriptor.h. Not thread-safe. Does not block, but for close(2) on
// a network file system.
#pragma once

#include <unistd.h>

#include <utility>

namespace forebay::io {

class OwnDescriptor {
  public:
    // `number` is the result of open(2): negative after a failure, with errno.
    explicit OwnDescriptor(int number) noexcept : number_(number) {}
    ~OwnDescriptor() { (void)close(); }
    OwnDescriptor(const OwnDescriptor&) = delete;
    OwnDescriptor& operator=(const OwnDescriptor&) = delete;

    [[nodiscard]] int number() const noexcept { return number_; }
    explicit operator bool() const noexcept { return number_ >= 0; }
    // Works like close(2): negative, with errno, if written bytes did not reach a server. 0 if already closed.
    int close() noexcept {
        const int number = std::exchange(number_, -1);
        return number >= 0 ? ::close(number) : 0;
    }

  private:
    int number_;
};

}   // namespace forebay::io
