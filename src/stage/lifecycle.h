// The life of an open file: opened for writing, staged or stepping aside, finished, and its state behind the close.
// Modes: stage/file_state.h. The mode changes under both locks, so a thread that holds the writer's lock sees one mode.
// `finish` gives the log back only if the target has everything. Otherwise the file is `kFailed`, its log stays for
// recovery, and a later open for writing returns the kept error. `StagedFile` owns this, which refers to the file's
// state and log. Every call takes its locks. Calls that return a Status may wait for the target, with patience.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "io/file.h"
#include "ledger/ledger.h"
#include "stage/file_state.h"
#include "stage/staging_log.h"
#include "stage/writing.h"

namespace forebay::stage {

// Why a close waits, although option close says otherwise. The order is that of `waited_close_name`.
enum class WaitedClose : std::uint8_t {
    kNothingLeft,   // everything is in the target, or was never staged
    kFailing,       // the drain or the log has failed
    kUnrecorded,    // the log has no room for the commit record
    kShared,        // several processes write it together
    kTooMany,       // so many closes are under way
    kNamed,         // close=auto, and others can open it
    kUnclaimed,     // others cannot be told, or no thread can be had
    kDeadline,      // the job ends before long
    kForked,        // a forked process may end without its exit handlers: nothing would drain
    kCount,
};

class Lifecycle final : public Writing {
  public:
    Lifecycle(FileState& file, StagingLog& log) noexcept : file_(file), log_(log) {}

    // Makes a passive file staged or, with a reason to step aside, bypass. `target` allows writing; `slot` outlives
    // `finish`. If the target may hang, a thread that waits with patience leaves all writes to others; else it writes
    // too. `prepare`, if there is one, empties the target; it is called once nothing else can refuse the open.
    Status open_for_writing(std::unique_ptr<io::File> target, ledger::LedgerSlot* slot,
                            std::optional<ledger::AsideReason> aside, io::FileTraits traits,
                            const std::function<Status()>& prepare);
    // Has a passive file, which stays so, read from `target`, a staging server's file. Otherwise as `open_for_writing`.
    Status read_through(std::shared_ptr<io::File> target, ledger::LedgerSlot* slot, io::FileTraits traits,
                        const std::function<Status()>& prepare);
    // Takes over the target's present size, if the file is passive or another program changed it behind the close.
    Status refresh();
    // Stages a file that bypassed the log for the one reason that no option asked for staging (kDisabled). The staging
    // area is in use. Returns false if the file is shared, or has stepped aside for another reason too.
    [[nodiscard]] Result<bool> begin_staging();
    // Drains; from then on, and until the close, writes go straight to the target (SWMR, raw descriptor handed out).
    // Fails if the staging device has lost bytes of the log: the file stays staged, and each flush and the close fail.
    // kUnsupported for a shared file: its members step aside together (GroupMembership::bypass_log).
    Status step_aside(ledger::AsideReason reason) override;
    // The program knows where in the file its data are, and may read them there beside HDF5. They are there on return,
    // and later writes are there at once. A file that is not written now is not staged when it is opened for writing
    // (FileContext). A shared file stays staged: see `drain_present` of GroupMembership.
    Status expose_offsets();
    // Counts that, and remembers the file.
    void note_addresses_given();

    enum class Finish : std::uint8_t {
        kProgramWaits,
        kBehindProgram,   // no call of the program waits; the file stays closed to others until `let_others_open`
    };
    // Commits, drains, sets the target's size and gives the log back. After ETIMEDOUT a drain thread may still be in a
    // call that does not return: the file and the engine have to stay.
    Status finish(Finish how);
    Status finish() override { return finish(Finish::kProgramWaits); }
    // Call this after finish(kBehindProgram), once the file is unlocked.
    void let_others_open() noexcept;
    // Commits, so that `finish` may come later; the drain then watches for other programs (drain/turns.h). Returns
    // nullopt if it may: the process's death then loses nothing. Otherwise the reason to finish at once; `finish`
    // reports a failure of this call. For a shared file the drainer calls it, once no rank writes any more.
    [[nodiscard]] std::optional<WaitedClose> commit_to_finish_later();
    Status finish_unclosed() override;
    // The file that a passive file is read from could not be closed: later opens for writing return `why`.
    void fail(const Status& why);
    // Says that the writes since the last commit are incomplete. While `why` is a failure, a staged file stays at its
    // last commit: `commit`, `step_aside` and `finish` fail with `why`, and commit and drain nothing. Ok takes that
    // back.
    void withhold(Status why) noexcept;
    // Returns ok, or the failure that keeps the file at its last commit. `doing` names the call.
    [[nodiscard]] Status withheld(const char* doing) const;

    [[nodiscard]] bool failed() const;
    // True if giving the log back would lose bytes that are nowhere else, or if a group's last statement counts it.
    [[nodiscard]] bool leaves_log() const;
    // The file has failed, as another program changed the target behind the close: nothing keeps others from it.
    [[nodiscard]] bool left_to_others() const;
    // Bytes that the target lacked when it lost its last name, behind the close: an earlier copy lacks them.
    [[nodiscard]] std::uint64_t nameless_bytes() const;
    // Others can open the file: its target has a name, or that is not known.
    [[nodiscard]] bool has_name() const;

  private:
    Status may_be_opened() REQUIRES(file_.writer);
    void begin(std::shared_ptr<io::File> target, ledger::LedgerSlot* slot, std::uint64_t size)
        REQUIRES(file_.writer, file_.mutex());
    Status close_staged(Finish how) REQUIRES(file_.writer);
    // Returns true if the target has everything, and the log may go. `outcome` keeps the first failure.
    bool settle_for_close(Status& outcome) REQUIRES(file_.writer, file_.mutex());
    Status close_unstaged() REQUIRES(file_.writer, file_.mutex());
    bool confirm_for_close(Status& outcome) REQUIRES(file_.writer, file_.mutex());
    Status close_keeping_log(Status outcome) REQUIRES(file_.writer, file_.mutex());
    void leave_to_others() REQUIRES(file_.mutex());
    [[nodiscard]] std::uint64_t log_mount();
    [[nodiscard]] std::string why_withheld(const char* doing) const;

    FileState& file_;
    StagingLog& log_;
    Status withheld_ GUARDED_BY(file_.mutex());   // why the file stays at its last commit
};

}   // namespace forebay::stage
