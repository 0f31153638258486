// The blocks of a file that this process fetched ahead and has not read: a bit for each. Bits take memory only where
// bytes were fetched ahead. Without memory nothing is counted. Thread-safe. Nothing blocks.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "cache/presence.h"
#include "extent/range.h"

namespace forebay::cache {

class UnreadBlocks {
  public:
    explicit UnreadBlocks(std::uint64_t file_bytes) noexcept : blocks_((file_bytes + kBlockBytes - 1) / kBlockBytes) {}
    ~UnreadBlocks() { std::free(words_.load()); }
    UnreadBlocks(const UnreadBlocks&) = delete;
    UnreadBlocks& operator=(const UnreadBlocks&) = delete;

    void note_fetched(ByteRange range) noexcept {
        if (words_.load() == nullptr && !make()) return;
        each_word(range, [](std::atomic<std::uint64_t>& word, std::uint64_t mask) { word.fetch_or(mask); });
    }
    void note_read(ByteRange range) noexcept {
        if (words_.load(std::memory_order_relaxed) == nullptr) return;
        each_word(range, [](std::atomic<std::uint64_t>& word, std::uint64_t mask) {
            if ((word.load(std::memory_order_relaxed) & mask) != 0) word.fetch_and(~mask, std::memory_order_relaxed);
        });
    }
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        const std::atomic<std::uint64_t>* const words = words_.load();
        std::uint64_t blocks = 0;
        for (std::uint64_t i = 0; words != nullptr && i < word_count(); ++i)
            blocks += static_cast<std::uint64_t>(std::popcount(words[i].load(std::memory_order_relaxed)));
        return blocks * kBlockBytes;
    }

  private:
    static constexpr std::uint64_t kBits = 64;
    [[nodiscard]] std::uint64_t word_count() const noexcept { return (blocks_ + kBits - 1) / kBits; }

    // Fresh zero pages take no memory until a bit is set.
    bool make() noexcept {
        static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
        auto* const made = static_cast<std::atomic<std::uint64_t>*>(std::calloc(word_count(), sizeof *words_.load()));
        std::atomic<std::uint64_t>* none = nullptr;
        if (made != nullptr && !words_.compare_exchange_strong(none, made)) std::free(made);
        return words_.load() != nullptr;
    }
    template <class Change>
    void each_word(ByteRange range, Change&& change) noexcept {
        std::atomic<std::uint64_t>* const words = words_.load();
        const std::uint64_t end = std::min(blocks_, (range.end + kBlockBytes - 1) / kBlockBytes);
        for (std::uint64_t block = range.begin / kBlockBytes; block < end;) {
            const std::uint64_t first = block % kBits;
            const std::uint64_t count = std::min(kBits - first, end - block);
            change(words[block / kBits], (~std::uint64_t{0} >> (kBits - count)) << first);
            block += count;
        }
    }

    const std::uint64_t blocks_;
    std::atomic<std::atomic<std::uint64_t>*> words_{nullptr};
};

}   // namespace forebay::cache
