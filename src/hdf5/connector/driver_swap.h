// Chooses the driver that a file is opened with: forebay's in place of HDF5's default (sec2), or the user's own.
//
// The exchange is made in a copy of the user's file access list, together with the connector beneath. Each list that
// HDF5 returns later gets the user's driver and connector back, so that no program sees forebay's. Files that forebay
// must not touch keep their driver and are counted with the reason. SWMR files get forebay's driver, unstaged: HDF5
// distinguishes files by driver first, and the same file may be open, or linked to, without SWMR.
//
// With mpio, copying a list is collective. A rank without the connector does not take part. If there is one
// (file/launch.h), the ranks do not communicate, and the copy has the original's communicator (local_list.h).
// Ownership: an `UnderList` owns its copy. Thread-safety: as HDF5's. Blocks: stat(2) at most.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hdf5/connector/object.h"
#include "hdf5/driver/mpi_driver.h"
#include "hdf5/host/host.h"
#include "hdf5/session.h"
#include "ledger/ledger.h"

namespace forebay::hdf5 {

// Puts forebay's driver into a list that names sec2. Returns false if the list names another driver.
[[nodiscard]] bool exchange_driver(hid_t file_access_list);

// Puts the user's driver and connector back into a list that HDF5 returns to the program.
herr_t restore_list(hid_t file_access_list, const Origin& origin);

// The file access list for the connector beneath, for one open or query of `path`.
class UnderList {
  public:
    enum class For : std::uint8_t { kOpen, kQuery };   // kQuery: asks about a file, or deletes it
    // Throws std::bad_alloc only. If `refused`, the error is on HDF5's stack.
    UnderList(const char* function, const char* path, unsigned flags, hid_t file_access_list, For what = For::kOpen);
    ~UnderList();
    UnderList(const UnderList&) = delete;
    UnderList& operator=(const UnderList&) = delete;

    [[nodiscard]] bool refused() const noexcept { return list_ < 0; }
    [[nodiscard]] hid_t id() const noexcept { return list_; }
    [[nodiscard]] const std::shared_ptr<Origin>& origin() const noexcept { return origin_; }

    // Call this once the file is open: counts it if it keeps its driver.
    void opened(const char* path, void* under);

  private:
    void write_metadata_collectively();
    bool exchange_mpi_driver(const char* path, unsigned flags, For what);
    void refuse(const char* function, const Status& why);
    std::optional<ledger::AsideReason> choose(const Route& route, const char* path, unsigned flags) const;

    void close_list();

    const hid_t program_list_;
    hid_t list_ = H5I_INVALID_HID;
    bool local_ = false;   // copied without the other ranks
    std::shared_ptr<Origin> origin_;
    std::optional<ledger::AsideReason> aside_;
    Status refusal_;   // with mpio: why the open has to fail
    std::optional<TeamOffer> offer_;
};

}   // namespace forebay::hdf5
