// The files that a staging server stages for its clients: one engine (stage/engine.h), and so one log, for each. A
// client's death is for that log the death of a program. Uncommitted writes stay behind, and recovery, which handles
// only logs of dead processes, brings the file to its last commit.
// A file's sessions end in one order. The file ends (`Written::ends`) until no write of its engine to the target can be
// in flight, however long that takes. Then the engine ends, its log becomes one of a dead process, recovery runs, and
// the file may be opened again. Until then an open waits for `patience`, and fails. While the server still has bytes to
// write of a file whose clients are gone, it holds HDF5's lock of the file (writers.h). If another process has that,
// the bytes stay in the log. At any time one client writes a file, or one team of clients, each in a session of its
// own. Others may read its last commit meanwhile, or follow its commits. Thread-safety: all calls from any thread. The
// sessions of a team share a ServedFile; a ServedSnapshot belongs to one session. Blocking: as opening, draining and
// recovering the file do. `ServedFile::abandon` has no bound; it blocks its session's thread, and no other file's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "io/socket.h"
#include "server/last_writers.h"
#include "server/observers.h"
#include "server/writers.h"
#include "stage/engine.h"
#include "wire/frame.h"

namespace forebay::server {

class ServedFiles;

// Tells the server's operator a line. Any thread may call it.
using Report = std::function<void(const std::string& line)>;

// Each session calls `close` once, and after its failure or instead `abandon`. Else the destructor abandons.
class ServedFile {
  public:
    ~ServedFile();
    ServedFile(const ServedFile&) = delete;
    ServedFile& operator=(const ServedFile&) = delete;

    [[nodiscard]] stage::StagedFile& file() noexcept { return *file_; }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] Writers& writers() noexcept { return *writers_; }
    // Returns the reason for which the file takes no more writes: a session has ended without a close.
    [[nodiscard]] Status incomplete() const;
    // Returns the reason for no more commits: the same, or the first failed write, maybe unknown to the client.
    [[nodiscard]] Status failure() const;
    void fail(const Status& why) noexcept;
    // Returns the directory of its log, for a client that outlives this server.
    [[nodiscard]] std::string log_directory() const;
    [[nodiscard]] Status commit();
    // The last session commits and drains; earlier ones do nothing. After a failure everything stays unchanged, and
    // staged bytes can be read until `abandon`. After a failed write it does as much as it can, and fails.
    [[nodiscard]] Status close();
    // Notes that `close` has failed and the client knows: it keeps the file until it ends. Others learn that.
    void mark_failed() noexcept;
    // Ends a session whose client is gone, or whose close has failed. The file takes no more writes. After the last
    // session's end, and the end of all writes in flight, it is brought to its last commit. Returns a line to log.
    [[nodiscard]] Result<std::string> abandon();

  private:
    friend class ServedFiles;
    ServedFile(ServedFiles& files, io::Identity identity, std::string path) noexcept;
    // Returns false if other sessions still have the file. Otherwise no session can join it any more.
    [[nodiscard]] bool end_session() noexcept;
    [[nodiscard]] Result<std::string> bring_back();
    // Ends the engine: no thread of it writes any more, and its log becomes that of a dead process.
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
    std::optional<std::uint64_t> noted_;   // the number of its client, once `files_` has noted that as the last writer
    bool entered_ = false;                 // `files_` has an entry of it
    bool ended_ = true;                    // no session has it (yet), or only one whose close has failed
    bool detached_ = false;                // the engine has tried to close it
    mutable std::mutex failing_;
    Status failure_, incomplete_;
};

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
    const std::shared_ptr<Observers> observers_;   // the file's next writer must know of it
    const std::unique_ptr<io::File> target_;       // keeps the inode number from being reused
    const std::shared_ptr<Snapshot> snapshot_;
};

class ServedFiles {
  public:
    // `options`: of each file's engine; a team has `size` for each member. At most `clients_max` clients write at a
    // time. `report` takes lines for the server's operator. Staged bytes of the files `unrecovered` may still be only
    // in a log. `reach` (or null) wraps each file that is written or read, for tests. `clock` measures waits for files
    // of other clients.
    using Reach = std::function<std::unique_ptr<io::File>(std::unique_ptr<io::File> file)>;
    ServedFiles(LoadedOptions options, std::size_t clients_max, Report report, std::set<io::Identity> unrecovered,
                Reach reach, std::shared_ptr<WaitClock> clock)
        : options_(std::move(options)),
          clients_max_(clients_max),
          report_(std::move(report)),
          reach_(std::move(reach)),
          clock_(std::move(clock)),
          unrecovered_(std::move(unrecovered)) {}

    // Translates a client's name of a file from another machine; its device has another number here. kUnsupported: the
    // server finds another file under that name, or none. kUnavailable: it is unknown whether the file is the same one.
    [[nodiscard]] Status recognise(wire::Open& request);
    // kUnsupported: this server has no bytes of the file. EBUSY: another client writes it, or a former client's bytes
    // have not all arrived. A client that continues: also LastWriters::may_continue. `client`, the session of the open,
    // outlives the file, and may have passed the descriptor by which the client has it locked. If the client stops
    // waiting, the file is neither opened nor emptied.
    [[nodiscard]] Result<std::shared_ptr<ServedFile>> open(const wire::Open& request, wire::Connection& client);
    // Opens the last commit of a file that a client writes; all members of a team get the same one. kUnsupported: no
    // client writes it. kUnavailable: it cannot be read.
    [[nodiscard]] Result<std::unique_ptr<ServedSnapshot>> open_to_read(const wire::Open& request);
    [[nodiscard]] Result<std::shared_ptr<Observers>> open_to_follow(const wire::Open& request);
    // Refuses later opens for writing, and waits without bound until only files with a failed close are open.
    void await_writers() noexcept;
    // Returns the files whose staged bytes may still be only in a log of a process that has ended.
    [[nodiscard]] std::set<io::Identity> unrecovered() const;

  private:
    friend class ServedFile;
    struct Written {
        wire::Open::Team team{};
        std::size_t sessions = 1;
        std::size_t clients = 0;                   // counted towards clients_max
        std::weak_ptr<ServedFile> served;          // for members of the team; null: no member can join yet
        bool ends = false;                         // it is about to be closed or abandoned, or must be
        bool failed = false;                       // its close has failed; it is readable until its client ends
        std::shared_ptr<stage::StagedFile> file;   // null: not readable
        std::shared_ptr<Observers> observers;
        std::size_t copying = 0;   // readers that are taking a snapshot; the end waits for them
    };
    struct TeamSnapshot {
        io::Identity identity;
        std::shared_ptr<Observers> observers;
        std::weak_ptr<Snapshot> snapshot;
    };
    [[nodiscard]] Result<std::shared_ptr<ServedFile>> join(const wire::Open& request);
    // Returns false if there is no room for one more client. The file is entered in both cases.
    [[nodiscard]] Result<bool> enter(const wire::Open& request);
    [[nodiscard]] std::size_t clients() const;
    // Waits until the file has no writer, its writer can be read, or its close has failed. False: timeout or failure.
    [[nodiscard]] bool await_settled(std::unique_lock<std::mutex>& lock, const io::Identity& identity);
    template <class Over>
    [[nodiscard]] bool wait_with_patience(std::unique_lock<std::mutex>& lock, Over over);
    template <class Over>
    [[nodiscard]] bool wait_at_most(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds at_most, Over over);
    [[nodiscard]] LoadedOptions options_of(const wire::Open::Team& team) const;
    [[nodiscard]] Status attach(ServedFile& served, const wire::Open& request, wire::Connection& client);
    // Recovers the bytes of an earlier session, for a file that no client writes.
    [[nodiscard]] Status recover_file_late(const wire::Open& request);
    void forget_unrecovered(const io::Identity& identity) noexcept;
    [[nodiscard]] Status nobody_writes(const wire::Open& request, std::unique_lock<std::mutex>& lock);
    // Returns kUnsupported with EUSERS and `why`: the file is recovered, and the client may write it without the
    // server. From here on no earlier client of the file may continue.
    [[nodiscard]] Status leave_to_client(ServedFile& served, const wire::Open& request, const std::string& why);
    [[nodiscard]] Status recover_file(ServedFile& served, const wire::Open& request, stage::Engine& engine);
    [[nodiscard]] std::shared_ptr<Observers> observers_of(const wire::Open& request);
    [[nodiscard]] Result<std::unique_ptr<io::File>> make_store();

    const LoadedOptions options_;
    const std::size_t clients_max_;
    const Report report_;
    const Reach reach_;
    const std::shared_ptr<WaitClock> clock_;
    LastWriters last_writers_{options_, *clock_};
    mutable std::mutex mutex_;
    std::condition_variable left_;   // signalled when a session or a copying reader leaves, or a close fails
    std::map<io::Identity, Written> open_;
    std::set<io::Identity> unrecovered_;   // staged bytes of these may still be only in a log
    std::map<io::Identity, std::weak_ptr<Observers>> observers_;
    std::map<std::uint64_t, TeamSnapshot> team_snapshots_;   // by the team's id
    std::uint64_t stores_ = 0;
    bool ends_ = false;   // no file is opened for writing any more
};

}   // namespace forebay::server
