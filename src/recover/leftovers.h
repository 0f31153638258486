// The leftovers of dead processes on this node, for an engine that is about to use a file.
// Cheap if there are none: it lists an area only after a change, asks living processes' locks only, and reads a dead
// log's segment headers once. It also reads other users' areas in the same staging directory, if listable. There only
// logs of that user's own files count, so no user can block others' files by a claim. Waits for another recovery of the
// file up to `patience` (recovery.h). Blocks on file I/O. Thread-safety: one call at a time.
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
    using FindArea = std::function<Result<std::unique_ptr<io::Directory>>()>;
    using FindAreas = std::function<std::vector<std::unique_ptr<io::Directory>>()>;
    Leftovers(FindArea find_area, FindAreas find_others, io::Directory::Patience patience)
        : find_area_(std::move(find_area)), find_others_(std::move(find_others)), patience_(patience) {}

    // True if the last look found a directory that a dead process left or that is unreadable. Does not look itself.
    [[nodiscard]] bool found_any() const noexcept;
    // True if a dead process may have left records of this file, owned by `owner`. Error: no descriptors or memory.
    [[nodiscard]] Result<bool> concern(const io::Identity& identity, std::uint64_t owner, const log::Birth& born = {});

    // A process, perhaps this one, that is not known to be dead and may still write its log of the file. A process at
    // work that has the file open does not count: docs/consistency.md, "Other processes".
    struct Unsettled {
        enum class Why : std::uint8_t {
            kEnding,   // a thread of the ending process may be in a call that does not return
            kLeft,     // it closed or gave up the file with bytes in its log only
            kUntold,   // invisible, and does not hold the file's lock (`locked`): an ending process drops
                       // its locks in any order, and others use none
        };
        Why why = Why::kEnding;
        area::ProcessIdentity process;
        std::string directory;   // path; valid while its lock is held
    };
    // The first such process, after a new look. Errors as above.
    [[nodiscard]] Result<std::optional<Unsettled>> unsettled(const io::Identity& identity, bool locked);
    // A number that changes while another living process that may write this file writes any target. Looks again.
    [[nodiscard]] std::uint64_t written_by_others(const io::Identity& identity);
    // True if a process, dead or alive, may have bytes of this file, or of one of this path. Looks again.
    [[nodiscard]] bool may_be_staged(const io::Identity& identity, const std::string& path);
    // An unusable directory with records of this file; null: none.
    [[nodiscard]] const ProcessDirectory* unread(const io::Identity& identity, std::uint64_t owner,
                                                 const log::Birth& born = {});
    // Unreadable directories, and staging areas (without a process), each reported once.
    [[nodiscard]] std::vector<ProcessDirectory> new_unread();
    // A dead process's directory whose log is of another file with this name; empty: none. The file was replaced, or
    // its file system mounted again, and it then lacks the log's bytes.
    [[nodiscard]] std::string stranded(const io::Identity& identity, const std::string& path,
                                       const log::Birth& born = {});
    // Recovers the file, through `descriptor` if the caller has locked that for writing. No report: there was nothing
    // to do, or only unreadable directories (`unread`).
    [[nodiscard]] Result<std::optional<FileReport>> recover(
        const Wanted& file, const std::shared_ptr<io::Descriptor>& descriptor = nullptr);
    // Voids logs of a created or emptied file, or an earlier one of its number. With `only_ask` it only checks that.
    [[nodiscard]] Status void_log(const Wanted& file, bool only_ask = false);

    [[nodiscard]] std::uint64_t listings() const noexcept { return listings_; }

  private:
    struct Area {
        std::unique_ptr<io::Directory> directory;
        bool is_ours = false;   // logs there may be recovered
        std::uint64_t owner = 0;
        std::uint64_t seen_change_ns = 0;                      // at the last listing; 0: list again
        std::map<std::string, area::ProcessIdentity> living;   // by directory, at the last look
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
    const io::Directory::Patience patience_;   // for another recovery of the same file
    std::vector<Area> areas_;
    bool own_found_ = false, others_found_ = false;
    std::set<std::string> told_;             // directories reported as unread
    std::vector<ProcessDirectory> unseen_;   // unreadable areas
    Status lacking_;                         // lack of descriptors or memory in the last look
    std::uint64_t listings_ = 0;
};

}   // namespace forebay::recover
