// The owner's side of the ledger: keeps a process's counters where `forebay status` finds them.
// The counters start in the process's own memory, so a process that only reads costs nothing on disk. `publish` moves
// them to a file. If that file's device fails later, the counters stay in memory, and other processes see the old
// values. Thread-safety: any thread may call `take_slot` and `give_back`. `publish` comes first or not at all.
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

    // Moves the counters into a new, empty `file`, for other processes. On failure they stay in memory.
    Status publish(std::unique_ptr<io::File> file, const area::ProcessIdentity& process, std::uint64_t size_bytes,
                   std::uint64_t segment_bytes);

    [[nodiscard]] LedgerHeader& header() noexcept { return *header_; }

    // Returns a slot with zero counters for one open file, or null if all are taken (counted in the header).
    LedgerSlot* take_slot(std::string_view path, std::uint64_t device, std::uint64_t inode);
    void give_back(LedgerSlot* slot);

  private:
    std::mutex mutex_;
    std::unique_ptr<LedgerHeader> own_header_;
    std::unique_ptr<io::Mapping> mapping_;
    std::unique_ptr<io::Replaceable> replaceable_;   // a failure here must not fail the process
    LedgerHeader* header_;
    LedgerSlot* slots_ = nullptr;
};

inline void set_use(LedgerSlot& slot, FileUse use) noexcept {
    slot.in_use.store(static_cast<std::uint64_t>(use), std::memory_order_release);
}

void open_slot(LedgerSlot& slot, std::string_view path, std::uint64_t device, std::uint64_t inode);

}   // namespace forebay::ledger
