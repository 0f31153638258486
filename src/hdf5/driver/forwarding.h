// Files that a staging server stages for this process (option server, wire/remote_file.h).
//
// Thread-safety: as HDF5's. Blocking: until the server has opened the file.
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

// Of a file that is to be staged: puts the server's in the place of `target.file`, where option server names one. If
// the server cannot stage it, and cannot have bytes of it, the file is written natively: counted with a reason, and one
// line on standard error. With option strict that is an error. So is, always, a server of which nobody knows what it
// has. A server that dies and does not come back is done without: the file is brought to its last flush from the log
// that it has left, where this machine has it. Of a file that is only read: puts the last flush of a client that writes
// it there, if one does. If no server answers it is read as it is, with one line on standard error.
struct Opening {
    bool emptied = false;   // what the file has had does not matter
    Locked locked = Locked::kNot;
    std::shared_ptr<const std::atomic<bool>> holds_lock{};   // whether it is locked for writing, then; null: never
    wire::Open::Team team{};                                 // of those that open it together
};
[[nodiscard]] Status forward(stage::OpenTarget& target, const LoadedOptions& loaded, const OpenFile& open,
                             const Opening& opening);

// The same of a file that all members of a team open. Collective: the server has it for all of them, or for none.
// `opening.team` is found here; what the file has had does not matter if the first member says so.
[[nodiscard]] Status forward_together(file::Team& team, stage::OpenTarget& target, const LoadedOptions& loaded,
                                      const OpenFile& open, Opening opening);

// False: the server says that no client writes the file, or there is none of that name. True: then its last flush is to
// be read, or what that meets is to be told. Blocks until the server answers.
[[nodiscard]] bool is_written_through(const Options& options, const char* path);

// Whether a client of the server writes this file now. Blocks while what a client has written comes to its end: its
// lock of the file has ended then, or does at once. kUnsupported: none writes it. Other errors say why it is unknown.
[[nodiscard]] Status ask_for_writer(const Options& options, const OpenFile& open);

}   // namespace forebay::hdf5
