// The copies of undo journals that nodes put beside a file which they wrote together, until all are there.
// The directory `.<file>.forebay-<team>` beside the target (mode 0700) has a copy `member-<rank>` for each rank.
// `begun` exists once a recovery may have written to the target, and `done` once no rank's copy is needed: the file is
// recovered, or was closed. `done` stays until each rank's node has read it, because a missing directory proves
// nothing: a server that is partly down can hide it. Then the last of these nodes removes the directory. Steps:
// docs/recovery.md, "Several nodes, nodes=consistent". After a crash in any call the next recovery continues. Blocks on
// file I/O and syncs. Not thread-safe. Recoveries exclude each other by a lock on the directory, where the file system
// has locks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "log/target_state.h"
#include "undo/undo_format.h"

namespace forebay::recover {

class Gathering {
  public:
    // `home` is the target's directory. kUnavailable: a recovery on any node held it for `patience`. kNotFound: there
    // is no directory, without `create`. kPermissionDenied: another user may write to it.
    [[nodiscard]] static Result<std::unique_ptr<Gathering>> open(std::unique_ptr<io::Directory> home,
                                                                 const std::string& file, std::uint64_t team,
                                                                 bool create, io::Directory::Patience patience);
    [[nodiscard]] static std::string name(const std::string& file, std::uint64_t team);
    // kUnsupported: the file system takes no name as long as the one of the directory beside the target `path`. So no
    // recovery could bring the nodes' copies together.
    [[nodiscard]] static Status check_length(const std::string& path, std::uint64_t team);

    [[nodiscard]] Result<bool> done();
    // Copies a rank's journal, unless its copy is complete. `wrote_ns`: the rank was certainly alive then. Calls
    // `promise` when the copy's name is on the device, before the copy counts. So the copies of ranks that have not
    // promised do not count, and another node cannot have recovered the file.
    [[nodiscard]] Status tell(io::File& journal, std::uint64_t member, std::uint64_t wrote_ns,
                              const std::function<Status()>& promise);
    struct Told {
        std::unique_ptr<io::File> file;
        std::uint64_t wrote_ns = 0;
    };
    [[nodiscard]] Result<std::map<std::uint64_t, Told>> members();

    // The target's state as noted by a recovery, on any node, that began to write to the target; none if none began.
    [[nodiscard]] Result<std::optional<log::TargetState>> begun();
    // Notes the target's state before and after a change. The first note is on the device when this returns.
    [[nodiscard]] Status note_begun(const log::TargetState& state);
    // Makes `done` durably, then removes all copies.
    [[nodiscard]] Status set_done();
    // Call after set_done. Notes in `done` that these ranks do not need it any more. Removes the directory if none of
    // `members` ranks does.
    [[nodiscard]] Status leave(std::span<const std::uint64_t> ranks, std::uint64_t members);
    // Removes the directory if it is empty.
    [[nodiscard]] Status remove_empty();

  private:
    Gathering(std::unique_ptr<io::Directory> home, std::string name, std::uint64_t team)
        : home_(std::move(home)), name_(std::move(name)), team_(team) {}

    std::unique_ptr<io::Directory> home_;
    std::string name_;
    const std::uint64_t team_;
    std::unique_ptr<io::File> begun_;   // open once this recovery has noted a state
    std::unique_ptr<io::Directory> directory_;
    std::unique_ptr<io::Lock> lock_;
};

}   // namespace forebay::recover
