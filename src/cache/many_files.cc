#include "cache/many_files.h"

#include <algorithm>

namespace forebay::cache {

bool ManyFiles::note(std::uint64_t hash, bool asked) {
    if (++opens_ <= kFew) return false;
    if (asked || pays_) return true;
    if (seen_.empty()) seen_.resize(kBits / 64);
    std::uint64_t& word = seen_[hash % kBits / 64];
    const std::uint64_t bit = std::uint64_t{1} << hash % 64;
    if ((word & bit) != 0) {
        ++again_;
    } else {
        if (++marks_ > kMarksMax) {
            std::ranges::fill(seen_, 0);
            marks_ = 1;
        }
        word |= bit;
    }
    if (++window_ == kWindow) {
        pays_ = again_ > kWindow / 2;
        window_ = again_ = 0;
    }
    return pays_;
}

}   // namespace forebay::cache
