// The accounts of the keepers (index/staged_place.h) of one file's staged bytes: live bytes, and pins. The live bytes
// of a keeper are its share of the bytes that are held, ready or sent. Pinned bytes stay in place. The log releases a
// segment only without live bytes and pins. This class owns the runs, and destroys a run once it has neither. Only the
// maps of the index (index/staged_extents.h) change live bytes. Thread-safety: none; the file's lock guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "index/gathered.h"
#include "index/staged_place.h"

namespace forebay::index {

class Keepers {
  public:
    Keepers() = default;
    Keepers(const Keepers&) = delete;
    Keepers& operator=(const Keepers&) = delete;

    // Pinned bytes stay in place until `unpin`. Pinning zeros has no effect.
    void pin(plan::Keeper keeper) noexcept;
    void unpin(plan::Keeper keeper) noexcept;

  private:
    friend class StagedExtents;

    // Takes a run whose bytes are all staged now. std::bad_alloc: nothing has changed.
    Gathered& own(std::unique_ptr<Gathered> run);
    // Bytes of a record are staged.
    static void gain(ByteRange range, const StagedPlace& place) noexcept;
    // Bytes are no longer staged.
    void lose(ByteRange range, const StagedPlace& place) noexcept;
    // As `lose`, but the segments' live bytes keep their values.
    void forget(ByteRange range, const StagedPlace& place) noexcept;
    void settle(Gathered& run, std::uint64_t bytes, std::uint64_t pins) noexcept;

    std::vector<std::unique_ptr<Gathered>> runs_;
};

}   // namespace forebay::index
