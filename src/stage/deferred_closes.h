// Closes that the program does not wait for (docs/consistency.md, "Deferred close"). A deferred close is *under way*
// from its commit until nothing more comes to the target. The closing thread ends closes in order. A caller that opens
// the same file, or needs room in the log, ends a close itself, or waits for the thread that has begun to. Meanwhile
// this process holds a claim on the file in the folder `closing/` of the staging area, for other processes of the node
// (none in tests with another area). The first unreported failure is kept for the next call that can report it.
// Invariants: one thread ends a close. The file stays in the FileTable until that thread has finished it, and cannot be
// attached before. The number of closes under way is bounded. `mutex_` guards the list, and is not held while a close
// ends. Lock order: a file's writer_, mutex_, the mutex of FileTable. Thread-safety: every call from any thread. Fork:
// a child ends none of its parent's closes. Blocking: `await...` as long as a close needs its target, and
// `finish_later` for that if it cannot defer. After a crash recovery finishes the closes under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"
#include "io/claim.h"
#include "stage/async_requests.h"
#include "stage/file_table.h"
#include "stage/leftovers.h"
#include "stage/statistics.h"

namespace forebay::stage {

// The end of a deferred close, of which nothing more comes to the target.
struct Ended {
    bool left = false;   // bytes of it are in the log only
    bool gone = false;   // nothing of this process uses the file any more
};
// Unlocks the file and closes its descriptor. Any thread may call it, at the end of a deferred close.
using AfterClose = std::function<Status(Ended)>;

class DeferredCloses {
  public:
    DeferredCloses(FileContext& context, ProcessArea& area, FileTable& files, Leftovers& leftovers,
                   AsyncRequests& requests, Statistics& statistics)
        : context_(context),
          area_(area),
          files_(files),
          leftovers_(leftovers),
          requests_(requests),
          statistics_(statistics) {}

    // Commits the file, blocking, and hands it to the closing thread. An error: the caller finishes it.
    [[nodiscard]] Status defer(const std::shared_ptr<StagedFile>& file, AfterClose afterwards);
    // Why the close of a shared file (file/shared_file.h) has to wait: kShared with close=wait. None: it need not.
    [[nodiscard]] std::optional<WaitedClose> why_waits(const StagedFile& file);
    void count_waited(WaitedClose why) noexcept;
    // Replaces Engine::detach once all processes agree. `finish` does the rest, and calls no other process. `claims`:
    // this process claims the file, so the node's others see the close. Without a thread, the close ends here.
    struct SharedClose {
        std::function<Status()> finish;
        AfterClose afterwards;
        bool claims = false;
    };
    void finish_later(const std::shared_ptr<StagedFile>& file, SharedClose close) noexcept;

    // Before a file is used that this process, or another one of the node, may have closed without waiting: waits until
    // that close has ended. kDrop: the file is about to be emptied, so what this process has not begun to drain is
    // dropped. Returns kUnsettled after `patience` if the other process is ending, has given the file up, or wrote to
    // no target meanwhile. Other errors: that process cannot be judged. Blocks meanwhile.
    enum class Before : std::uint8_t { kUse, kDrop };
    [[nodiscard]] Status await(const io::Identity& identity, Before before = Before::kUse);
    // Waits as `await` does, but only for closes of this process.
    void await_own(const io::Identity& identity, Before before);
    // Ends one close, or waits for the end of one. Returns false if none is under way.
    bool await_one() noexcept;
    // Waits until all closes of this process have ended. Returns the failure that `take_failure` would.
    [[nodiscard]] Status await_all() noexcept;
    // The first failure of a close that has returned before it failed, unless a call has reported it already.
    [[nodiscard]] Status take_failure() noexcept;
    [[nodiscard]] bool any_under_way() noexcept;
    // A close of this file is under way in this process or, as far as can be known, not excluded in another one.
    [[nodiscard]] bool may_be_under_way(const io::Identity& identity);

    // As `await_all`, also once the end of the process has begun.
    [[nodiscard]] Status end_all() noexcept;
    // Ends the closing thread, which ends what is in the queue first.
    void stop() noexcept;
    // The process ends: `leave_to` gets the name of this process's directory, and lets another process take over what
    // is under way. Returns false if nothing was left to it: the caller waits. The closing thread goes on with its
    // current close until the process has ended. Recovery copes with that, as with a process that died.
    using LeaveTo = std::function<Status(const std::string& directory)>;
    [[nodiscard]] bool leave(const LeaveTo& leave_to);

    void lock_for_fork() ACQUIRE(mutex_) { mutex_.lock(); }
    void unlock_after_fork() RELEASE(mutex_) { mutex_.unlock(); }

  private:
    struct Close {
        std::shared_ptr<StagedFile> file;
        AfterClose afterwards;
        std::unique_ptr<io::Claim> claim;   // tells other processes of the node; null: there are none to tell
        std::function<Status()> finish;     // of a file that several processes write; else empty
        bool begun = false;                 // a thread ends it
    };
    using Closes = std::list<Close>;
    // Found out with the first close.
    struct Limits {
        bool forked;
        std::size_t under_way_max;
    };
    enum class Stop : std::uint8_t { kNo, kWhenEmpty, kAtOnce };

    [[nodiscard]] std::optional<WaitedClose> why_not_deferred(StagedFile& file);
    [[nodiscard]] std::optional<WaitedClose> why_not_now(const StagedFile& file);
    [[nodiscard]] bool start_thread() noexcept;
    void hand_over(Close&& close);
    void run_thread();
    [[nodiscard]] Status end(Close& close) noexcept;
    void end_under_way(Closes::iterator close, Before before = Before::kUse) noexcept REQUIRES(mutex_);
    [[nodiscard]] Closes::iterator find(const io::Identity& identity) REQUIRES(mutex_);
    bool end_next() noexcept REQUIRES(mutex_);
    void keep_failure(const Status& outcome, const StagedFile& file) noexcept REQUIRES(mutex_);
    void tell_nameless(const StagedFile& file);
    [[nodiscard]] Result<std::unique_ptr<io::Claim>> claim(const io::Identity& identity);
    [[nodiscard]] Status await_others(const io::Identity& identity);

    FileContext& context_;
    ProcessArea& area_;
    FileTable& files_;
    Leftovers& leftovers_;
    AsyncRequests& requests_;
    Statistics& statistics_;

    Mutex mutex_;
    Condition changed_;
    Closes under_way_ GUARDED_BY(mutex_);   // in the order of the closes
    bool looked_at_claims_ GUARDED_BY(mutex_) = false;
    std::optional<Limits> limits_ GUARDED_BY(mutex_);
    Stop stop_ GUARDED_BY(mutex_) = Stop::kNo;
    Status failure_ GUARDED_BY(mutex_);
    std::jthread thread_;   // started under mutex_; joined by `stop` only
};

}   // namespace forebay::stage
