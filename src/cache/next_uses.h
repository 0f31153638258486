// When the units of a file are used next, by an order of reads that is known ahead, and which stored one is used last.
//
// Pure bookkeeping: the caller says what is going to be read, what was read, and what is stored. Positions count the
// ranges of the order. Not thread-safe. docs/read-cache.md, "What is read again".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/presence.h"
#include "extent/range.h"

namespace forebay::cache {

class NextUses {
  public:
    static constexpr std::uint64_t kNever = UINT64_MAX;
    // A read that is so many ranges away from the last one is not of this order, and a use that is so late is skipped.
    static constexpr std::uint64_t kFar = 4096;

    // The order goes on with this range. What exceeds the limit of uses is not noted. May throw std::bad_alloc.
    void add(ByteRange range);
    // The program reads this now: the first uses of its blocks are over.
    void note_read(ByteRange range) noexcept;

    // The position of the next use of any of these blocks of the unit, or kNever.
    [[nodiscard]] std::uint64_t next(std::uint64_t unit, std::uint64_t blocks) const noexcept;
    // The order has two uses or more of these blocks.
    [[nodiscard]] bool is_reused(std::uint64_t unit, std::uint64_t blocks) const noexcept;

    // These blocks of the unit are stored, too. May throw std::bad_alloc.
    void note_stored(std::uint64_t unit, std::uint64_t blocks);
    void note_gone(std::uint64_t unit) noexcept;
    struct Farthest {
        std::uint64_t unit = 0, next = kNever;
    };
    // Of the stored units, the one whose stored blocks are used last or never.
    [[nodiscard]] std::optional<Farthest> farthest() const noexcept;

  private:
    static constexpr std::size_t kUsesMax = 1 << 20;

    struct Use {
        std::uint64_t position, blocks;   // blocks that were not read yet
    };
    struct Unit {
        std::vector<Use> uses;
        std::size_t first = 0;        // those before it are over
        std::uint64_t stored = 0;     // blocks
        std::uint64_t key = kNever;   // in by_next_, if any are stored
    };
    using Units = std::unordered_map<std::uint64_t, Unit>;

    template <class Visit>
    static void each_use(const Unit& unit, std::uint64_t blocks, Visit&& visit);
    void set_key(std::uint64_t number, Unit& unit) noexcept;
    void forget_late(std::uint64_t number, Unit& unit) noexcept;

    Units units_;
    std::set<std::pair<std::uint64_t, std::uint64_t>> by_next_;   // (position, unit) of stored units
    std::size_t uses_ = 0;
    std::uint64_t end_ = 0;    // positions so far
    std::uint64_t read_ = 0;   // where the program is
};

}   // namespace forebay::cache
