// A file that ranks of several nodes write. Each node stages its own raw data and drains it without waiting for
// commits. The rank that writes metadata writes them to the target at once. A commit drains on all nodes; after it each
// node finds all bytes in the file. A read of bytes that another node has staged waits for that node's drain: each
// drainer exposes its undrained regions (group/staged_regions.h). If all members set nodes=consistent, each keeps an
// undo journal (undo/undo_journal.h), and a commit takes two steps (consistency.cc): a crash leaves the last commit.
#pragma once

#include <string>
#include <vector>

#include "file/grouped.h"

namespace forebay::file {

class OnSeveralNodes final : public Grouped {
  public:
    using Grouped::Grouped;

    // Collective, before `join`. Starts the undo journals if all members want them. The text is a warning, or empty.
    [[nodiscard]] Result<std::string> begin_consistency(const Introduction& first,
                                                        const area::ProcessIdentity& process);
    // Collective. Ends the undo journals.
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
    // Collective. Drains on all nodes, and returns when every node finds the bytes.
    Status drain_for_others(Untold untold);
    Status commit_consistently();
    Status expose_to_others(const std::vector<Introduction>& all);
    Status await_others(std::span<const ByteRange> places);   // no place is empty

    std::unique_ptr<Window> window_;
    std::vector<int> other_drainers_;
    std::shared_ptr<undo::UndoJournal> journal_;
};

}   // namespace forebay::file
