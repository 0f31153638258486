// Memory that two processes use: one makes it, and passes its descriptor to the other one (io/socket.h).
//
// It is a memfd that neither of them can make shorter, so its pages are there as long as there is memory. A page counts
// as the memory of whoever has touched it first, as long as either side has it. What one stores the other one sees at
// once, also in the middle of reading it: whoever does not trust the other side copies first, and looks then.
//
// Ownership: each side its mapping and its descriptor; the memory goes with the last of them. Thread-safety: as memory.
// Nothing blocks. Source: memfd_create(2), fcntl(2) "File sealing".
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "io/file.h"

namespace forebay::io {

class SharedMemory {
  public:
    // All of it is there on return. Errors: the limits of this process (ulimit -f, -v, -n), or of the machine.
    [[nodiscard]] static Result<std::unique_ptr<SharedMemory>> create(std::size_t bytes);
    // Takes over a number that another process has passed. kCorrupt: it is no such memory, or has another size.
    [[nodiscard]] static Result<std::unique_ptr<SharedMemory>> adopt(int number, std::size_t bytes);
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    [[nodiscard]] MutableBytes bytes() const noexcept { return bytes_; }
    // Gives all pages back to the system: both sides read zeros from then on.
    void clear() noexcept;
    // What is to be passed, until `close_number`.
    [[nodiscard]] int number() const noexcept { return number_; }
    void close_number() noexcept;

  private:
    explicit SharedMemory(int number) noexcept : number_(number) {}
    [[nodiscard]] Status map(std::size_t bytes);
    int number_;
    MutableBytes bytes_;
};

}   // namespace forebay::io
