// A file that this process stages itself, and that a staging server writes (option server_mode=drain; docs/protocol.md,
// "Draining"). A write returns once the bytes are in the file.
//
// Writes of several threads are in flight at a time, each in a session of its own, which is opened when it is first
// needed. A session carries out one write at a time.
//
// What is read, and sizes: of the file itself if the server is on this machine, for both see the same memory. Of a
// server elsewhere the file is read through it once this process has written, or from the start if others write the
// file through it, too: a file system need not be coherent between machines.
//
// A session that is lost: what it had under way is written again, the same bytes to the same places, in a new session
// at the same address. The server opens that one only once the lost one has ended, so nothing older comes later. If
// nobody listens there any more, or the server does not take the file, it is written without one from then on, once the
// server's mark on the file is gone (io/served_lock.h). While neither is so, for `patience` at most, it tries again;
// then the write fails as that of a file does.
//
// Ownership: its sessions, closed with this. Thread-safety: as io::File. Blocking: all calls that write, and those that
// ask a server elsewhere. In a forked child the file itself is read and written. No threads.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "io/forwarding_file.h"
#include "io/socket.h"
#include "wire/client_session.h"
#include "wire/connection.h"

namespace forebay::wire {

class DrainFile final : public io::ForwardingFile {
  public:
    struct Setup {
        io::Address server;
        std::uint32_t number = 0;         // of this server, of those that the file is spread over (io/served_lock.h)
        bool locked = false;              // as HDF5 locks it
        bool shared = false;              // other processes of the program write it through the server, too
        std::size_t sessions_max = 1;     // at most kDrainSessionsMax
        std::uint64_t patience_s = 600;   // 0: without end
        // Until no server of this number has the file marked; not longer than a few seconds. Null: nothing is waited
        // for.
        std::function<Status()> await_unserved = {};
        // Once: the file is written without the server from now on.
        std::function<void(const Status& why)> gone = {};
    };
    // `file`: the file itself, open for writing; it stays the caller's after a failure. `at_once`: a session is opened
    // now, and refused as the server refuses it; otherwise the first write opens one. kUnsupported: the server cannot
    // have bytes of the file, and does not write it. kNotFound: nobody listens. EBUSY: a client forwards it.
    [[nodiscard]] static Result<std::unique_ptr<DrainFile>> open(Setup setup, std::unique_ptr<io::File>& file,
                                                                 bool at_once);
    ~DrainFile() override;

    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override;
    Status write_at(std::uint64_t offset, io::Bytes bytes) override;
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override;
    io::FileTraits traits() override;
    Result<std::uint64_t> size() override;
    Status resize(std::uint64_t size) override;
    Status allocate(std::uint64_t offset, std::uint64_t length) override;
    Status punch(std::uint64_t offset, std::uint64_t length) override;
    Result<std::unique_ptr<io::Mapping>> map(std::uint64_t offset, std::size_t length) override;
    Status sync() override;
    void count_served(std::atomic<std::uint64_t>& counter) noexcept override { served_ = &counter; }
    Status leave() override;
    // What it asks the server about itself is asked of the file: the server is on this machine.
    [[nodiscard]] bool is_local() const noexcept { return setup_.server.is_local(); }
    // Another one of the same file has set its size.
    void note_size(std::uint64_t size) noexcept { size_ = size; }

  private:
    struct Session {
        std::unique_ptr<Connection> connection;
        std::uint32_t number = 0;   // of OPEN: lower ones are lost
        std::uint64_t requests = 2;
        bool lost = false;
    };
    using Act = std::function<Status(Session&)>;

    DrainFile(Setup setup, std::unique_ptr<io::File>& file, Open message);
    // Carries `act` out in a session, in another one if that is lost. False: it is to be done without the server.
    [[nodiscard]] Result<bool> through(const Act& act);
    // Null: without the server. Blocks while all sessions are in use.
    [[nodiscard]] Result<std::unique_ptr<Session>> take();
    [[nodiscard]] static Result<std::unique_ptr<Session>> open_session_of(const Setup& setup, Open message,
                                                                          std::uint32_t number);
    // Whether the file is written without the server from now on. Not under the lock.
    [[nodiscard]] bool may_do_without(const Status& why, bool ever);
    void give_back(std::unique_ptr<Session> session) noexcept;
    void lose(std::unique_ptr<Session> session) noexcept;
    void drop_idle() noexcept;
    [[nodiscard]] bool reads_through() const noexcept;
    [[nodiscard]] bool inherited() const noexcept { return process_ != ::getpid(); }
    [[nodiscard]] Status refuse_inherited() const;
    [[nodiscard]] Status given_up(const Status& why) const;
    // A request and its answer. What the server refuses comes as it says; else the session is lost.
    [[nodiscard]] static Result<Connection::Frame> exchange(Session& session, Type type, io::Bytes payload, Type answer,
                                                            io::MutableBytes into = {});
    // One that is answered by DONE. False: it is to be done without the server.
    [[nodiscard]] Result<bool> ask(Type type, io::Bytes payload);
    [[nodiscard]] Status write_group(std::uint64_t offset, io::Bytes bytes);
    [[nodiscard]] Result<std::size_t> read_some(std::uint64_t offset, io::MutableBytes into);
    void reaches(std::uint64_t end) noexcept;
    [[nodiscard]] Status note_writing();

    const Setup setup_;
    const std::string server_;
    const pid_t process_;
    std::atomic<std::uint64_t>* served_ = nullptr;
    std::atomic<bool> wrote_{false};
    std::atomic<std::uint64_t> size_{0};   // as far as this process knows

    std::mutex mutex_;
    std::condition_variable changed_;
    // The rest is guarded by mutex_.
    std::vector<std::unique_ptr<Session>> idle_;
    std::size_t sessions_ = 0;   // idle, in use, and being opened
    std::size_t sessions_max_;   // fewer than asked for, if the server has refused more
    std::uint32_t number_ = 1;   // of the sessions that are opened now
    bool ever_ = false;          // a session was opened
    bool gave_up_ = false;       // patience has ended once, and nothing has succeeded since
    Open message_;
    std::atomic<bool> direct_{false};   // set under the lock
};

}   // namespace forebay::wire
