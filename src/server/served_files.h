// The files that a staging server stages for its clients: one engine (stage/engine.h) for each.
//
// An engine of its own has a log of its own. So a client's death is to that log what the death of a program is: what
// was not committed is left behind, and recovery, which knows only logs of the dead, brings the file to its last
// commit.
//
// The end of a file's sessions. Nothing of it is in two states: the file ends (`Written::ends`) until no write of its
// engine to the target can still be in flight, however long that takes. Only then the engine ends, its log is one of
// the dead, recovery runs, and the file may be opened again. Until then who opens it waits for `patience`, and fails.
// While the server still has anything to write of a file whose client is gone, it has HDF5's lock of it (writers.h).
//
// One client writes a file at a time, or one team of clients does, each member in a session of its own. Others may read
// its last commit meanwhile, or follow its commits.
// Thread-safety: all calls from any thread. A ServedFile is shared by the sessions of a team; a ServedSnapshot is one
// session's.
// Blocking: as opening, draining and recovering the file do. `ServedFile::abandon` has no bound of its own; it blocks
// its session's thread, and no other file's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "io/socket.h"
#include "server/observers.h"
#include "server/writers.h"
#include "stage/engine.h"
#include "wire/frame.h"

namespace forebay::server {

class ServedFiles;

// Each session of it calls `close` once, and then, unless that was ok, or instead, `abandon`; else its destruction
// abandons it.
class ServedFile {
  public:
    ~ServedFile();
    ServedFile(const ServedFile&) = delete;
    ServedFile& operator=(const ServedFile&) = delete;

    [[nodiscard]] stage::StagedFile& file() noexcept { return *file_; }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] Writers& writers() noexcept { return *writers_; }
    // Why nothing more is taken: a session has ended without a close.
    [[nodiscard]] Status incomplete() const;
    // Why nothing is committed any more: that, or the first failure of a write. The client may not know yet of a write
    // that has failed, so no commit counts it in.
    [[nodiscard]] Status failure() const;
    void fail(const Status& why) noexcept;
    // Where its log is: for a client that outlives this server.
    [[nodiscard]] std::string log_directory() const;
    // Makes everything written before one state.
    [[nodiscard]] Status commit();
    // The last session commits and drains; it does nothing for others. After a failure everything stays as it is, and
    // what is staged can still be read, until `abandon`. After a failed write it does all it can, and fails.
    [[nodiscard]] Status close();
    // `close` has failed, and the client knows: the file is its client's until that ends. Who wants it is told.
    void mark_failed() noexcept;
    // The client is gone, or its close has failed: nothing more is taken, and once the last session has ended, and no
    // write of it is in flight, the file is brought to its last commit. A text for the server's log.
    [[nodiscard]] Result<std::string> abandon();

  private:
    friend class ServedFiles;
    ServedFile(ServedFiles& files, io::Identity identity, std::string path) noexcept;
    // False: other sessions have it still. Else nobody joins any more.
    [[nodiscard]] bool end_session() noexcept;
    // To the last commit.
    [[nodiscard]] Result<std::string> bring_back();
    // No thread of the engine writes any more, and what it has left is left by a process that has ended.
    void end_engine() noexcept;
    void leave() noexcept;

    ServedFiles& files_;
    const io::Identity identity_;
    const std::string path_;
    std::shared_ptr<io::Descriptor> descriptor_;
    std::shared_ptr<Writers> writers_;
    std::unique_ptr<stage::Engine> engine_;
    std::shared_ptr<stage::StagedFile> file_;
    std::shared_ptr<Observers> observers_;
    bool ended_ = false;      // no session has it any more, or one whose close has failed
    bool detached_ = false;   // the engine has tried to close it
    mutable std::mutex failing_;
    Status failure_, incomplete_;
};

// A commit that a session reads.
class ServedSnapshot {
  public:
    ServedSnapshot(std::shared_ptr<Observers> observers, std::shared_ptr<Snapshot> snapshot,
                   std::unique_ptr<io::File> target) noexcept
        : observers_(std::move(observers)), target_(std::move(target)), snapshot_(std::move(snapshot)) {}
    [[nodiscard]] std::uint64_t size() const noexcept { return snapshot_->size(); }
    [[nodiscard]] Status read(std::uint64_t offset, io::MutableBytes into) {
        return snapshot_->read(*target_, offset, into);
    }

  private:
    const std::shared_ptr<Observers> observers_;   // so that whoever writes the file next knows of it
    const std::unique_ptr<io::File> target_;       // keeps its number from going to another file
    const std::shared_ptr<Snapshot> snapshot_;
};

class ServedFiles {
  public:
    // `options`: those of the engine of each file that one client writes; a team has so many times its `size`. At most
    // `clients_max` clients write at a time.
    // `reach`: for tests, wraps each file that clients write; null: does not. `clock`: measures waits for a file that
    // another client has open.
    using Reach = std::function<std::unique_ptr<io::File>(std::unique_ptr<io::File> file)>;
    ServedFiles(LoadedOptions options, std::size_t clients_max, Reach reach = nullptr,
                std::shared_ptr<WaitClock> clock = std::make_shared<WaitClock>())
        : options_(std::move(options)), clients_max_(clients_max), reach_(std::move(reach)), clock_(std::move(clock)) {}

    // A client on another machine has named the file: its device has another number here. kUnsupported: the server
    // finds another file under that name, or none. kUnavailable: it cannot be told whether it is the same one.
    [[nodiscard]] Status recognise(wire::Open& request);
    // kUnsupported: this server has no bytes of the file. EBUSY: another client writes it, or what one wrote is not all
    // at its end. `client`: the session that opens it, which outlives the file, and may have passed the descriptor
    // by which the client has the file locked. If the client does not wait for it any more, it is neither opened nor
    // emptied.
    [[nodiscard]] Result<std::shared_ptr<ServedFile>> open(const wire::Open& request, wire::Connection& client);
    // The last commit of a file that a client writes; the same one for all members of a team. kUnsupported: none does.
    // kUnavailable: it cannot be read.
    [[nodiscard]] Result<std::unique_ptr<ServedSnapshot>> open_to_read(const wire::Open& request);
    [[nodiscard]] Result<std::shared_ptr<Observers>> open_to_follow(const wire::Open& request);
    // Until no file is written but those whose close has failed; from then on none is opened for writing. Blocks as
    // long as clients like.
    void await_writers() noexcept;

  private:
    friend class ServedFile;
    // A file that sessions have open for writing.
    struct Written {
        wire::Open::Team team{};
        std::size_t sessions = 1;
        std::size_t clients = 0;                   // of those that may write at a time
        std::weak_ptr<ServedFile> served;          // for members of the team; null: none can join it yet
        bool ends = false;                         // it is about to be closed or abandoned, or will have to be
        bool failed = false;                       // its close has; until its client ends it is read
        std::shared_ptr<stage::StagedFile> file;   // null: nobody can read it yet, or any more
        std::shared_ptr<Observers> observers;
        std::size_t copying = 0;   // readers that are taking a snapshot: the end waits for them
    };
    struct TeamSnapshot {
        io::Identity identity;
        std::shared_ptr<Observers> observers;
        std::weak_ptr<Snapshot> snapshot;
    };
    [[nodiscard]] Result<std::shared_ptr<ServedFile>> join(const wire::Open& request);
    // False: there is no room for one more client; the file is entered all the same.
    [[nodiscard]] Result<bool> enter(const wire::Open& request);
    [[nodiscard]] std::size_t clients() const;
    // Waits until no client writes it, or its writer can be read, or has failed. False: that takes too long.
    [[nodiscard]] bool await_settled(std::unique_lock<std::mutex>& lock, const io::Identity& identity);
    // How long who opens a file waits for the end of its former sessions: option patience.
    template <class Over>
    [[nodiscard]] bool wait_with_patience(std::unique_lock<std::mutex>& lock, Over over);
    // Waits for `over`. False: not within `at_most`.
    template <class Over>
    [[nodiscard]] bool wait_at_most(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds at_most, Over over);
    [[nodiscard]] LoadedOptions options_of(const wire::Open::Team& team) const;
    [[nodiscard]] Status attach(ServedFile& served, const wire::Open& request, wire::Connection& client);
    // Brings home what an earlier session has left of a file that no client writes.
    [[nodiscard]] Status recover_file_late(const wire::Open& request);
    void forget_unrecovered(const io::Identity& identity) noexcept;
    [[nodiscard]] Status nobody_writes(const wire::Open& request, std::unique_lock<std::mutex>& lock);
    [[nodiscard]] static Status recover_file(ServedFile& served, const wire::Open& request, stage::Engine& engine);
    [[nodiscard]] std::shared_ptr<Observers> observers_of(const wire::Open& request);
    [[nodiscard]] Result<std::unique_ptr<io::File>> make_store();

    const LoadedOptions options_;
    const std::size_t clients_max_;
    const Reach reach_;
    const std::shared_ptr<WaitClock> clock_;
    mutable std::mutex mutex_;
    std::condition_variable left_;   // a session, or a reader that was copying; or a close has failed
    std::map<io::Identity, Written> open_;
    std::set<io::Identity> unrecovered_;   // what was staged of these may still be in a log only
    std::map<io::Identity, std::weak_ptr<Observers>> observers_;
    std::map<std::uint64_t, TeamSnapshot> team_snapshots_;   // by the team's id
    std::uint64_t stores_ = 0;
    bool ends_ = false;   // nothing is opened for writing any more
};

}   // namespace forebay::server
