// What the nodes that wrote one file together lay beside it when they recover: copies of their undo journals, until all
// are there.
//
// A directory `.<file>.forebay-<team>` beside the target, mode 0700, with a file `member-<rank>` for each rank that has
// been told of, `begun` from when a recovery may have written to the target, `done` once the file has been brought
// home, and `closed` if a rank tells that it was closed. The last node's recovery removes it. docs/recovery.md,
// "Several nodes, nodes=consistent", tells why each step is where it is. Each call may be the last one of a process
// that is killed. Blocks on file I/O; syncs. Not thread-safe; recoveries of several nodes exclude each other by a lock
// on the directory, where the file system has locks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
    // `home` is the target's directory. `patience`: with another recovery, of whatever node, that is at work there;
    // kUnavailable when it ends. kNotFound: it is not there, and `create` does not ask for it. kPermissionDenied: it is
    // not this user's own.
    [[nodiscard]] static Result<std::unique_ptr<Gathering>> open(std::unique_ptr<io::Directory> home,
                                                                 const std::string& file, std::uint64_t team,
                                                                 bool create, io::Directory::Patience patience);
    [[nodiscard]] static std::string name(const std::string& file, std::uint64_t team);

    // The file has been brought home; what is left of the directory may go.
    [[nodiscard]] Result<bool> done();
    // The file was closed, and there is nothing to be undone; but not everybody who has to know may have been here.
    [[nodiscard]] Result<bool> closed();
    // Copies a rank's journal, unless that was done before. `wrote_ns`: when it was certainly at work. `promise` is
    // called between: the copy's name is on the device then and stays until the directory goes, but the copy does not
    // count yet. Whoever has promised, and finds the directory gone or empty later, knows that all copies had counted.
    [[nodiscard]] Status tell(io::File& journal, std::uint64_t member, std::uint64_t wrote_ns,
                              const std::function<Status()>& promise);
    struct Told {
        std::unique_ptr<io::File> file;
        std::uint64_t wrote_ns = 0;
    };
    // Those whose copies are whole, by rank.
    [[nodiscard]] Result<std::map<std::uint64_t, Told>> members();

    // Nothing is in it any more.
    [[nodiscard]] Result<bool> empty();

    [[nodiscard]] Status set_closed();
    // A recovery, of whatever node, has begun to write to the target: what it has noted of that. Nothing: none has.
    [[nodiscard]] Result<std::optional<log::TargetState>> begun();
    // Notes what is about to be done to the target, or was done. The first note is on the device when this returns.
    [[nodiscard]] Status note_begun(const log::TargetState& state);
    // Says that the file has been brought home, then removes everything but the directory's last trace, then that.
    [[nodiscard]] Status remove();

  private:
    [[nodiscard]] Result<bool> is_there(std::string_view name);
    [[nodiscard]] Status put(std::string_view name);
    Gathering(std::unique_ptr<io::Directory> home, std::string name, std::uint64_t team)
        : home_(std::move(home)), name_(std::move(name)), team_(team) {}

    std::unique_ptr<io::Directory> home_;
    std::string name_;
    const std::uint64_t team_;
    std::unique_ptr<io::File> begun_;   // open once this recovery has noted something in it
    std::unique_ptr<io::Directory> directory_;
    std::unique_ptr<io::Lock> lock_;
};

}   // namespace forebay::recover
