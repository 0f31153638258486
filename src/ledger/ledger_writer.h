// The owner's side of the ledger: keeping a process's counters where `forebay status` finds them.
//
// Starts in the process's own memory, so that a process that only reads costs nothing on disk; `publish`
// moves it to a file. If that file's device fails later, the counters stay in memory from then on, and what
// others see stands still. Thread-safety: `take_slot` and `give_back` may come from any thread; `publish`
// comes first or not at all.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "io/file.h"
#include "io/guarded_access.h"
#include "ledger/ledger.h"
#include "log/format.h"

namespace forebay::ledger {

class LedgerWriter {
  public:
    LedgerWriter();

    // Moves the counters into `file`, new and empty, and makes them readable for others. On failure
    // they stay in memory.
    Status publish(std::unique_ptr<io::File> file, const area::ProcessIdentity& process, std::uint64_t size_bytes,
                   std::uint64_t segment_bytes);

    [[nodiscard]] LedgerHeader& header() noexcept { return *header_; }

    // A slot, its counters zero, for one open file; null when all are taken (counted in the header).
    LedgerSlot* take_slot(std::string_view path, std::uint64_t device, std::uint64_t inode);
    void give_back(LedgerSlot* slot);

  private:
    std::mutex mutex_;
    std::unique_ptr<LedgerHeader> own_header_;
    std::unique_ptr<io::Mapping> mapping_;
    std::unique_ptr<io::Replaceable> replaceable_;   // counters are no reason to fail
    LedgerHeader* header_;
    LedgerSlot* slots_ = nullptr;
};

inline void set_use(LedgerSlot& slot, FileUse use) noexcept {
    slot.in_use.store(static_cast<std::uint64_t>(use), std::memory_order_release);
}

// Sets the path and the identity, and every counter to zero.
void open_slot(LedgerSlot& slot, std::string_view path, std::uint64_t device, std::uint64_t inode);

}   // namespace forebay::ledger
