#include "wire/remote_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/attempt.h"
#include "base/bytes.h"
#include "wire/frame_seal.h"

namespace forebay::wire {

RemoteFile::RemoteFile(Setup& setup)
    : file_(std::move(setup.file)),
      process_(::getpid()),
      in_team_(setup.team.id != 0),
      failover_(setup.server),
      replay_(!in_team_) {}

RemoteFile::~RemoteFile() = default;

Result<std::unique_ptr<RemoteFile>> RemoteFile::open(Setup& setup) {
    auto described = describe(*setup.file, Purpose::kWrite, setup.server.server);
    if (!described) return described.status();
    Open& message = described.value();
    message.empty = setup.empty;
    message.locked = setup.locked;
    message.team = setup.team;
    if (setup.team.id == 0) {
        const auto drawn = new_secret();
        if (!drawn) return drawn.status();
        message.writer = load_le<std::uint64_t>(drawn.value().data()) | 1;
    }
    std::unique_ptr<RemoteFile> remote(new RemoteFile(setup));
    const LockGuard lock(remote->mutex_);
    const Status opened = remote->connect(message, &setup.unanswered);
    if (!opened) {
        setup.file = std::move(remote->file_);
        return opened.with_context("staging server " + remote->failover_.server());
    }
    // For another server: it must not empty the file again, and this client has changed the file meanwhile.
    message.empty = false;
    message.continues = message.writer != 0;
    message.seen = {message.seen.born_ns, 0, 0, 0};
    remote->opened_ = std::move(message);
    return remote;
}

Status RemoteFile::connect(const Open& message, bool* unanswered) {
    auto session = failover_.connect(message, unanswered);
    if (!session) return session.status();
    if (requests_ == nullptr) size_ = session.value().opened.size;
    // Calls that hold the mutex receive the answers.
    const auto refused = [this](const Status& why) NO_THREAD_SAFETY_ANALYSIS { note_refused_write(why); };
    requests_ = std::make_unique<Requests>(std::move(session).value(), failover_.is_local(), refused);
    return Status::ok();
}

// Callers ask this before they lock: in a forked child, a thread that does not exist there may hold the mutex.
Status RemoteFile::of_this_process() const {
    if (process_ == ::getpid()) return Status::ok();
    return {
        Code::kUnsupported,
        fmt::format("{}: opened through a staging server before this process was forked; open it again here", name())};
}

Status RemoteFile::readable() { return place_ == Place::kGone ? failure_ : Status::ok(); }

Status RemoteFile::writable() {
    FOREBAY_TRY(readable());
    return std::exchange(deferred_, false) || place_ == Place::kCloseFailed ? failure_ : Status::ok();
}

Status RemoteFile::usable() {
    FOREBAY_TRY(readable());
    deferred_ = false;
    return failure_;
}

// The program assumes that the write succeeded, so the next call returns the failure.
void RemoteFile::note_refused_write(const Status& why) {
    if (!failure_) return;
    failure_ = copy_of(why, "a write failed");
    deferred_ = true;
}

// The lost server no longer has the file open. The file is at its last commit, and the writes since then follow. The
// recovery has removed the log, so from here on only this client has these writes.
Status RemoteFile::go_direct(const Status& why) {
    FOREBAY_TRY(failover_.recover_file(opened_.writer, why));
    place_ = Place::kDirect;
    return finish_replay();
}

Status RemoteFile::finish_replay() {
    if (place_ != Place::kDirect || replay_.empty()) return Status::ok();
    if (const Status applied = replay_.apply(*file_); !applied)
        return applied.with_context(fmt::format(
            "{}: staging server {} is lost, and the program now writes the file itself. The writes since the last "
            "flush are incomplete; the next call repeats them",
            name(), failover_.server()));
    replay_.commit();
    return Status::ok();
}

Status RemoteFile::fail_over(const Status& why) {
    if (!failure_) {
        place_ = Place::kGone;
        return failure_;
    }
    Status last = why, direct;
    if (replay_.complete()) {
        last = failover_.await_server([this]() NO_THREAD_SAFETY_ANALYSIS -> Status {
            opened_.locked = failover_.holds_lock();
            FOREBAY_TRY(connect(opened_));
            if (at_once_) FOREBAY_TRY(requests_->call(Type::kStepAside, {}, Type::kDone).status());
            return replay_.send(*requests_);
        });
        if (last) return Status::ok();
        if (last.code() == Code::kUnsupported && last.sys_errno() == ESTALE) return lose_to_another(last);
        direct = go_direct(last);
        if (place_ == Place::kDirect) return direct;
    }
    place_ = Place::kGone;
    const std::string& log = failover_.log();
    // Without an errno, which callers would attribute to the file.
    failure_ = {Code::kUnavailable,
                fmt::format("{}: the staging server {} does not answer any more ({}); what was written since the "
                            "last flush is lost{}, what was flushed is in {}: start the server again, or run "
                            "`forebay recover` there",
                            name(), failover_.server(), last.message(),
                            replay_.complete() || in_team_ ? "" : " (too much for another server to take over)",
                            log.empty() ? "the server's log" : log)};
    if (!direct) failure_ = failure_.with_context("it cannot be written without its server: " + direct.message());
    return failure_;
}

// The other program has the file from this program's last flush, and may have changed it.
Status RemoteFile::lose_to_another(const Status& why) {
    place_ = Place::kGone;
    failure_ = {
        Code::kUnavailable,
        fmt::format("{}: the staging server {} does not let this program write it any more ({}); the writes since the "
                    "last flush are lost: open the file again",
                    name(), failover_.server(), why.message())};
    return failure_;
}

Status RemoteFile::exchange(Type type, io::Bytes payload, bool* late) {
    for (;;) {
        FOREBAY_TRY(send_batch());
        if (place_ == Place::kDirect) return finish_replay();
        const Status answered = requests_->call(type, payload, Type::kDone, late).status();
        if (!requests_->lost()) return answered;
        FOREBAY_TRY(fail_over(answered));
    }
}

Status RemoteFile::ask(Type type) {
    FOREBAY_TRY(of_this_process());
    const LockGuard lock(mutex_);
    if (place_ == Place::kClosed || place_ == Place::kDirect) return finish_replay();
    FOREBAY_TRY(usable());
    return exchange(type, {});
}

Status RemoteFile::send_write(std::span<const Part> parts, io::Bytes bytes) {
    const Payload head = encode(parts);
    replay_.keep(Type::kWrite, head, bytes);
    const Status sent = requests_->write(parts, head, bytes);
    return requests_->lost() ? fail_over(sent) : sent;
}

Status RemoteFile::send_batch() {
    if (batch_.empty()) return Status::ok();
    const Status sent = send_write(batch_.parts(), batch_.bytes());
    batch_.clear();
    return sent;
}

Status RemoteFile::await_writes() {
    FOREBAY_TRY(send_batch());
    if (place_ != Place::kDirect) {
        const Status answered = requests_->await_writes();
        if (requests_->lost()) return fail_over(answered);
    }
    return writable();
}

Status RemoteFile::put(std::uint64_t offset, io::Bytes bytes, Class byte_class) {
    FOREBAY_TRY(of_this_process());
    const LockGuard lock(mutex_);
    if (place_ == Place::kClosed)
        return Status::from_errno(EBADF, "write to " + name() + ", which its staging server has closed");
    FOREBAY_TRY(writable());
    FOREBAY_TRY(put_locked(offset, bytes, byte_class));
    return at_once_ && place_ != Place::kDirect ? await_writes() : Status::ok();
}

Status RemoteFile::put_locked(std::uint64_t offset, io::Bytes bytes, Class byte_class) {
    FOREBAY_TRY(finish_replay());
    size_ = std::max(size_, offset + bytes.size());
    if (bytes.empty()) return Status::ok();
    const bool alone = bytes.size() >= kBatchedMax;
    if (place_ != Place::kDirect && (alone || !batch_.has_room_for(bytes.size()))) FOREBAY_TRY(send_batch());
    if (place_ != Place::kDirect && !alone) {
        batch_.add(offset, bytes, byte_class);
        return Status::ok();
    }
    // The last server may be lost during each request.
    while (!bytes.empty() && place_ != Place::kDirect) {
        const Part part{offset, static_cast<std::uint32_t>(std::min(bytes.size(), kDataMax)), byte_class};
        FOREBAY_TRY(send_write({&part, 1}, bytes.first(part.bytes)));
        offset += part.bytes;
        bytes = bytes.subspan(part.bytes);
    }
    return bytes.empty() ? Status::ok() : file_->write_at(offset, bytes);
}

Status RemoteFile::write_at(std::uint64_t offset, io::Bytes bytes) { return put(offset, bytes, Class::kRaw); }

Status RemoteFile::write_metadata_at(std::uint64_t offset, io::Bytes bytes) {
    return put(offset, bytes, Class::kMetadata);
}

Status RemoteFile::write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) {
    for (const io::Bytes& piece : pieces) {
        FOREBAY_TRY(put(offset, piece, Class::kRaw));
        offset += piece.size();
    }
    return Status::ok();
}

Status RemoteFile::end_call() {
    FOREBAY_TRY(of_this_process());
    const LockGuard lock(mutex_);
    if (!in_team_ || place_ == Place::kClosed) return Status::ok();
    return await_writes();
}

Status RemoteFile::resize(std::uint64_t size) {
    FOREBAY_TRY(of_this_process());
    const LockGuard lock(mutex_);
    if (place_ == Place::kClosed)
        return Status::from_errno(EBADF, "set the size of " + name() + ", which its staging server has closed");
    FOREBAY_TRY(writable());
    if (place_ != Place::kDirect) FOREBAY_TRY(send_batch());
    if (place_ == Place::kDirect) {
        FOREBAY_TRY(finish_replay());
        FOREBAY_TRY(file_->resize(size));
    } else {
        const Payload payload = encode_size(size);
        replay_.keep(Type::kTruncate, payload, {});
        const Status set = exchange(Type::kTruncate, payload);
        if (place_ == Place::kDirect) size_ = size;   // also after a failure: each later call has it set first
        FOREBAY_TRY(set);
    }
    size_ = size;
    return Status::ok();
}

Result<std::size_t> RemoteFile::read_at(std::uint64_t offset, io::MutableBytes into) {
    FOREBAY_TRY(of_this_process());
    const LockGuard lock(mutex_);
    FOREBAY_TRY(readable());
    FOREBAY_TRY(finish_replay());
    if (place_ == Place::kClosed || place_ == Place::kDirect) return file_->read_at(offset, into);
    // Other members of the team may have extended the file. Bytes behind its end read as zeros.
    const std::uint64_t left = in_team_ ? into.size() : offset < size_ ? size_ - offset : 0;
    const auto whole = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), left));
    for (std::size_t done = 0; done < whole;) {
        const std::size_t count = std::min(whole - done, kDataMax);
        FOREBAY_TRY(read_piece(offset + done, into.subspan(done, count)));
        if (place_ == Place::kDirect) return file_->read_at(offset, into);
        done += count;
    }
    return whole;
}

// Leaves `into` alone if the client reads the file itself from now on.
Status RemoteFile::read_piece(std::uint64_t offset, io::MutableBytes into) {
    for (;;) {
        FOREBAY_TRY(send_batch());
        if (place_ == Place::kDirect) return Status::ok();
        const Status done = requests_->read(offset, into);
        if (!requests_->lost()) return done;
        FOREBAY_TRY(fail_over(done));
    }
}

Result<std::uint64_t> RemoteFile::size() {
    FOREBAY_TRY(of_this_process());
    const LockGuard lock(mutex_);
    FOREBAY_TRY(readable());
    if (place_ == Place::kClosed) return file_->size();
    return size_;
}

Status RemoteFile::allocate(std::uint64_t, std::uint64_t) {
    return {Code::kUnsupported, name() + ": a staging server reserves no space"};
}
Status RemoteFile::punch(std::uint64_t, std::uint64_t) {
    return {Code::kUnsupported, name() + ": a staging server gives no space back"};
}
Result<std::unique_ptr<io::Mapping>> RemoteFile::map(std::uint64_t, std::size_t) {
    return Status(Code::kUnsupported, name() + ": what a staging server has cannot be mapped");
}

Status RemoteFile::sync() {
    FOREBAY_TRY(of_this_process());
    {
        const LockGuard lock(mutex_);
        FOREBAY_TRY(usable());
        FOREBAY_TRY(finish_replay());
        if (place_ == Place::kClosed || place_ == Place::kDirect) return file_->sync();
    }
    FOREBAY_TRY(ask(Type::kSync));
    const LockGuard lock(mutex_);
    return place_ == Place::kDirect ? file_->sync() : Status::ok();   // the server may have been lost meanwhile
}

Status RemoteFile::commit() {
    FOREBAY_TRY(of_this_process());
    const LockGuard lock(mutex_);
    if (place_ == Place::kClosed || place_ == Place::kDirect) return finish_replay();
    FOREBAY_TRY(usable());
    FOREBAY_TRY(exchange(Type::kCommit, {}));
    replay_.commit();
    return Status::ok();
}

Status RemoteFile::drain() { return ask(Type::kDrain); }

Status RemoteFile::step_aside() {
    FOREBAY_TRY(ask(Type::kStepAside));
    const LockGuard lock(mutex_);
    at_once_ = true;
    return Status::ok();
}

void RemoteFile::note_size(std::uint64_t size) noexcept {
    if (process_ != ::getpid()) return;
    const LockGuard lock(mutex_);
    size_ = size;
}

void RemoteFile::withhold(const Status& why) noexcept {
    if (process_ != ::getpid()) return;
    const LockGuard lock(mutex_);
    withheld_ = true;
    if (failure_) failure_ = copy_of(why, "a write failed");
}

// The connection stays: the server writes to the file under this process's lock, and finishes.
Status RemoteFile::leave_to_server(const Status& why) {
    place_ = Place::kGone;
    failure_ = {Code::kUnavailable,
                fmt::format("{}: the staging server {} has not closed it, and nothing has reached it for {} seconds; "
                            "the server goes on, and the file stays locked until this process ends",
                            name(), failover_.server(), requests_->socket().receiving_patience().count() / 1000),
                why.sys_errno()};
    return failure_;
}

// A withheld file ends without CLOSE, so the server drops the writes since the last commit.
Status RemoteFile::close() {
    if (process_ != ::getpid()) return Status::ok();
    const LockGuard lock(mutex_);
    if (place_ == Place::kClosed) return Status::ok();
    if (place_ == Place::kGone || withheld_) {
        place_ = Place::kGone;
        requests_->socket().shut_down();
        return failure_;
    }
    FOREBAY_TRY(finish_replay());
    bool late = false;
    const Status ended = place_ == Place::kDirect ? failure_ : exchange(Type::kClose, {}, &late);
    if (late) return leave_to_server(ended);
    if (place_ == Place::kDirect && !replay_.empty()) return ended;   // a later close may succeed
    if (failure_) failure_ = ended;
    if (!ended) {
        if (place_ == Place::kServer) place_ = Place::kCloseFailed;
        return ended;
    }
    place_ = Place::kClosed;
    requests_->socket().shut_down();
    return Status::ok();
}

}   // namespace forebay::wire
