// Something that all members of a team do together, as their undo journals count it (log/undo_journal.h).
#pragma once

#include "log/undo_journal.h"

namespace forebay::node {

class Meeting {
  public:
    explicit Meeting(log::UndoJournal* journal) noexcept : journal_(journal) {
        if (journal_ != nullptr) journal_->step();
    }
    ~Meeting() {
        if (journal_ != nullptr) journal_->step();
    }
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

  private:
    log::UndoJournal* journal_;
};

}   // namespace forebay::node
