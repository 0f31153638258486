// A file that ranks of several nodes write: each node stages its own raw data and drains it without holding anything
// back. Metadata are written through by the rank that writes them.
//
// A commit drains on all nodes, after which each of them finds everything in the file. A read of bytes that another
// node has staged waits until they have drained: each drainer exposes what it has not drained yet
// (group/staged_regions.h). With nodes=consistent each member keeps an undo journal (undo/undo_journal.h), and a commit
// takes two steps (consistency.cc): a crash then leaves the last commit.
#pragma once

#include <string>
#include <vector>

#include "file/grouped.h"

namespace forebay::file {

class OnSeveralNodes final : public Grouped {
  public:
    using Grouped::Grouped;

    // Collective, before `join`. Keeps what may be undone from now on, if all members want it. The text is a warning.
    [[nodiscard]] Result<std::string> begin_consistency(const Introduction& first,
                                                        const area::ProcessIdentity& process);
    // Collective. The members will not stage after all.
    Status end_consistency();

    [[nodiscard]] Status join(const Node& node) override;
    Status read(std::span<const ReadPart> parts) override;
    Status await_drained() override;
    [[nodiscard]] bool on_several_nodes() const noexcept override { return true; }
    [[nodiscard]] undo::UndoJournal* journal() const noexcept override { return journal_.get(); }
    Status truncate(std::uint64_t size) override;
    Status commit() override;
    Status settle() override;

  private:
    Status write_parts(std::span<const Part> parts, stage::ByteClass byte_class, bool together) override;
    Status drain_unclosed() override;
    Status commit_before_close() override;
    Status give_back(const Status& outcome) override;
    Status end_group() override;
    void remove_journal() noexcept override;

    Status begin_journal(std::uint64_t team, const area::ProcessIdentity& process, std::uint64_t size);
    Result<std::uint64_t> largest_size();
    Status commit_consistently();
    Status expose_to_others(const std::vector<Introduction>& all);
    Status await_others(std::span<const ByteRange> places);   // none of them is empty

    std::unique_ptr<Window> window_;
    std::vector<int> other_drainers_;   // ranks
    std::shared_ptr<undo::UndoJournal> journal_;
};

}   // namespace forebay::file
