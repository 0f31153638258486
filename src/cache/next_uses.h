// The next uses of a file's units in a known order of reads, and the stored unit whose next use is the farthest away
// (docs/read-cache.md, "What is read again"). A position is the index of a range in the order. A set of blocks is a bit
// mask: bit i is block i of the unit. Pure; not thread-safe.
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
    // A read that jumps ahead by more ranges is not of this order. A use that lies more ranges back is skipped.
    static constexpr std::uint64_t kFar = 4096;

    // Appends a range to the order; ignores it beyond the limit of uses. May throw std::bad_alloc.
    void add(ByteRange range);
    void note_read(ByteRange range) noexcept;

    // The position of the next use of any of these blocks of the unit, or kNever.
    [[nodiscard]] std::uint64_t next(std::uint64_t unit, std::uint64_t blocks) const noexcept;
    [[nodiscard]] bool is_reused(std::uint64_t unit, std::uint64_t blocks) const noexcept;

    // Adds stored blocks of the unit. May throw std::bad_alloc.
    void note_stored(std::uint64_t unit, std::uint64_t blocks);
    void note_gone(std::uint64_t unit) noexcept;
    struct Farthest {
        std::uint64_t unit = 0, next = kNever;
    };
    // The stored unit whose stored blocks have the farthest next use, or none.
    [[nodiscard]] std::optional<Farthest> farthest() const noexcept;

  private:
    static constexpr std::size_t kUsesMax = 1 << 20;

    struct Use {
        std::uint64_t position, blocks;   // blocks not read yet
    };
    struct Unit {
        std::vector<Use> uses;
        std::size_t first = 0;        // earlier ones are over
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
    std::uint64_t read_ = 0;   // the program's position
};

}   // namespace forebay::cache
