// A collective step of a team, counted by its undo journals (undo/undo_journal.h). A null journal counts nothing.
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
