// One process directory in a staging area, judged: does its process live, and if not, which files is what it left
// about?
//
// The one place where that is decided, for an engine before it uses a file as for the commands. A directory that cannot
// be read, or must not be trusted, is never passed over: `unread` says why, and the files are then told by whatever can
// be read of it, its ledger included. Nothing is changed. Blocks on file I/O. Recovery reads more of those that can be
// read (inventory.h).
#pragma once

#include <map>
#include <string>

#include "area/process.h"
#include "base/status.h"
#include "io/file.h"
#include "log/format.h"

namespace forebay::recover {

struct ProcessDirectory {
    enum class State : std::uint8_t {
        kGone,     // it went away in the meantime
        kLiving,   // not looked into further
        kDead,
        kUnknown,   // the process is not known to live, and the directory cannot be looked into now: `unread` says why
    };
    State state = State::kGone;
    std::string path;
    area::ProcessIdentity process;
    // Of a dead process: the files that its log and its journals are about, with their paths as it knew them.
    struct File {
        std::string path;
        log::Birth born{};   // as far as it is known
    };
    std::multimap<io::Identity, File> files;   // several of a number that was given again
    [[nodiscard]] bool concerns(const io::Identity& identity, const log::Birth& file) const;
    Status unread;   // not ok: not all of it can be read, or it must not be used; what it holds cannot be brought home
                     // unasked
    bool may_be_any = false;   // it may be about files that are not in `files`

    // What to do about one that cannot be read.
    [[nodiscard]] std::string advice() const;
};

// The system lacks descriptors or memory: what failed is not known, and may succeed later.
[[nodiscard]] bool lacks_resources(const Status& failure) noexcept;

[[nodiscard]] ProcessDirectory judge(io::Directory& area, const std::string& name, const area::ProcessIdentity& owner,
                                     const area::IsSeenRunning& is_seen = area::is_seen_running);

}   // namespace forebay::recover
