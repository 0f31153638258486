// A file that a staging server stages for this process, behind the seam of io/file.h (docs/protocol.md). Small writes
// are gathered and sent in batches. A write returns before the server has answered (requests.h). Reads, commits and the
// close wait for the answers to all earlier writes. After a successful `close`, reads go to the file. If the connection
// is lost, the client continues with a server that restarts at the same address (failover.h). That server brings the
// file to its last commit, and the client sends the writes since then again (replay.h). If no server comes, the client
// brings the file to its last commit, makes these writes itself, and then writes the file itself. It continues in
// either way only if no other client has opened the file for writing since; else every later call fails. If one of
// these writes fails, the call fails, and the next call makes them all again first: no call sees the file without them.
// If the file cannot be brought to its last commit, every later call fails, because the lost server's log may have
// newer bytes than the file. A member of a team (docs/protocol.md, "Teams") waits at the end of each call until the
// server has all its writes. It reads through the server, because other members may have written the bytes. A team does
// not fail over. If the server refuses a write, the next call that is not a read returns the failure, and so do each
// later commit and the close. Other writes and all reads continue. After a failed close the connection stays, staged
// bytes can be read, and the server writes to the file only while the caller's lock covers it. Owns one connection.
// Thread-safety: as io::File; calls take turns. All calls block. A call fails if no byte reaches the file for the
// patience and half a minute, or if a server that restarts does not answer within the patience. In a forked child
// reads, writes and commits fail. No threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/mutex.h"
#include "io/forwarded_target.h"
#include "wire/failover.h"
#include "wire/replay.h"
#include "wire/requests.h"
#include "wire/write_batch.h"

namespace forebay::wire {

class RemoteFile final : public io::ForwardedTarget {
  public:
    struct Setup {
        Failover::Setup server;
        std::unique_ptr<io::File> file;   // the file itself, open for writing
        bool empty = false;
        bool locked = false;   // the client has the file locked, as HDF5 does
        Open::Team team{};     // the clients that write the file together, with this one
        // Output, after a failure: the server may still open the file, and empty it.
        bool unanswered = false;
    };
    // kUnsupported: the server cannot have bytes of this file, and does not stage it. EBUSY: another client writes it.
    // Other errors: it is unknown which bytes the server has. After a failure the caller keeps `file`.
    [[nodiscard]] static Result<std::unique_ptr<RemoteFile>> open(Setup& setup);
    ~RemoteFile() override;

    [[nodiscard]] const std::string& name() const noexcept override { return file_->name(); }
    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override;
    Status write_at(std::uint64_t offset, io::Bytes bytes) override;
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override;
    Result<io::Identity> identity() override { return file_->identity(); }
    Result<std::uint64_t> size() override;
    Result<io::FileState> state(Ask ask) override { return file_->state(ask); }
    Status resize(std::uint64_t size) override;
    Status allocate(std::uint64_t offset, std::uint64_t length) override;
    Status punch(std::uint64_t offset, std::uint64_t length) override;
    Result<std::unique_ptr<io::Mapping>> map(std::uint64_t offset, std::size_t length) override;
    Status sync() override;

    Status write_metadata_at(std::uint64_t offset, io::Bytes bytes) override;
    Status end_call() override;
    Status commit() override;
    Status drain() override;
    Status step_aside() override;
    void withhold(const Status& why) noexcept override;
    Status close() override;
    void note_size(std::uint64_t size) noexcept override;

  private:
    explicit RemoteFile(Setup& setup);
    [[nodiscard]] Status connect(const Open& message, bool* unanswered = nullptr) REQUIRES(mutex_);
    // Ok in the process that has opened the file; an error in its forked children.
    [[nodiscard]] Status of_this_process() const;
    // Ok if the file can be read.
    [[nodiscard]] Status readable() REQUIRES(mutex_);
    // Ok if the file can be written. After a refused write it fails once.
    [[nodiscard]] Status writable() REQUIRES(mutex_);
    // Ok if the file can be committed or closed. After a refused write it always fails.
    [[nodiscard]] Status usable() REQUIRES(mutex_);
    void note_refused_write(const Status& why) REQUIRES(mutex_);

    [[nodiscard]] Status put(std::uint64_t offset, io::Bytes bytes, Class byte_class);
    [[nodiscard]] Status put_locked(std::uint64_t offset, io::Bytes bytes, Class byte_class) REQUIRES(mutex_);
    [[nodiscard]] Status send_batch() REQUIRES(mutex_);
    [[nodiscard]] Status send_write(std::span<const Part> parts, io::Bytes bytes) REQUIRES(mutex_);
    [[nodiscard]] Status await_writes() REQUIRES(mutex_);
    [[nodiscard]] Status read_piece(std::uint64_t offset, io::MutableBytes into) REQUIRES(mutex_);
    // Sends the batch and a request, and awaits the answer. Does nothing in kDirect. `late`: see Requests::call.
    [[nodiscard]] Status exchange(Type type, io::Bytes payload, bool* late = nullptr) REQUIRES(mutex_);
    [[nodiscard]] Status ask(Type type);
    [[nodiscard]] Status leave_to_server(const Status& why) REQUIRES(mutex_);

    // Handles the loss of the connection because of `why`. On success another server has all bytes of the lost one, or
    // the client writes the file itself. Every later call returns an error of this function.
    [[nodiscard]] Status fail_over(const Status& why) REQUIRES(mutex_);
    [[nodiscard]] Status go_direct(const Status& why) REQUIRES(mutex_);
    [[nodiscard]] Status lose_to_another(const Status& why) REQUIRES(mutex_);
    // In kDirect: makes the kept writes in the file. Call this before each use of the file there.
    [[nodiscard]] Status finish_replay() REQUIRES(mutex_);

    std::unique_ptr<io::File> file_;   // set after a successful open
    const pid_t process_;
    const bool in_team_;

    Mutex mutex_;
    Failover failover_ GUARDED_BY(mutex_);
    std::unique_ptr<Requests> requests_ GUARDED_BY(mutex_);
    std::uint64_t size_ GUARDED_BY(mutex_) = 0;
    WriteBatch batch_ GUARDED_BY(mutex_);
    Replay replay_ GUARDED_BY(mutex_);
    Open opened_ GUARDED_BY(mutex_);             // for another server
    Status failure_ GUARDED_BY(mutex_);          // the first failure of a write, the close or the connection
    bool deferred_ GUARDED_BY(mutex_) = false;   // `failure_` is that of a write, and no call has returned it
    enum class Place {
        kServer,
        kDirect,        // no server has it: the client reads and writes the file itself, after `replay_`
        kClosed,        // the server has closed it: the client reads the file itself
        kCloseFailed,   // the server could not close it, and only serves reads
        kGone,          // the connection is lost, or the file withheld: every call fails
    };
    Place place_ GUARDED_BY(mutex_) = Place::kServer;
    bool withheld_ GUARDED_BY(mutex_) = false;
    bool at_once_ GUARDED_BY(mutex_) = false;   // the server has stepped aside: a write returns after its answer
};

}   // namespace forebay::wire
