// One open of a file by HDF5: the state that the driver and the connector share.
// The driver makes it in `open` and drops it in `close`. The connector finds it by HDF5's number of the file
// (open_files.h), and keeps it with the file's objects. Failures: HDF5 frees a file even if the driver's close fails,
// and a failing flush in the middle of a close leaves the file half closed. So the driver does not fail there. This
// object keeps the failure, and the program's current call reports it (call_scope.h). The next flush or close of this
// file, and of no other one, reports the rest. Ownership: shared by the driver and the connector's objects.
// Thread-safety: HDF5 calls one file from one thread at a time; any thread may keep and take failures. No call blocks.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "file/shared_file.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "ledger/ledger.h"
#include "stage/engine.h"

namespace forebay::hdf5 {

class OpenFile {
  public:
    std::string name;                             // as the program gave it
    std::string path;                             // complete, as at the open
    std::shared_ptr<io::Descriptor> descriptor;   // the engine uses it too
    io::Identity identity;
    bool writable = false;
    bool with_mpi = false;
    bool holds_raw_data = false;   // HDF5 may hold raw data back when a dataset is flushed, or call the program then
    std::optional<ledger::AsideReason> aside;   // why it is not staged, if that is known before it is attached

    std::shared_ptr<file::ProgramFile> file;    // null until it is attached to an engine
    std::shared_ptr<file::SharedFile> shared;   // the same file if ranks write it together, else null
    bool atomic = false;                        // MPI's atomic mode: each transfer locks its bytes
    bool closes_at_once = false;                // closing a dataset does not wait for its asynchronous operations

    enum class During : bool { kFlush, kClose };
    void keep_failure(During during, Status failure) noexcept;
    [[nodiscard]] Status take_failure(During during) noexcept;
    [[nodiscard]] bool has_failure(During during) const noexcept;

    // The driver has closed the file. Keeps only the names and a failure.
    void note_closed() noexcept;
    [[nodiscard]] bool closed() const noexcept { return closed_; }

  private:
    [[nodiscard]] Status& failure(During during) noexcept {
        return during == During::kFlush ? flush_failure_ : close_failure_;
    }

    mutable std::mutex mutex_;
    Status flush_failure_, close_failure_;
    bool closed_ = false;
};

}   // namespace forebay::hdf5
