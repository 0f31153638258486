// One open of a file by HDF5: what the driver and the connector both know of it.
//
// The driver makes it in its `open` and lets go of it in its `close`. The connector finds it by the number that HDF5
// gives to every open file (open_files.h) and keeps it with the objects of that file.
//
// Failures. HDF5 frees a file even if the driver's close fails, and a flush that fails in the middle of closing leaves
// the file half closed. So the driver does not fail there. The failure is kept here, and the call of the program during
// which it happened reports it (call_scope.h). What that call cannot report is left to the next flush or close of this
// file. No other file reports it.
//
// Ownership: shared by the driver and the connector's objects. Thread-safety: HDF5 calls one file from one thread at a
// time; failures are kept and taken from any thread. No call blocks.
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
    std::string path;                             // complete, as it was at open
    std::shared_ptr<io::Descriptor> descriptor;   // which the engine uses, too
    io::Identity identity;
    bool writable = false;
    bool with_mpi = false;
    bool holds_raw_data = false;   // HDF5 may, and a flush of a dataset does not write it, or calls the program
    std::optional<ledger::AsideReason> aside;   // why it is never staged

    std::shared_ptr<file::ProgramFile> file;    // null: not attached to an engine yet
    std::shared_ptr<file::SharedFile> shared;   // the same file, if ranks write it together; else null
    bool atomic = false;                        // MPI's atomic mode: each transfer locks its bytes
    bool closes_at_once = false;                // closing a dataset does not wait for what was begun asynchronously

    enum class During : bool { kFlush, kClose };
    // The first failure stays until it is taken.
    void keep_failure(During during, Status failure) noexcept;
    [[nodiscard]] Status take_failure(During during) noexcept;
    [[nodiscard]] bool has_failure(During during) const noexcept;

    // The driver has closed it, and lets go of everything but the names and a failure.
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
