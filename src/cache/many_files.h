// Decides from the opens of small files whether copies of them would pay (cache/small_files.h).
// After more than `kFew` opens of small files, copies pay at once if the user asked for a cache. Otherwise more than
// half of a window of 64 opens must repeat a version. Pure; not thread-safe. Memory: 128 KiB, after `kFew` opens.
#pragma once

#include <cstdint>
#include <vector>

namespace forebay::cache {

class ManyFiles {
  public:
    static constexpr std::uint64_t kFew = 64;
    static constexpr std::uint64_t kWindow = 64;

    // `hash` is of the version. True if copies pay. May throw std::bad_alloc.
    [[nodiscard]] bool note(std::uint64_t hash, bool asked);

  private:
    static constexpr std::uint64_t kBits = std::uint64_t{1} << 20, kMarksMax = kBits / 4;

    std::vector<std::uint64_t> seen_;   // a bit for each hash; cleared once a quarter is set
    std::uint64_t opens_ = 0, marks_ = 0, window_ = 0, again_ = 0;
    bool pays_ = false;
};

}   // namespace forebay::cache
