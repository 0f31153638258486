// Decides from the opens of small files whether copies of them would pay (cache/small_files.h).
//
// Replicas serve a program that opens few files. After more than `kFew` opens of small files, copies pay at once if the
// user has asked for a cache. If not, they pay once the program opens files again: every 64 opens, the class checks
// whether more than half of them were of versions opened before. Pure, and not thread-safe. Memory: 128 KiB, from the
// first open after `kFew` on.
#pragma once

#include <cstdint>
#include <vector>

namespace forebay::cache {

class ManyFiles {
  public:
    static constexpr std::uint64_t kFew = 64;
    static constexpr std::uint64_t kWindow = 64;

    // A file was opened; `hash` is of its version. Returns whether copies pay. May throw std::bad_alloc.
    [[nodiscard]] bool note(std::uint64_t hash, bool asked);

  private:
    static constexpr std::uint64_t kBits = std::uint64_t{1} << 20, kMarksMax = kBits / 4;

    std::vector<std::uint64_t> seen_;   // a bit for each hash; forgotten once a quarter of them is set
    std::uint64_t opens_ = 0, marks_ = 0, window_ = 0, again_ = 0;
    bool pays_ = false;
};

}   // namespace forebay::cache
