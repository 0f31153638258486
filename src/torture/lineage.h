// What a file may hold while one client after another writes it through a staging server, and some of them die, lose
// their connection, or lose the server. Pure.
//
// Each client opens the file, tells what it found (told.h), follows the workload of its seed from there, and closes the
// file after so many operations. What it found has to be one of the states that its predecessor can have left, whole.
// From then on that state is the only one: later bytes of a predecessor would be late writes.
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
    std::uint64_t operations = 0;   // then it closes the file
    bool empties = false;           // with its open
};

class Lineage {
  public:
    explicit Lineage(std::vector<std::byte> initial) : may_be_{std::move(initial)} {}

    // The client has ended. `uncommitted`: it wrote the file without a server in the end, so that bytes reached the
    // file before their commit; unless it closed the file well, it has to be the last session.
    [[nodiscard]] Judgement end(const Session& session, const Told& told, bool uncommitted);
    // A reader that ran beside the session that has ended last, and began when that had told of so many good commits,
    // found a file with this checksum.
    [[nodiscard]] Judgement read(std::uint64_t checksum, std::uint64_t good_commits) const;
    // What the file holds, when no process uses it any more.
    [[nodiscard]] Judgement judge(std::span<const std::byte> content) const;

    // It is known what the file holds.
    [[nodiscard]] bool settled() const noexcept { return may_be_.size() == 1 && !loose_; }
    [[nodiscard]] bool loose() const noexcept { return loose_; }
    // That the session which has ended last had committed.
    [[nodiscard]] std::uint64_t committed_bytes() const noexcept { return committed_bytes_; }

  private:
    using Content = std::vector<std::byte>;
    [[nodiscard]] Judgement neither(std::uint64_t checksum, std::uint64_t size, const std::string& who) const;

    std::vector<Content> may_be_;           // from the oldest to the newest
    std::vector<std::uint64_t> past_{};     // checksums of all whole states that it had, and may have no more
    std::vector<std::uint64_t> before_{};   // those that it may have had before the last session,
    std::vector<std::uint64_t> states_{};   // and after each of that one's commits; the first: as it found it
    std::uint64_t committed_bytes_ = 0;
    bool loose_ = false;
    Session last_{};
    Told last_told_{};
    Content base_{};   // as the last session found it
};

}   // namespace forebay::torture
