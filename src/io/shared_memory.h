// Memory that two processes share: one makes it, and passes its descriptor to the other one (io/socket.h). It is a
// memfd that neither side can shrink, so its pages exist as long as the system has memory. A page counts as memory of
// the process that touched it first, until both sides have released it. Each side sees the other's stores at once, also
// in the middle of a read; a side that distrusts the other copies the bytes before it checks them. Each side owns its
// mapping and descriptor; the last of them frees the memory. Thread-safety: as memory. No call blocks. Source:
// memfd_create(2), fcntl(2) "File sealing".
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "io/file.h"

namespace forebay::io {

class SharedMemory {
  public:
    // All pages exist on return. Errors: the limits of this process (ulimit -f, -v, -n), or of the machine.
    [[nodiscard]] static Result<std::unique_ptr<SharedMemory>> create(std::size_t bytes);
    // Takes over a number from another process. Returns kCorrupt if it is no such memory, or has another size.
    [[nodiscard]] static Result<std::unique_ptr<SharedMemory>> adopt(int number, std::size_t bytes);
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    [[nodiscard]] MutableBytes bytes() const noexcept { return bytes_; }
    // Returns all pages to the system: both sides then read zeros.
    void clear() noexcept;
    // Returns the number to pass, valid until `close_number`.
    [[nodiscard]] int number() const noexcept { return number_; }
    void close_number() noexcept;

  private:
    explicit SharedMemory(int number) noexcept : number_(number) {}
    [[nodiscard]] Status map(std::size_t bytes);
    int number_;
    MutableBytes bytes_;
};

}   // namespace forebay::io
