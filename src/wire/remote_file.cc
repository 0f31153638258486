#include "wire/remote_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "base/attempt.h"

namespace forebay::wire {

namespace {

// Small writes travel together in frames of about so many bytes; larger ones are sent as they are.
constexpr std::size_t kBatchBytes = 256 * 1024, kStraightBytes = 64 * 1024;

}   // namespace

RemoteFile::RemoteFile(Setup& setup)
    : file_(std::move(setup.file)),
      address_(setup.server),
      server_(io::format_address(setup.server)),
      patience_s_(setup.patience_s),
      process_(::getpid()),
      in_team_(setup.team.id != 0),
      sees_(setup.sees),
      bring_home_(setup.bring_home),
      left_(setup.left),
      lock_(setup.lock),
      keeps_all_(!in_team_) {}

RemoteFile::~RemoteFile() = default;

Result<std::unique_ptr<RemoteFile>> RemoteFile::open(Setup& setup) {
    auto described = describe(*setup.file, Purpose::kWrite, setup.server);
    if (!described) return described.status();
    Open& message = described.value();
    message.empty = setup.empty;
    message.locked = setup.locked;
    message.team = setup.team;
    std::unique_ptr<RemoteFile> remote(new RemoteFile(setup));
    Status opened;
    {
        const LockGuard lock(remote->mutex_);
        opened = remote->open_at_server(message, &setup.unanswered);
        // Whoever goes on with it at another server still writes it, and answers for that.
        message.empty = false;
        message.locked = true;
        message.seen = {message.seen.born_ns, 0, 0, 0};
        if (opened) remote->opened_ = std::move(message);
    }
    if (opened) return remote;
    setup.file = std::move(remote->file_);
    return opened.with_context("staging server " + remote->server_);
}

Status RemoteFile::open_at_server(const Open& message, bool* unanswered) {
    auto session = open_session(address_, patience_s_, message, unanswered, lock_.lock());
    if (!session) return session.status();
    // Another server has another staging area: the file is not at its last commit there.
    if (log_seen_ && left_ && left_(log_))
        return {Code::kUnsupported, "it has not brought home what its predecessor has left in " + log_};
    connection_ = std::move(session.value().connection);
    credits_ = session.value().welcome;
    size_ = std::max(size_, session.value().opened.size);
    log_ = std::move(session.value().opened.log);
    log_seen_ = sees_ && !log_.empty() && connection_->socket().is_local() && sees_(log_);
    requests_ = answered_ = 2;
    unanswered_.clear();
    unanswered_bytes_ = unexposed_bytes_ = 0;
    exposed_.reset();
    may_expose_ = !address_.path.empty();
    lost_ = false;
    return Status::ok();
}

Status RemoteFile::readable() {
    if (process_ != ::getpid())
        return {Code::kUnsupported, fmt::format("{}: opened through a staging server before this process was forked; "
                                                "open it again here",
                                                name())};
    return gone_ ? failure_ : Status::ok();
}

Status RemoteFile::writable() {
    FOREBAY_TRY(readable());
    return std::exchange(untold_, false) || close_failed_ ? failure_ : Status::ok();
}

Status RemoteFile::usable() {
    FOREBAY_TRY(readable());
    untold_ = false;
    return failure_;
}

// A write, which its caller takes for done. The server has not taken it, and takes others.
void RemoteFile::note_failed_write(const Status& why) {
    if (!failure_) return;
    failure_ = copy_of(why, "a write failed");
    untold_ = true;
}

Status RemoteFile::lose(const Status& why) {
    lost_ = true;
    connection_->socket().shut_down();
    return why;
}

// ---- another server ------------------------------------------------------------------------------------

void RemoteFile::forget_kept() noexcept {
    kept_.clear();
    kept_bytes_ = 0;
}

void RemoteFile::keep(Type type, io::Bytes head, io::Bytes bytes) {
    if (!keeps_all_) return;
    kept_bytes_ += head.size() + bytes.size();
    if (kept_bytes_ > kReplayMax) {
        keeps_all_ = false;
        forget_kept();
        kept_.shrink_to_fit();
        return;
    }
    Kept& kept = kept_.emplace_back(Kept{type, {}});
    kept.payload.reserve(head.size() + bytes.size());
    kept.payload.insert(kept.payload.end(), head.begin(), head.end());
    kept.payload.insert(kept.payload.end(), bytes.begin(), bytes.end());
}

// A commit of which nobody knows whether it was made does no harm: the same bytes come to the same places.
Status RemoteFile::send_again() {
    FOREBAY_TRY(open_at_server(opened_));
    if (at_once_) FOREBAY_TRY(exchange_once(Type::kStepAside, {}, Type::kDone).status());
    for (const Kept& kept : kept_) {
        if (kept.type == Type::kWrite) FOREBAY_TRY(transmit(kept.payload, {}));
        else FOREBAY_TRY(exchange_once(kept.type, kept.payload, Type::kDone).status());
    }
    while (!unanswered_.empty()) FOREBAY_TRY(receive_answer());
    return Status::ok();
}

Status RemoteFile::await_server(Status why) {
    const auto begin = std::chrono::steady_clock::now();
    io::ListenerWatch watch(address_);
    for (;;) {
        const std::uint64_t size = size_;
        why = send_again();
        size_ = size;
        if (why) return why;
        // A server that answers, and refuses the file, will not change its mind. It may have room later: that is waited
        // for only where the file cannot be written without it.
        const bool awaits_room = why.sys_errno() == EUSERS && !may_go_direct();
        if ((why.code() == Code::kUnsupported && !awaits_room) || why.code() == Code::kPermissionDenied) return why;
        const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                                  begin);
        const auto left = std::chrono::milliseconds(std::chrono::seconds(patience_s_)) - waited;
        if (patience_s_ != 0 && left.count() <= 0) return why;
        watch.await(patience_s_ != 0 ? std::optional(left) : std::nullopt);
    }
}

// The lost server has it no more: the file is at its last commit then, and everything since comes on top.
Status RemoteFile::go_direct(const Status& why) {
    if (!may_go_direct()) return {Code::kUnsupported, "its log cannot be reached from here"};
    FOREBAY_TRY(bring_home_(log_, why));
    for (const Kept& kept : kept_) {
        if (kept.type == Type::kTruncate) {
            const auto size = parse_size_of(kept.payload);
            if (!size) return size.status();
            FOREBAY_TRY(file_->resize(size.value()));
            continue;
        }
        const auto write = Write::parse(kept.payload);
        if (!write) return write.status();
        io::Bytes bytes = write.value().bytes();
        for (std::size_t i = 0; i < write.value().count(); ++i) {
            const Part part = write.value().part(i);
            FOREBAY_TRY(file_->write_at(part.offset, bytes.first(part.bytes)));
            bytes = bytes.subspan(part.bytes);
        }
    }
    forget_kept();
    exposed_.reset();
    direct_ = true;
    lost_ = false;
    return Status::ok();
}

Status RemoteFile::resume(const Status& why) {
    if (!failure_) {
        gone_ = true;
        return failure_;
    }
    Status last = why, direct;
    if (keeps_all_) {
        last = await_server(why);
        if (last) return Status::ok();
        direct = go_direct(last);
        if (direct) return Status::ok();
    }
    lost_ = gone_ = true;
    const std::string where = log_.empty() ? "the server's log" : log_;
    // Without an errno, which callers would take for that of the file.
    failure_ = {Code::kUnavailable,
                fmt::format("{}: the staging server {} does not answer any more ({}); what was written since the "
                            "last flush is lost{}, what was flushed is in {}: start the server again, or run "
                            "`forebay recover` there",
                            name(), server_, last.message(),
                            keeps_all_ || in_team_ ? "" : ", and too much to be sent to another server", where)};
    if (!direct) failure_ = failure_.with_context("it cannot be written without its server: " + direct.message());
    return failure_;
}

// ---- answers -----------------------------------------------------------------------------------------

// The answer to the oldest WRITE. An error: the connection is lost.
Status RemoteFile::receive_answer() {
    const auto frame = connection_->receive();
    if (!frame) return lose(frame.status());
    const Header& header = frame.value().header;
    if (header.request != answered_ + 1 || unanswered_.empty()) return lose({Code::kCorrupt, "it answers out of turn"});
    answered_ = header.request;
    unanswered_bytes_ -= unanswered_.front().bytes;
    if (unanswered_.front().exposed) exposed_->give_back();
    unanswered_.erase(unanswered_.begin());
    if (header.type == Type::kDone) return Status::ok();
    if (header.type != Type::kFailed) return lose({Code::kCorrupt, "its answer is not one to a write"});
    note_failed_write(parse_failed(frame.value().payload));
    return Status::ok();
}

Result<Connection::Frame> RemoteFile::exchange_once(Type type, io::Bytes payload, Type answer) {
    if (const Status sent = connection_->send(type, ++requests_, payload); !sent) return lose(sent);
    return await_answer(answer);
}

// To the request that was sent last.
Result<Connection::Frame> RemoteFile::await_answer(Type answer) {
    while (!unanswered_.empty()) FOREBAY_TRY(receive_answer());
    const auto frame = connection_->receive();
    if (!frame && closing_ && frame.status().sys_errno() == EAGAIN) return leave_to_server(frame.status());
    if (!frame) return lose(frame.status());
    const Header& header = frame.value().header;
    if (header.request != requests_) return lose({Code::kCorrupt, "it answers out of turn"});
    answered_ = header.request;
    if (header.type == Type::kFailed) return parse_failed(frame.value().payload);
    if (header.type != answer) return lose({Code::kCorrupt, "its answer is of another kind"});
    return frame;
}

// Its connection stays: while it does, the server writes under this process's lock, and goes on to the end.
Status RemoteFile::leave_to_server(const Status& why) {
    gone_ = true;
    failure_ = {Code::kUnavailable,
                fmt::format("{}: the staging server {} has not closed it, and nothing has reached it for {} seconds; "
                            "the server goes on, and the file stays locked until this process ends",
                            name(), server_, connection_->socket().receiving_patience().count() / 1000),
                why.sys_errno()};
    return failure_;
}

Result<Connection::Frame> RemoteFile::exchange(Type type, io::Bytes payload, Type answer) {
    for (;;) {
        FOREBAY_TRY(send_batch());
        if (direct_) return Connection::Frame{};
        auto frame = exchange_once(type, payload, answer);
        if (!lost_) return frame;
        FOREBAY_TRY(resume(frame.status()));
    }
}

Status RemoteFile::ask(Type type) {
    const LockGuard lock(mutex_);
    if (closed_ || direct_) return Status::ok();
    FOREBAY_TRY(usable());
    return exchange(type, {}, Type::kDone).status();
}

// ---- writing -----------------------------------------------------------------------------------------

Status RemoteFile::await_credit(std::size_t bytes) {
    while (!unanswered_.empty() &&
           (unanswered_.size() >= credits_.credit_frames || unanswered_bytes_ + bytes > credits_.credit_bytes))
        FOREBAY_TRY(receive_answer());
    return Status::ok();
}

Status RemoteFile::transmit(io::Bytes head, io::Bytes bytes) {
    const std::size_t size = head.size() + bytes.size();
    FOREBAY_TRY(await_credit(size));
    if (const Status sent = connection_->send(Type::kWrite, ++requests_, head, bytes); !sent) return lose(sent);
    unanswered_.push_back({static_cast<std::uint32_t>(size), false});
    unanswered_bytes_ += size;
    return Status::ok();
}

Status RemoteFile::transmit_exposed(std::span<const Part> parts, io::Bytes bytes) {
    FOREBAY_TRY(await_credit(bytes.size()));
    while (exposed_->full()) FOREBAY_TRY(receive_answer());
    const std::size_t place = exposed_->take();
    std::memcpy(exposed_->bytes().data() + place, bytes.data(), bytes.size());
    if (const Status sent = connection_->send(Type::kWriteExposed, ++requests_, encode_exposed(place, parts)); !sent)
        return lose(sent);
    unanswered_.push_back({static_cast<std::uint32_t>(bytes.size()), true});
    unanswered_bytes_ += bytes.size();
    return Status::ok();
}

// What fails leaves it without: the connection does, unless that is lost.
Status RemoteFile::expose_for(std::size_t bytes) {
    if (!may_expose_ || bytes < kExposedMin) return Status::ok();
    unexposed_bytes_ += bytes;
    if (unexposed_bytes_ < kExposeAfter) return Status::ok();
    may_expose_ = false;
    auto memory = io::SharedMemory::create(kExposedBytes);
    if (!memory) return Status::ok();
    if (const Status sent = connection_->expose(++requests_, *memory.value()); !sent) return lose(sent);
    memory.value()->close_number();
    const Status taken = await_answer(Type::kDone).status();
    if (taken) exposed_ = std::make_unique<ExposedMemory>(std::move(memory).value());
    return lost_ ? taken : Status::ok();
}

Status RemoteFile::send_write(std::span<const Part> parts, io::Bytes bytes) {
    const Payload head = encode(parts);
    keep(Type::kWrite, head, bytes);
    Status sent = expose_for(bytes.size());
    if (sent) sent = is_exposed(bytes.size()) ? transmit_exposed(parts, bytes) : transmit(head, bytes);
    return lost_ ? resume(sent) : sent;
}

Status RemoteFile::send_batch() {
    if (parts_.empty()) return Status::ok();
    const Status sent = send_write(parts_, bytes_);
    parts_.clear();
    bytes_.clear();
    return sent;
}

Status RemoteFile::put(std::uint64_t offset, io::Bytes bytes, Class byte_class) {
    const LockGuard lock(mutex_);
    if (closed_) return Status::from_errno(EBADF, "write to " + name() + ", which its staging server has closed");
    FOREBAY_TRY(writable());
    FOREBAY_TRY(put_locked(offset, bytes, byte_class));
    return at_once_ && !direct_ ? await_answers() : Status::ok();
}

Status RemoteFile::await_answers() {
    FOREBAY_TRY(send_batch());
    while (!direct_ && !unanswered_.empty()) {
        const Status answered = receive_answer();
        if (lost_) return resume(answered);
    }
    return writable();
}

Status RemoteFile::end_call() {
    const LockGuard lock(mutex_);
    if (!in_team_ || closed_) return Status::ok();
    return await_answers();
}

Status RemoteFile::put_locked(std::uint64_t offset, io::Bytes bytes, Class byte_class) {
    size_ = std::max(size_, offset + bytes.size());
    if (direct_) return file_->write_at(offset, bytes);
    if (bytes.size() >= kStraightBytes) {
        FOREBAY_TRY(send_batch());
        for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kDataMax))) {
            if (direct_) return file_->write_at(offset, bytes);
            const Part part{offset, static_cast<std::uint32_t>(std::min(bytes.size(), kDataMax)), byte_class};
            FOREBAY_TRY(send_write({&part, 1}, bytes.first(part.bytes)));
            offset += part.bytes;
        }
        return Status::ok();
    }
    if (bytes.empty()) return Status::ok();
    if (parts_.size() == kPartsMax || bytes_.size() + bytes.size() > kBatchBytes) FOREBAY_TRY(send_batch());
    if (direct_) return file_->write_at(offset, bytes);
    bytes_.reserve(kBatchBytes);
    const bool adjoins = !parts_.empty() && parts_.back().byte_class == byte_class &&
                         parts_.back().offset + parts_.back().bytes == offset;
    if (adjoins) parts_.back().bytes += static_cast<std::uint32_t>(bytes.size());
    else parts_.push_back({offset, static_cast<std::uint32_t>(bytes.size()), byte_class});
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return Status::ok();
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

Status RemoteFile::resize(std::uint64_t size) {
    const LockGuard lock(mutex_);
    if (closed_)
        return Status::from_errno(EBADF, "set the size of " + name() + ", which its staging server has closed");
    FOREBAY_TRY(writable());
    if (!direct_) FOREBAY_TRY(send_batch());
    if (direct_) {
        FOREBAY_TRY(file_->resize(size));
    } else {
        const Payload payload = encode_size(size);
        keep(Type::kTruncate, payload, {});
        FOREBAY_TRY(exchange(Type::kTruncate, payload, Type::kDone).status());
    }
    size_ = size;
    return Status::ok();
}

// ---- reading and the rest ----------------------------------------------------------------------------

Result<std::size_t> RemoteFile::read_at(std::uint64_t offset, io::MutableBytes into) {
    const LockGuard lock(mutex_);
    FOREBAY_TRY(readable());
    if (closed_ || direct_) return file_->read_at(offset, into);
    // Others may have made it longer; what is not there reads as zeros.
    const std::uint64_t left = in_team_ ? into.size() : offset < size_ ? size_ - offset : 0;
    const auto whole = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), left));
    for (std::size_t done = 0; done < whole;) {
        const std::size_t count = std::min(whole - done, kDataMax);
        FOREBAY_TRY(read_piece(offset + done, into.subspan(done, count)));
        if (direct_) return file_->read_at(offset, into);
        done += count;
    }
    return whole;
}

// Nothing, if it is to be read directly now. The server reads into a place once it has carried out all writes before:
// so it does not matter which one.
Status RemoteFile::read_piece(std::uint64_t offset, io::MutableBytes into) {
    const Read wanted{offset, static_cast<std::uint32_t>(into.size())};
    for (;;) {
        FOREBAY_TRY(send_batch());
        if (direct_) return Status::ok();
        Status done = expose_for(into.size());
        if (done && is_exposed(into.size())) {
            done = exchange_once(Type::kReadExposed, encode(ReadExposed{wanted, 0}), Type::kDone).status();
            const Status copied = done ? connection_->copy_exposed(exposed_->memory(), into) : Status::ok();
            if (!copied) done = lose(copied);
        } else if (done) {
            const auto answer = exchange_once(Type::kRead, encode(wanted), Type::kData);
            done = answer.status();
            if (done && answer.value().payload.size() != into.size())
                return {Code::kCorrupt, name() + ": a read was cut short"};
            if (done) std::memcpy(into.data(), answer.value().payload.data(), into.size());
        }
        if (!lost_) return done;
        FOREBAY_TRY(resume(done));
    }
}

Result<std::uint64_t> RemoteFile::size() {
    const LockGuard lock(mutex_);
    FOREBAY_TRY(readable());
    if (closed_) return file_->size();
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
    {
        const LockGuard lock(mutex_);
        FOREBAY_TRY(usable());
        if (closed_ || direct_) return file_->sync();
    }
    FOREBAY_TRY(ask(Type::kSync));
    const LockGuard lock(mutex_);
    return direct_ ? file_->sync() : Status::ok();   // the server may have gone meanwhile
}

Status RemoteFile::commit() {
    const LockGuard lock(mutex_);
    if (closed_ || direct_) return Status::ok();
    FOREBAY_TRY(usable());
    FOREBAY_TRY(exchange(Type::kCommit, {}, Type::kDone).status());
    forget_kept();
    keeps_all_ = !in_team_;
    return Status::ok();
}

Status RemoteFile::drain() { return ask(Type::kDrain); }

Status RemoteFile::step_aside() {
    FOREBAY_TRY(ask(Type::kStepAside));
    const LockGuard lock(mutex_);
    at_once_ = true;
    return Status::ok();
}

void RemoteFile::withhold(const Status& why) noexcept {
    const LockGuard lock(mutex_);
    withheld_ = true;
    if (failure_) failure_ = copy_of(why, "a write failed");
}

// Of what is withheld the server is left to drop what is not committed: the connection ends without CLOSE.
Status RemoteFile::close() {
    const LockGuard lock(mutex_);
    if (closed_ || process_ != ::getpid()) return Status::ok();
    if (gone_ || withheld_) {
        gone_ = true;
        connection_->socket().shut_down();
        return failure_;
    }
    closing_ = true;
    const Status ended = direct_ ? failure_ : exchange(Type::kClose, {}, Type::kDone).status();
    closing_ = false;
    if (failure_) failure_ = ended;
    close_failed_ = !ended;
    if (close_failed_) return ended;
    closed_ = true;
    connection_->socket().shut_down();
    return Status::ok();
}

}   // namespace forebay::wire
