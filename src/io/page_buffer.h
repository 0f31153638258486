// Uninitialised memory for one transfer, from a page boundary on. A file system that copies no pages limits their
// number in one request, and an unaligned buffer needs one page more. Owns the memory. Throws std::bad_alloc.
#pragma once

#include <cstddef>
#include <memory>

#include "io/file.h"

namespace forebay::io {

class PageBuffer {
  public:
    static constexpr std::size_t kPageBytes = 4096;   // the smallest page size of any machine

    explicit PageBuffer(std::size_t size) : memory_(new std::byte[size + kPageBytes]), size_(size) {}

    [[nodiscard]] MutableBytes bytes() const noexcept {
        void* begin = memory_.get();
        std::size_t space = size_ + kPageBytes;
        return {static_cast<std::byte*>(std::align(kPageBytes, size_, begin, space)), size_};
    }

  private:
    std::unique_ptr<std::byte[]> memory_;
    std::size_t size_;
};

}   // namespace forebay::io
