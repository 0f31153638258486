// Opens files that a staging server stages for this process (option server, wire/remote_file.h). Thread-safety: as
// HDF5's. Blocks until the server has opened the file.
#pragma once

#include <atomic>
#include <memory>

#include "base/options.h"
#include "base/status.h"
#include "file/team.h"
#include "hdf5/driver/open_recovery.h"
#include "hdf5/open_file.h"
#include "stage/engine.h"
#include "wire/frame.h"

namespace forebay::hdf5 {

// The way in which the program opens the file.
struct Opening {
    bool emptied = false;   // the file's former bytes do not matter
    Locked locked = Locked::kNot;
    std::shared_ptr<const std::atomic<bool>> holds_lock{};   // while HDF5 has it locked for writing; null: never
    wire::Open::Team team{};
};
// Sets `target.forwarded` to the file at the staging server, if option server names one; `target.file` is then null. If
// that server cannot stage a file for writing and certainly has none of its bytes, the file is written natively. That
// is counted with a reason, with a line on standard error. It is an error with option strict, and always if the server
// may have bytes of the file. If the server dies and stays away, the file is recovered to its last flush from the
// server's log, if this machine has it, and then written natively. A read-only `target.file` becomes the last flush of
// the client that writes it, if one does. If no server answers, it is read as it is, with a line on standard error.
[[nodiscard]] Status forward(stage::OpenTarget& target, const LoadedOptions& loaded, const OpenFile& open,
                             const Opening& opening);

// Like `forward`, for a file that a team opens. Collective: the server stages it for all or for none. The
// caller leaves `opening.team` empty. The first member's `opening.emptied` holds for all.
[[nodiscard]] Status forward_together(file::Team& team, stage::OpenTarget& target, const LoadedOptions& loaded,
                                      const OpenFile& open, Opening opening);

// Returns true if a client of the server writes the file, or if that cannot be determined. The caller then opens the
// file through the server. Blocks until the server answers.
[[nodiscard]] bool may_have_writer(const Options& options, const char* path);

// Ok: a client of the server writes this file now. If a client has closed the file and its bytes still
// drain, waits for that; the client's lock on the file ends then or just after. kUnsupported: no client writes it.
// Other errors: unknown, with the reason.
[[nodiscard]] Status ask_for_writer(const Options& options, const OpenFile& open);

}   // namespace forebay::hdf5
