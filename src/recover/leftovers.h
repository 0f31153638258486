// What dead processes have left on this node, as an engine asks before it opens a file.
//
// Cheap when there is nothing: the staging area is listed again only when it has changed, and of a directory that a dead
// process has left only the beginnings of the segments are read, once. Recovery itself is that of recovery.h; it waits
// for another one of the same file as long as `patience` says, and for none of another file. Blocks on file I/O. Thread-safety: one call at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/status.h"
#include "io/file.h"
#include "recover/recovery.h"

namespace forebay::recover {

class Leftovers {
  public:
    // The folder `forebay-<uid>`, or null while there is none.
    using FindArea = std::function<Result<std::unique_ptr<io::Directory>>()>;
    Leftovers(FindArea find_area, io::Directory::Patience patience) : find_area_(std::move(find_area)), patience_(patience) {}

    // Whether the log of a dead process may be about this file.
    [[nodiscard]] bool concern(const io::Identity& identity);
    // A dead process has left a log of a file of this name that is another one: it was replaced, or its file system was mounted again,
    // and then the file has not what the log holds. The directory of the process; empty: none.
    [[nodiscard]] std::string stranded(const io::Identity& identity, const std::string& path);
    // Brings it home. No report: there was nothing after all.
    [[nodiscard]] Result<std::optional<FileReport>> recover(const Wanted& file);
    // The file has been emptied: what a log still holds of it is void.
    [[nodiscard]] Status void_log(const Wanted& file);

    // For tests: how often the area was listed.
    [[nodiscard]] std::uint64_t listings() const noexcept { return listings_; }

  private:
    void look();
    void note_dead(const std::string& name);

    FindArea find_area_;
    const io::Directory::Patience patience_;   // with another recovery of the same file
    std::unique_ptr<io::Directory> area_;
    std::uint64_t seen_change_ns_ = 0;                             // of the area, as it was listed; 0: list it again
    std::map<std::string, log::ProcessIdentity> living_;           // by directory, when last looked at
    std::map<std::string, std::map<io::Identity, std::string>> dead_;   // the files that their logs are about, and their paths
    std::uint64_t listings_ = 0;
};

}   // namespace forebay::recover
