// A descriptor for the time of a few calls: closed at the end of its scope.
//
// For descriptors so short-lived that the program does not close and reuse their number; io/descriptor.h is for those
// that stay open.
// Thread-safety: none. Never blocks by itself; close(2) may, on a network file system.
#pragma once

#include <unistd.h>

#include <utility>

namespace forebay::io {

class OwnDescriptor {
  public:
    // `number` as open(2) returns it: below 0 after a failure, with errno.
    explicit OwnDescriptor(int number) noexcept : number_(number) {}
    ~OwnDescriptor() { (void)close(); }
    OwnDescriptor(const OwnDescriptor&) = delete;
    OwnDescriptor& operator=(const OwnDescriptor&) = delete;

    [[nodiscard]] int number() const noexcept { return number_; }
    explicit operator bool() const noexcept { return number_ >= 0; }
    // As close(2): below 0 with errno if what was written has not reached the file's server. 0 if it is closed already.
    int close() noexcept {
        const int number = std::exchange(number_, -1);
        return number >= 0 ? ::close(number) : 0;
    }

  private:
    int number_;
};

}   // namespace forebay::io
