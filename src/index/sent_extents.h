// Sent extents: bytes that a target has taken, and not confirmed. Such a target may report a lost write late
// (io::FileTraits). So the keepers (index/keepers.h) keep them until a sync has confirmed them. Reads do not look here.
// A confirmation begins before a sync of the target, and covers the extents that were sent by then. Those that are sent
// meanwhile wait for the next one. Zeros of truncations count apart. Thread-safety: none; the file's lock guards it.
#pragma once

#include <cstdint>

#include "index/staged_extents.h"

namespace forebay::index {

class SentExtents {
  public:
    explicit SentExtents(Keepers& keepers) noexcept : sent_(keepers), asked_(keepers) {}

    [[nodiscard]] bool any() const noexcept { return !sent_.empty() || !asked_.empty(); }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return sent_.bytes() + asked_.bytes(); }   // without zeros
    [[nodiscard]] std::uint64_t zero_bytes() const noexcept { return sent_.zero_bytes() + asked_.zero_bytes(); }

    // The target is asked to confirm the bytes that are sent now. Returns false if it is being asked already.
    [[nodiscard]] bool begin_confirm() noexcept;
    // The answer. If the target has confirmed them, forgets them; otherwise the caller calls ExtentIndex::resend.
    void end_confirm(bool confirmed) noexcept;

  private:
    friend class ExtentIndex;

    // The target has taken a ready extent. Older sent bytes of its range need no second write.
    void send(const StagedExtents::Extent& extent, StagedExtents& ready) { sent_.take(extent, ready); }
    // Makes all extents ready again, except where newer ones are.
    void resend(StagedExtents& ready);
    void reserve(std::size_t nodes);
    void remove(ByteRange range);
    void remove_older(ByteRange range, std::uint64_t sequence);
    void clear() noexcept;

    StagedExtents sent_;
    StagedExtents asked_;   // sent before a sync that has not ended
    bool asking_ = false;
};

}   // namespace forebay::index
