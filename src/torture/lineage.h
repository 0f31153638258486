// Tracks the allowed states of a file that clients write one after another through a staging server. Some of them die,
// lose their connection, or lose the server. Pure. Each client reports the content it found (told.h), follows the
// workload of its seed from there, and closes the file. The content must be one complete state that its predecessor can
// have left. From then on only that state is allowed: later bytes of a predecessor would be late writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "torture/judgement.h"
#include "torture/told.h"
#include "torture/workload.h"

namespace forebay::torture {

struct Session {
    std::uint64_t seed = 0;
    std::uint64_t operations = 0;   // number of operations before the close
    bool empties = false;           // the open empties the file
};

class Lineage {
  public:
    explicit Lineage(std::vector<std::byte> initial) : may_be_{std::move(initial)} {}

    // Adds a client that has ended. `uncommitted`: it wrote the file without a server in the end, so bytes reached the
    // file before their commit. It must then be the last session, unless it closed the file well.
    [[nodiscard]] Judgement end(const Session& session, const Told& told, bool uncommitted);
    // Judges a reader beside the last session, which had reported `good_commits` good commits when the reader began.
    [[nodiscard]] Judgement read(std::uint64_t checksum, std::uint64_t good_commits) const;
    // Call it after all processes have ended.
    [[nodiscard]] Judgement judge(std::span<const std::byte> content) const;

    [[nodiscard]] bool settled() const noexcept { return may_be_.size() == 1 && !loose_; }
    [[nodiscard]] bool loose() const noexcept { return loose_; }
    [[nodiscard]] std::uint64_t committed_bytes() const noexcept { return committed_bytes_; }

  private:
    using Content = std::vector<std::byte>;
    [[nodiscard]] Judgement neither(std::uint64_t checksum, std::uint64_t size, const std::string& who) const;

    std::vector<Content> may_be_;           // oldest first
    std::vector<std::uint64_t> past_{};     // checksums of all complete states that are past, or may be
    std::vector<std::uint64_t> before_{};   // checksums of the allowed states before the last session
    std::vector<std::uint64_t> states_{};   // after each of its commits; first: the state that it found
    std::uint64_t committed_bytes_ = 0;
    bool loose_ = false;
    Session last_{};
    Told last_told_{};
    Content base_{};   // the state that the last session found
};

}   // namespace forebay::torture
