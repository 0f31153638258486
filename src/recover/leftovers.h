// What dead processes have left on this node, as an engine asks before it uses a file.
//
// Cheap when there is nothing: a staging area is listed again only when it has changed, of each living process only the
// lock is asked for, and of a directory that a dead process has left only the beginnings of the segments are read,
// once. Recovery itself is that of recovery.h; it waits for another one of the same file as long as `patience` says,
// and for none of another file. The areas of other users in the same staging directory are looked at, too, where they
// can be listed: root sees them all. Of those only what is about files of that user counts: nobody keeps others from
// their files by what he claims. Blocks on file I/O. Thread-safety: one call at a time.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "recover/process_directory.h"
#include "recover/recovery.h"

namespace forebay::recover {

class Leftovers {
  public:
    // The folder `forebay-<uid>`, or null while there is none.
    using FindArea = std::function<Result<std::unique_ptr<io::Directory>>()>;
    // Those of others.
    using FindAreas = std::function<std::vector<std::unique_ptr<io::Directory>>()>;
    Leftovers(FindArea find_area, FindAreas find_others, io::Directory::Patience patience)
        : find_area_(std::move(find_area)), find_others_(std::move(find_others)), patience_(patience) {}

    // Whether the last look found a directory that a dead process has left, or one that cannot be looked into. Does not
    // look: `unsettled` has.
    [[nodiscard]] bool found_any() const noexcept;
    // Whether a dead process may have left something of this file, which belongs to this user. An error: the system
    // lacks what it takes to look.
    [[nodiscard]] Result<bool> concern(const io::Identity& identity, std::uint64_t owner, const log::Birth& born = {});

    // A process that is not known to be dead, this one included, has a log of the file, and may still write to the
    // file. A process at work that has the file open is none: docs/consistency.md, "Other processes".
    struct Unsettled {
        enum class Why : std::uint8_t {
            kEnding,   // it is ending, and may have a thread in a call that does not return
            kLeft,     // it has closed the file, or given it up, with bytes that are in its log only
            kUntold,   // it cannot be seen, and does not hold the file's lock, which has been had (`locked`): the locks
                       // of a process that ends go in any order. It may also do without locks
        };
        Why why = Why::kEnding;
        area::ProcessIdentity process;
        std::string directory;   // its path; as long as the lock in it is held, this holds
    };
    // The first such process. Looks again. An error as above.
    [[nodiscard]] Result<std::optional<Unsettled>> unsettled(const io::Identity& identity, bool locked);
    // Whether a process of this node, dead or alive, may have bytes of this file, or of one of this name, that are not
    // in it. Looks again.
    [[nodiscard]] bool may_be_staged(const io::Identity& identity, const std::string& path);
    // A directory that has something of this file, and cannot be used; null: none has.
    [[nodiscard]] const ProcessDirectory* unread(const io::Identity& identity, std::uint64_t owner,
                                                 const log::Birth& born = {});
    // Directories, and staging areas (without a process), whose content is unknown, each once.
    [[nodiscard]] std::vector<ProcessDirectory> new_unread();
    // A dead process has left a log of a file of this name that is another one: it was replaced, or its file system was
    // mounted again, and then the file has not what the log holds. The directory of the process; empty: none.
    [[nodiscard]] std::string stranded(const io::Identity& identity, const std::string& path,
                                       const log::Birth& born = {});
    // Brings it home; through `descriptor`, which the caller has locked for writing, if there is one. No report: there
    // was nothing after all, or only what cannot be read (`unread`).
    [[nodiscard]] Result<std::optional<FileReport>> recover(
        const Wanted& file, const std::shared_ptr<io::Descriptor>& descriptor = nullptr);
    // The file has been made or emptied: what a log still holds of it, or of one that had its number, is void. With
    // `only_ask`: whether that could be done.
    [[nodiscard]] Status void_log(const Wanted& file, bool only_ask = false);

    // For tests: how often the areas were listed.
    [[nodiscard]] std::uint64_t listings() const noexcept { return listings_; }

  private:
    struct Area {
        std::unique_ptr<io::Directory> directory;
        bool is_ours = false;   // what lies there may be brought home
        std::uint64_t owner = 0;
        std::uint64_t seen_change_ns = 0;                      // as it was listed; 0: list it again
        std::map<std::string, area::ProcessIdentity> living;   // by directory, when last looked at
        std::map<std::string, ProcessDirectory> dead;
    };

    [[nodiscard]] Status look();
    void find_areas(bool others);
    void note_failure(const std::string& path, const Status& why);
    bool look_into(Area& area);
    void note(Area& area, const std::string& name, const area::ProcessIdentity& owner);
    [[nodiscard]] std::vector<io::Directory*> ours() const;
    [[nodiscard]] const ProcessDirectory* find_dead(const io::Identity& identity, std::uint64_t owner,
                                                    const log::Birth& born, bool only_unread) const;
    void look_again();

    FindArea find_area_;
    FindAreas find_others_;
    const io::Directory::Patience patience_;   // with another recovery of the same file
    std::vector<Area> areas_;
    bool own_found_ = false, others_found_ = false;
    std::set<std::string> told_;             // directories that were told as unread
    std::vector<ProcessDirectory> unseen_;   // areas that cannot be looked into
    Status lacking_;                         // what the last look could not do for want of descriptors or memory
    std::uint64_t listings_ = 0;
};

}   // namespace forebay::recover
