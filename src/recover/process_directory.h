// Judges one process directory in a staging area: is its process alive and, if not, which files do its logs concern?
// Engines and commands use it. It never skips an unreadable or untrusted directory: `unread` has the reason, and all
// readable parts, the ledger included, name files. Changes nothing. Blocks on file I/O.
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
        kGone,     // removed meanwhile
        kLiving,   // not read further
        kDead,
        kUnknown,   // not known to live, and unreadable now: see `unread`
    };
    State state = State::kGone;
    std::string path;
    area::ProcessIdentity process;
    // For a dead process: the files of its log and journals, with their paths as logged.
    struct File {
        std::string path;
        log::Birth born{};   // as far as known
    };
    std::multimap<io::Identity, File> files;   // several for a number that was reused
    [[nodiscard]] bool concerns(const io::Identity& identity, const log::Birth& file) const;
    Status unread;             // the error if a part is unreadable or untrusted; then only a command recovers it
    bool may_be_any = false;   // it may concern files that are not in `files`

    [[nodiscard]] std::string advice() const;
};

// True if descriptors or memory are lacking, so that the same call may succeed later.
[[nodiscard]] bool lacks_resources(const Status& failure) noexcept;

[[nodiscard]] ProcessDirectory judge(io::Directory& area, const std::string& name, const area::ProcessIdentity& owner,
                                     const area::IsSeenRunning& is_seen = area::is_seen_running);

}   // namespace forebay::recover
