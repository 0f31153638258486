// Something that all members of a team do together, as their undo journals count it (undo/undo_journal.h).
#pragma once

#include "undo/undo_journal.h"

namespace forebay::file {

class Meeting {
  public:
    explicit Meeting(undo::UndoJournal* journal) noexcept : journal_(journal) {
        if (journal_ != nullptr) journal_->step();
    }
    ~Meeting() {
        if (journal_ != nullptr) journal_->step();
    }
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

  private:
    undo::UndoJournal* journal_;
};

}   // namespace forebay::file
