// Who reads or follows one file beside its writer: the snapshots that are read, and the commits that are told.
//
// It outlives the writer's session, as long as somebody reads or follows. Thread-safety: all calls from any thread.
// Lock order: opening_, the file's own, mutex_. Blocking: `open_snapshot` and `before_write` on the file and the store;
// all else does not.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/status.h"
#include "extent/range.h"
#include "io/event.h"
#include "io/file.h"
#include "server/snapshot.h"
#include "stage/staged_file.h"
#include "wire/frame.h"

namespace forebay::server {

class Observers {
  public:
    // All snapshots of the file together take at most so much.
    explicit Observers(std::uint64_t bytes_max) : account_(std::make_shared<SnapshotAccount>()) {
        account_->bytes_max = bytes_max;
    }

    // ---- the writer's session -------------------------------------------------------------------

    void opened();
    // `file` has been committed, and nothing was written since. Nothing, if the flush has committed nothing new.
    void committed(const stage::StagedFile& file);
    // A commit or the close has failed: which commit the file comes to is not known, and all snapshots are given up.
    void failed() noexcept;
    // Nothing is written any more. kGone: the file goes back to its last commit, and snapshots of earlier ones are
    // given up.
    void ended(wire::Commits::Writer how);

    // ---- its target writes ----------------------------------------------------------------------

    void before_write(io::File& file, ByteRange range) noexcept;

    // ---- readers --------------------------------------------------------------------------------

    // The last commit of `file`, read through `target`. kUnavailable: there is none that is whole.
    using MakeStore = std::function<Result<std::unique_ptr<io::File>>()>;
    [[nodiscard]] Result<std::shared_ptr<Snapshot>> open_snapshot(stage::StagedFile& file, io::File& target,
                                                                  const MakeStore& make_store);

    // ---- followers ------------------------------------------------------------------------------

    // Signals `event` with each commit, and at the writer's end, until destroyed.
    class Following {
      public:
        Following(Observers& observers, io::Event& event);
        ~Following();
        Following(const Following&) = delete;
        Following& operator=(const Following&) = delete;

      private:
        Observers& observers_;
        io::Event& event_;
    };
    // Those with a higher number, as many as a frame has room for.
    [[nodiscard]] wire::Commits after(std::uint64_t number) const;

  private:
    class Keeper;
    using Live = std::vector<std::weak_ptr<Snapshot>>;

    const std::shared_ptr<SnapshotAccount> account_;
    std::mutex opening_;   // one snapshot is made at a time

    mutable std::mutex mutex_;
    std::shared_ptr<const Live> live_;   // replaced as a whole, so that a write can look without memory; null: none
    std::weak_ptr<Snapshot> newest_;     // of the last commit
    std::uint64_t generation_ = 0;       // of commits, over all writers
    std::uint64_t given_up_ = 0;         // the file's counter, at the last commit
    std::uint64_t written_ = 0;          // the same of bytes
    std::uint64_t commits_ = 0;          // the same of commits
    std::deque<wire::Commit> history_;
    std::uint64_t last_number_ = 0;
    wire::Commits::Writer writer_ = wire::Commits::Writer::kWrites;
    std::set<io::Event*> followers_;
};

}   // namespace forebay::server
