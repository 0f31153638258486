// Chooses the driver of a file: ours in place of HDF5's default (sec2) or mpio, or the user's own.
// A copy of the user's file access list gets our driver and the connector beneath. Lists that HDF5 hands out later get
// the user's driver and connector back, so no program sees ours. Files that forebay must not touch keep their driver
// and are counted with the reason. Invariant: before a serial driver opens an existing file by its name, deferred
// closes have ended and the file is recovered. Another driver finds all bytes there (other_driver.h). The exceptions
// are sources of a virtual dataset whose file another driver has, and drivers with several files, whose names forebay
// does not know. A read-only open may go on unrecovered, with a warning. After another driver has made or emptied a
// file, the logs of dead processes are void (emptied_file.h). A file that is open here through forebay's driver, or
// through sec2, keeps that driver whatever the options of a later open say. SWMR files get our driver, which does not
// stage them. HDF5 tells files apart by driver first, and the same file may be open without SWMR, also through an
// external link. With mpio, copying a list is collective. If a rank was started without the connector (file/launch.h),
// there is no ballot, and the copy has the communicator of the original (local_list.h). Ownership: an `UnderList` owns
// its copy. Thread-safety: as HDF5's. Blocks as stat(2), on deferred closes and the drain of an open file, and with
// mpio until all ranks have voted and recovered the file.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "file/team.h"
#include "hdf5/connector/emptied_file.h"
#include "hdf5/connector/object.h"
#include "hdf5/driver/mpi_driver.h"
#include "hdf5/host/host.h"
#include "hdf5/session.h"
#include "ledger/ledger.h"

namespace forebay::hdf5 {

// Puts our driver into a file access list that names sec2. Returns false if it names another one, or ours.
[[nodiscard]] bool exchange_driver(hid_t file_access_list);

herr_t restore_list(hid_t file_access_list, const Origin& origin);

// The user's file access list for the connector beneath, for one open or query of `path`.
class UnderList {
  public:
    enum class For : std::uint8_t { kOpen, kQuery };   // kQuery: no file is opened, it is asked for or deleted
    // Throws std::bad_alloc only. A refusal leaves its error on HDF5's error stack.
    UnderList(const char* function, const char* path, unsigned flags, hid_t file_access_list, For what = For::kOpen);
    ~UnderList();
    UnderList(const UnderList&) = delete;
    UnderList& operator=(const UnderList&) = delete;

    [[nodiscard]] bool refused() const noexcept { return list_ < 0; }
    [[nodiscard]] hid_t id() const noexcept { return list_; }
    [[nodiscard]] const std::shared_ptr<Origin>& origin() const noexcept { return origin_; }

    // Call this after the open has succeeded. Returns false, with an error on HDF5's stack, if the file's logs cannot
    // be voided, or without memory; then it has closed the file. With MPI one rank cannot close a file alone: logs only
    // cause a warning, and without memory the file stays open.
    [[nodiscard]] bool opened(const char* function, void* under, const char* path) noexcept;

  private:
    Status write_metadata_collectively();
    bool exchange_mpi_driver(const char* path, unsigned flags, For what);
    void note_emptying(const char* path, unsigned flags, For what) noexcept;
    void note_opened(void* under, const char* path);
    [[nodiscard]] Status void_logs(const char* path) const;
    // Collective. Waits for deferred closes of the file, and calls `then`. Sets `refusal_` on all ranks if one fails.
    void await_closed_together(file::Team& team, const char* path, const std::function<Status()>& then = {});
    void refuse(const char* function, const Status& why);
    void refuse_together(const char* function, const Status& why);   // all ranks, with mpio
    std::optional<ledger::AsideReason> choose(const Route& route, const char* path, unsigned flags) const;

    void close_list();

    const hid_t program_list_;
    hid_t list_ = H5I_INVALID_HID;
    bool local_ = false;            // copied without the other ranks
    bool closes_awaited_ = false;   // by all ranks, which agree on the outcome
    std::shared_ptr<Origin> origin_;
    std::optional<ledger::AsideReason> aside_;
    Status refusal_;   // why the open has to fail
    std::optional<TeamOffer> offer_;
    std::optional<EmptiedFile> emptied_;   // for an open that makes or empties its file
};

}   // namespace forebay::hdf5
