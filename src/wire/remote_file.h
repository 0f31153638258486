// A file that a staging server stages for this process, behind the seam of io/file.h (docs/protocol.md).
//
// Writes are gathered, and sent in batches that the server's credits bound. What has been sent is not waited for, until
// a read, a commit or a close needs to know. A failure of a write is reported by the next call. After `close` has
// succeeded the file itself is read.
//
// When the connection is lost, the file goes on with a server that is started again at the same address within
// `patience`: that one brings the file to its last commit, and is sent everything since once more. If none comes,
// `bring_home` brings the file there, and it is written without a server from then on. What is kept for either is
// bounded (kReplayMax), and dropped if there is more. Then, and when the file cannot be brought home, every later call
// fails: the log of the lost server may have newer bytes than the file.
//
// A member of a team (docs/protocol.md, "Teams") waits at the end of each call until the server has all that was
// written, and asks it for whatever it reads: others may have written that. Its server is not replaced: when the
// connection is lost, each later call fails.
//
// A write that the server could not take is told by the next call that is no read, and by each later commit and close.
// Other writes go on, and so do reads, as long as the connection stands. A close that has failed leaves the connection:
// what is staged is still read, and the server writes nothing of it that the caller's lock of the file does not cover.
//
// Ownership: one connection, closed with this. Thread-safety: as io::File; calls take turns. Blocking: all calls; none
// waits for an answer once nothing has reached the file for `patience` and half a minute, nor longer than `patience`
// for a server that is started again. In a forked child every call fails. No threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "io/file.h"
#include "io/forwarded_target.h"
#include "io/socket.h"
#include "wire/client_session.h"
#include "wire/connection.h"
#include "wire/exposed_memory.h"

namespace forebay::wire {

// Of what was written since the last commit so much is kept, to be sent to another server.
inline constexpr std::size_t kReplayMax = std::size_t{32} << 20;

class RemoteFile final : public io::File, public io::ForwardedTarget {
  public:
    struct Setup {
        io::Address server;
        std::unique_ptr<io::File> file;   // the file itself, open for writing
        bool empty = false;               // it is to be emptied
        bool locked = false;              // as HDF5 locks it
        std::uint64_t patience_s = 600;   // 0: without end
        Open::Team team{};                // of clients that write it together, this one among them
        // Whether the directory `log` of a server that lives is seen here as what it is. None: it never is.
        std::function<bool(const std::string& log)> sees = {};
        // Brings the file to its last commit from what a server that has died has left in `log`, which was seen. An
        // error: that server may live, or its log cannot be used. `why`: the file is written without a server then.
        std::function<Status(const std::string& log, const Status& why)> bring_home = {};
        // Whether such a server has left `log`, and nobody has brought home what is in it.
        std::function<bool(const std::string& log)> left = {};
        std::weak_ptr<io::Descriptor> lock{};   // through which the file is locked, or will be
        bool unanswered = false;                // after a failure: the server may still open the file, and empty it
    };
    // kUnsupported: the server cannot have bytes of this file, and does not stage it. EBUSY: another client writes it.
    // Other errors: nobody knows what the server has of it. `file` stays the caller's after a failure.
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
    [[nodiscard]] io::ForwardedTarget* forwarded() noexcept override { return this; }

    Status write_metadata_at(std::uint64_t offset, io::Bytes bytes) override;
    Status end_call() override;
    Status commit() override;
    Status drain() override;
    Status step_aside() override;
    void withhold(const Status& why) noexcept override;
    Status close() override;

  private:
    explicit RemoteFile(Setup& setup);
    [[nodiscard]] Status open_at_server(const Open& message, bool* unanswered = nullptr) REQUIRES(mutex_);
    // Reads go on after a failed write; a commit or a close does not.
    [[nodiscard]] Status readable() REQUIRES(mutex_);
    [[nodiscard]] Status writable() REQUIRES(mutex_);
    [[nodiscard]] Status usable() REQUIRES(mutex_);
    void note_failed_write(const Status& why) REQUIRES(mutex_);
    [[nodiscard]] Status leave_to_server(const Status& why) REQUIRES(mutex_);
    [[nodiscard]] Status put(std::uint64_t offset, io::Bytes bytes, Class byte_class);
    [[nodiscard]] Status put_locked(std::uint64_t offset, io::Bytes bytes, Class byte_class) REQUIRES(mutex_);
    [[nodiscard]] Status send_batch() REQUIRES(mutex_);
    [[nodiscard]] Status send_write(std::span<const Part> parts, io::Bytes bytes) REQUIRES(mutex_);
    [[nodiscard]] Status await_credit(std::size_t bytes) REQUIRES(mutex_);
    [[nodiscard]] Status await_answers() REQUIRES(mutex_);
    [[nodiscard]] Status receive_answer() REQUIRES(mutex_);
    // Sends what is gathered, then a request, and receives all answers up to that of the request.
    [[nodiscard]] Result<Connection::Frame> exchange(Type type, io::Bytes payload, Type answer) REQUIRES(mutex_);
    [[nodiscard]] Status ask(Type type);
    [[nodiscard]] Result<Connection::Frame> exchange_once(Type type, io::Bytes payload, Type answer) REQUIRES(mutex_);
    [[nodiscard]] Result<Connection::Frame> await_answer(Type answer) REQUIRES(mutex_);
    [[nodiscard]] Status transmit(io::Bytes head, io::Bytes bytes) REQUIRES(mutex_);
    [[nodiscard]] Status transmit_exposed(std::span<const Part> parts, io::Bytes bytes) REQUIRES(mutex_);
    // So many bytes are to be sent or read. On return there is memory that the server uses too, if that is worth it.
    [[nodiscard]] Status expose_for(std::size_t bytes) REQUIRES(mutex_);
    [[nodiscard]] bool is_exposed(std::size_t bytes) const REQUIRES(mutex_) {
        return exposed_ != nullptr && bytes >= kExposedMin;
    }
    [[nodiscard]] Status read_piece(std::uint64_t offset, io::MutableBytes into) REQUIRES(mutex_);
    Status lose(const Status& why) REQUIRES(mutex_);
    // The connection is lost: from now on another one serves, which has all that this one had, or the file is written
    // itself (`direct_`). Or the failure for ever.
    [[nodiscard]] Status resume(const Status& why) REQUIRES(mutex_);
    [[nodiscard]] Status await_server(Status why) REQUIRES(mutex_);
    [[nodiscard]] bool may_go_direct() const REQUIRES(mutex_) { return log_seen_ && bring_home_; }
    [[nodiscard]] Status go_direct(const Status& why) REQUIRES(mutex_);
    [[nodiscard]] Status send_again() REQUIRES(mutex_);
    void keep(Type type, io::Bytes head, io::Bytes bytes) REQUIRES(mutex_);
    void forget_kept() noexcept REQUIRES(mutex_);

    std::unique_ptr<io::File> file_;   // never changed once it is open
    const io::Address address_;
    const std::string server_;
    const std::uint64_t patience_s_;
    const pid_t process_;
    const bool in_team_;
    const std::function<bool(const std::string& log)> sees_;
    const std::function<Status(const std::string& log, const Status& why)> bring_home_;
    const std::function<bool(const std::string& log)> left_;
    const std::weak_ptr<io::Descriptor> lock_;

    Mutex mutex_;
    std::string log_ GUARDED_BY(mutex_);   // of the server
    bool log_seen_ GUARDED_BY(mutex_) = false;
    std::unique_ptr<Connection> connection_ GUARDED_BY(mutex_);
    std::uint64_t requests_ GUARDED_BY(mutex_) = 0;   // id of the last one
    std::uint64_t size_ GUARDED_BY(mutex_) = 0;
    std::vector<Part> parts_ GUARDED_BY(mutex_);   // gathered, and not sent yet
    std::vector<std::byte> bytes_ GUARDED_BY(mutex_);
    struct Unanswered {
        std::uint32_t bytes;
        bool exposed;   // it has a place in `exposed_`
    };
    std::vector<Unanswered> unanswered_ GUARDED_BY(mutex_);   // each WRITE sent, oldest first
    std::uint64_t unanswered_bytes_ GUARDED_BY(mutex_) = 0;
    std::uint64_t answered_ GUARDED_BY(mutex_) = 0;   // id of the last answer
    Welcome credits_ GUARDED_BY(mutex_);
    std::unique_ptr<ExposedMemory> exposed_ GUARDED_BY(mutex_);   // null: none
    bool may_expose_ GUARDED_BY(mutex_) = false;
    std::uint64_t unexposed_bytes_ GUARDED_BY(mutex_) = 0;   // went through the connection
    Status failure_ GUARDED_BY(mutex_);        // the first one of a write or a close, or of the connection
    bool untold_ GUARDED_BY(mutex_) = false;   // that of a write, and no call has returned it
    bool gone_ GUARDED_BY(mutex_) = false;     // nothing can be asked any more
    bool withheld_ GUARDED_BY(mutex_) = false, closing_ GUARDED_BY(mutex_) = false;
    bool close_failed_ GUARDED_BY(mutex_) = false;   // what is staged can be read, and nothing more
    Open opened_ GUARDED_BY(mutex_);
    // All since the last commit, or nothing if that is too much.
    struct Kept {
        Type type;
        Payload payload;
    };
    std::vector<Kept> kept_ GUARDED_BY(mutex_);
    std::size_t kept_bytes_ GUARDED_BY(mutex_) = 0;
    bool keeps_all_ GUARDED_BY(mutex_);
    bool lost_ GUARDED_BY(mutex_) = false, closed_ GUARDED_BY(mutex_) = false;
    bool direct_ GUARDED_BY(mutex_) = false;    // the file itself is written: no server is left
    bool at_once_ GUARDED_BY(mutex_) = false;   // the server has stepped aside: a write returns once it is answered
};

}   // namespace forebay::wire
