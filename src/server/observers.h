// The readers and followers of one file beside its writer: snapshots and commits. It outlives the writer's session
// while a session reads or follows. Thread-safety: all calls from any thread. Lock order: opening_, the file's own,
// mutex_. Only `open_snapshot` and `before_write` block, on the file and the store.
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
    // All snapshots of the file together take at most `bytes_max`.
    explicit Observers(std::uint64_t bytes_max) : account_(std::make_shared<SnapshotAccount>()) {
        account_->bytes_max = bytes_max;
    }

    // A writer begins, with commit 1. Followers of the one before learn its end.
    void opened();
    // Notes a commit of `file` without later writes. Does nothing if the flush has committed nothing new.
    void committed(const stage::StagedFile& file);
    // Gives up all snapshots after a failed commit or close, because the file's resulting commit is unknown.
    void failed() noexcept;
    // Notes the end of all writes. With kGone the file returns to its last commit; older snapshots are given up.
    void ended(wire::Commits::Writer how);

    void before_write(io::File& file, ByteRange range) noexcept;

    // Returns a snapshot of the last commit of `file`, read through `target`. kUnavailable: none is complete.
    using MakeStore = std::function<Result<std::unique_ptr<io::File>>()>;
    [[nodiscard]] Result<std::shared_ptr<Snapshot>> open_snapshot(stage::StagedFile& file, io::File& target,
                                                                  const MakeStore& make_store);

    // Signals `event` at each commit, and at a writer's end and open, until destruction.
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
    // Returns the number of writers so far, also that of the present or last writer.
    [[nodiscard]] std::uint64_t writers() const;
    // Returns the commits of this writer with a higher number, as many as fit into a frame. Knows the last two writers.
    [[nodiscard]] wire::Commits after(std::uint64_t number, std::uint64_t writer) const;

  private:
    class Keeper;
    using Live = std::vector<std::weak_ptr<Snapshot>>;
    struct Story {   // of one writer
        std::deque<wire::Commit> commits;
        std::uint64_t last_number = 0;
        wire::Commits::Writer writer = wire::Commits::Writer::kWrites;
    };

    const std::shared_ptr<SnapshotAccount> account_;
    std::mutex opening_;   // one snapshot is made at a time

    mutable std::mutex mutex_;
    // Replaced as a whole, so that a write can read it without memory. Null means no snapshots.
    std::shared_ptr<const Live> live_;
    std::weak_ptr<Snapshot> newest_;   // of the last commit
    std::uint64_t generation_ = 0;     // number of commits, over all writers
    std::uint64_t given_up_ = 0;       // the file's counter, at the last commit
    std::uint64_t written_ = 0;        // bytes written, at the last commit
    std::uint64_t commits_ = 0;        // the file's commits, at the last commit
    std::uint64_t writers_ = 0;
    Story present_, previous_;
    std::set<io::Event*> followers_;
};

}   // namespace forebay::server
