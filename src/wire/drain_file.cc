#include "wire/drain_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "base/attempt.h"

namespace forebay::wire {

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t random_id() {
    std::random_device source;
    return ((std::uint64_t{source()} << 32) | source()) | 1;
}

// The bytes of [from, from + length) of `pieces`, put together in `buffer` unless they lie together.
io::Bytes gather(std::span<const io::Bytes> pieces, std::uint64_t from, std::size_t length, Payload& buffer) {
    std::size_t filled = 0;
    for (const io::Bytes& piece : pieces) {
        if (from >= piece.size()) {
            from -= piece.size();
            continue;
        }
        const io::Bytes part = piece.subspan(from, std::min<std::uint64_t>(piece.size() - from, length - filled));
        if (part.size() == length) return part;
        if (buffer.size() < length) buffer.resize(length);
        std::memcpy(buffer.data() + filled, part.data(), part.size());
        filled += part.size();
        from = 0;
        if (filled == length) break;
    }
    return io::Bytes(buffer).first(filled);
}

// As one write. `requests`: number of the last request.
Status send_write(Connection& connection, std::uint64_t& requests, std::uint64_t offset, io::Bytes bytes) {
    while (!bytes.empty()) {
        const Part part{offset, static_cast<std::uint32_t>(std::min(bytes.size(), kDataMax)), Class::kRaw};
        const bool more = bytes.size() > part.bytes;
        FOREBAY_TRY(connection.send(Type::kWrite, ++requests, encode({&part, 1}, more), bytes.first(part.bytes)));
        bytes = bytes.subspan(part.bytes);
        offset += part.bytes;
    }
    return Status::ok();
}

Status out_of_turn() { return {Code::kCorrupt, "it answers out of turn"}; }

}   // namespace

DrainFile::DrainFile(Setup setup, std::unique_ptr<io::File>& file, Open message)
    : ForwardingFile(std::shared_ptr<io::File>(std::move(file))),
      setup_(std::move(setup)),
      server_(io::format_address(setup_.server)),
      process_(::getpid()),
      sessions_max_(std::clamp<std::size_t>(setup_.sessions_max, 1, kDrainSessionsMax)),
      message_(std::move(message)) {
    idle_.reserve(kDrainSessionsMax);
}

Result<std::unique_ptr<DrainFile>> DrainFile::open(Setup setup, std::unique_ptr<io::File>& file, bool at_once) {
    auto described = describe(*file, Purpose::kDrain, setup.server);
    if (!described) return described.status();
    Open& message = described.value();
    message.locked = setup.locked;
    message.drainer.client = random_id();
    message.drainer.server = setup.number;
    std::unique_ptr<Session> session;
    if (at_once) {
        auto opened = open_session_of(setup, message, 1);
        if (!opened) return opened.status().with_context("staging server " + io::format_address(setup.server));
        session = std::move(opened).value();
    }
    const auto size = file->size();
    if (!size) return size.status();
    // From now on the file changes.
    message.seen = {message.seen.born_ns, 0, 0, 0};
    std::unique_ptr<DrainFile> drain(new DrainFile(std::move(setup), file, std::move(message)));
    drain->size_ = size.value();
    if (session != nullptr) {
        drain->ever_ = true;
        drain->sessions_ = 1;
        drain->idle_.push_back(std::move(session));
    }
    return drain;
}

DrainFile::~DrainFile() {
    if (!inherited()) drop_idle();   // a child leaves them to its parent
}

// ---- sessions ------------------------------------------------------------------------------------------

Result<std::unique_ptr<DrainFile::Session>> DrainFile::open_session_of(const Setup& setup, Open message,
                                                                       std::uint32_t number) {
    message.drainer.session = number;
    auto opened = open_session(setup.server, setup.patience_s, message);
    if (!opened) return opened.status();
    return std::make_unique<Session>(Session{std::move(opened.value().connection), number});
}

void DrainFile::drop_idle() noexcept {
    for (const auto& session : idle_) session->connection->socket().shut_down();
    sessions_ -= idle_.size();
    idle_.clear();
}

void DrainFile::give_back(std::unique_ptr<Session> session) noexcept {
    const std::lock_guard lock(mutex_);
    gave_up_ = false;
    if (direct_ || session->number < number_) --sessions_;
    else idle_.push_back(std::move(session));
    changed_.notify_all();
}

// The server ends all sessions that were opened before the next one, so those that are idle are of no use.
void DrainFile::lose(std::unique_ptr<Session> session) noexcept {
    session->connection->socket().shut_down();
    const std::lock_guard lock(mutex_);
    --sessions_;
    if (session->number == number_) {
        ++number_;
        drop_idle();
        sessions_max_ = std::clamp<std::size_t>(setup_.sessions_max, 1, kDrainSessionsMax);
    }
    changed_.notify_all();
}

// Nobody listens, or not for this file. What an earlier session had under way may still be: then there is a mark.
bool DrainFile::may_do_without(const Status& why, bool ever) {
    if (why.code() != Code::kNotFound && why.code() != Code::kUnsupported) return false;
    return !ever || !setup_.await_unserved || setup_.await_unserved().is_ok();
}

Result<std::unique_ptr<DrainFile::Session>> DrainFile::take() {
    std::optional<Clock::time_point> since;
    std::optional<io::ListenerWatch> watch;
    std::unique_lock lock(mutex_);
    for (;;) {
        if (direct_) return std::unique_ptr<Session>();
        if (!idle_.empty()) {
            std::unique_ptr<Session> session = std::move(idle_.back());
            idle_.pop_back();
            return session;
        }
        if (sessions_ >= sessions_max_) {
            changed_.wait(lock);
            continue;
        }
        ++sessions_;
        const bool ever = ever_;
        const std::uint32_t number = number_;
        lock.unlock();
        std::unique_ptr<Session> made;
        const Status why = attempt([&]() -> Status {
            if (!watch) watch.emplace(setup_.server);
            auto opened = open_session_of(setup_, message_, number);
            if (!opened) return opened.status();
            made = std::move(opened).value();
            return Status::ok();
        });
        lock.lock();
        if (why) {
            ever_ = true;
            return made;
        }
        --sessions_;
        changed_.notify_all();
        if (number < number_) continue;   // it is lost by now, like others
        if (sessions_ > 0) {              // those will do
            sessions_max_ = sessions_;
            continue;
        }
        lock.unlock();
        const bool alone = may_do_without(why, ever);
        lock.lock();
        if (alone && !direct_ && sessions_ == 0) {   // another thread may have had one meanwhile
            direct_ = true;
            changed_.notify_all();
            lock.unlock();
            if (setup_.gone) setup_.gone(why.with_context("staging server " + server_));
            return std::unique_ptr<Session>();
        }
        const auto now = Clock::now();
        if (!since) since = now;
        const auto left = std::chrono::seconds(setup_.patience_s) - (now - *since);
        if (gave_up_ || (setup_.patience_s != 0 && left.count() <= 0)) {
            gave_up_ = true;
            return given_up(why);
        }
        lock.unlock();
        watch->await(setup_.patience_s != 0 ? std::optional(std::chrono::ceil<std::chrono::milliseconds>(left))
                                            : std::nullopt);
        lock.lock();
    }
}

Result<bool> DrainFile::through(const Act& act) {
    const auto begin = Clock::now();
    std::optional<io::ListenerWatch> watch;
    for (int losses = 0;;) {
        auto taken = take();
        if (!taken) return taken.status();
        std::unique_ptr<Session> session = std::move(taken).value();
        if (session == nullptr) return false;
        const Status outcome = attempt([&] { return act(*session); });
        if (session->lost) {
            lose(std::move(session));
            if (outcome.sys_errno() == ENOMEM) return outcome;
            // Once is the end of a server. A server that cuts each session is given time, and not for ever.
            if (++losses == 1) continue;
            const auto left = std::chrono::seconds(setup_.patience_s) - (Clock::now() - begin);
            const bool bounded = setup_.patience_s != 0;
            if (bounded && left.count() <= 0) return given_up(outcome);
            if (!watch) watch.emplace(setup_.server);
            watch->await(bounded ? std::optional(std::chrono::ceil<std::chrono::milliseconds>(left)) : std::nullopt);
            continue;
        }
        give_back(std::move(session));
        if (!outcome) return outcome;
        return true;
    }
}

Result<Connection::Frame> DrainFile::exchange(Session& session, Type type, io::Bytes payload, Type answer,
                                              io::MutableBytes into) {
    Connection& connection = *session.connection;
    session.lost = true;
    FOREBAY_TRY(connection.send(type, ++session.requests, payload));
    auto frame = connection.receive(into);
    if (!frame) return frame;
    const Header& header = frame.value().header;
    const bool failed = header.type == Type::kFailed;
    if (header.request != session.requests || (header.type != answer && !failed)) return out_of_turn();
    session.lost = false;
    if (failed) return parse_failed(frame.value().payload);
    return frame;
}

Result<bool> DrainFile::ask(Type type, io::Bytes payload) {
    return through([&](Session& session) { return exchange(session, type, payload, Type::kDone).status(); });
}

Status DrainFile::given_up(const Status& why) const {
    return {Code::kUnavailable, fmt::format("write {}: staging server {}: {}", name(), server_, why.message()),
            ETIMEDOUT};
}

Status DrainFile::refuse_inherited() const {
    return {Code::kUnsupported, fmt::format("{}: opened through a staging server before this process was forked; open "
                                            "it again here",
                                            name())};
}

// ---- writing -------------------------------------------------------------------------------------------

void DrainFile::reaches(std::uint64_t end) noexcept {
    std::uint64_t known = size_;
    while (known < end && !size_.compare_exchange_weak(known, end)) {
    }
}

// It may have been emptied since it was opened.
Status DrainFile::note_writing() {
    if (wrote_) return Status::ok();
    const auto size = setup_.shared ? Result<std::uint64_t>(0) : file().size();
    if (!size) return size.status();
    const std::lock_guard lock(mutex_);
    if (!wrote_) size_ = size.value();
    wrote_ = true;
    return Status::ok();
}

Status DrainFile::write_group(std::uint64_t offset, io::Bytes bytes) {
    const auto done = through([&](Session& session) -> Status {
        Connection& connection = *session.connection;
        const std::uint64_t before = session.requests;
        session.lost = true;   // until all is answered
        FOREBAY_TRY(send_write(connection, session.requests, offset, bytes));
        Status outcome;
        for (std::uint64_t request = before + 1; request <= session.requests; ++request) {
            const auto frame = connection.receive();
            if (!frame) return frame.status();
            const Header& header = frame.value().header;
            if (header.request != request || (header.type != Type::kDone && header.type != Type::kFailed))
                return out_of_turn();
            if (header.type == Type::kFailed && outcome) outcome = parse_failed(frame.value().payload);
        }
        session.lost = false;
        return outcome;
    });
    if (!done) return done.status();
    if (!done.value()) return file().write_at(offset, bytes);
    if (served_ != nullptr) served_->fetch_add(bytes.size(), std::memory_order_relaxed);
    return Status::ok();
}

Status DrainFile::write_at(std::uint64_t offset, io::Bytes bytes) { return write_gather_at(offset, {&bytes, 1}); }

Status DrainFile::write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) {
    if (direct_) return file().write_gather_at(offset, pieces);
    if (inherited()) return refuse_inherited();
    std::uint64_t length = 0;
    for (const io::Bytes& piece : pieces) length += piece.size();
    FOREBAY_TRY(note_writing());
    Payload buffer;
    for (std::uint64_t from = 0; from < length;) {
        const std::uint64_t fits = kDrainWriteMax - (offset + from) % kDrainWriteMax;
        const auto count = static_cast<std::size_t>(std::min(length - from, fits));
        FOREBAY_TRY(write_group(offset + from, gather(pieces, from, count, buffer)));
        from += count;
    }
    reaches(offset + length);
    return Status::ok();
}

Status DrainFile::resize(std::uint64_t size) {
    if (direct_) return file().resize(size);
    if (inherited()) return refuse_inherited();
    FOREBAY_TRY(note_writing());
    const auto done = ask(Type::kTruncate, encode_size(size));
    if (!done) return done.status();
    if (!done.value()) return file().resize(size);
    size_ = size;
    return Status::ok();
}

// What could not be written back each open file is told of once: here the client's own one.
Status DrainFile::sync() {
    if (direct_ || !wrote_ || inherited() || setup_.server.is_local()) return file().sync();
    const auto done = ask(Type::kSync, {});
    if (!done) return done.status();
    return done.value() ? Status::ok() : file().sync();
}

// A server elsewhere has to write back what its machine still keeps, so that this one sees it: one that was lost is
// asked again. If it has gone for good, the end of its mark was awaited: that came behind.
Status DrainFile::leave() {
    if (inherited()) return Status::ok();
    Status outcome;
    if (wrote_ && !direct_) {
        const Status closed = ask(Type::kClose, {}).status();
        if (!setup_.server.is_local() || closed.sys_errno() != ETIMEDOUT) outcome = closed;
    }
    const std::lock_guard lock(mutex_);
    direct_ = true;
    changed_.notify_all();
    drop_idle();
    return outcome;
}

// ---- reading and the rest ------------------------------------------------------------------------------

bool DrainFile::reads_through() const noexcept {
    return !setup_.server.is_local() && !direct_ && (wrote_ || setup_.shared) && !inherited();
}

Result<std::size_t> DrainFile::read_some(std::uint64_t offset, io::MutableBytes into) {
    std::size_t got = 0;
    const auto done = through([&](Session& session) -> Status {
        const auto frame = exchange(session, Type::kRead, encode(Read{offset, static_cast<std::uint32_t>(into.size())}),
                                    Type::kData, into);
        if (!frame) return frame.status();
        const io::Bytes payload = frame.value().payload;
        if (payload.size() > into.size()) {
            session.lost = true;
            return out_of_turn();
        }
        if (payload.data() != into.data()) std::ranges::copy(payload, into.begin());
        got = payload.size();
        return Status::ok();
    });
    if (!done) return done.status();
    return done.value() ? Result<std::size_t>(got) : file().read_at(offset, into);
}

Result<std::size_t> DrainFile::read_at(std::uint64_t offset, io::MutableBytes into) {
    if (!reads_through()) return file().read_at(offset, into);
    for (std::size_t done = 0; done < into.size();) {
        const io::MutableBytes part = into.subspan(done, std::min(into.size() - done, kDataMax));
        const auto got = read_some(offset + done, part);
        if (!got) return got;
        done += got.value();
        if (got.value() < part.size()) return done;
    }
    return into.size();
}

io::FileTraits DrainFile::traits() {
    io::FileTraits traits = file().traits();
    traits.may_hang = true;   // the server may not answer
    // A write begins when the server comes to it, which may be after this process has died.
    if (!setup_.server.is_local()) traits.times = io::TimesKind::kLazy;
    else if (traits.times == io::TimesKind::kExact) traits.times = io::TimesKind::kServed;
    return traits;
}

Result<std::uint64_t> DrainFile::size() {
    if (!reads_through()) return file().size();
    if (!setup_.shared) return size_.load();
    const auto seen = file().size();
    return seen ? Result<std::uint64_t>(std::max(seen.value(), size_.load())) : seen;
}

Status DrainFile::allocate(std::uint64_t, std::uint64_t) {
    return {Code::kUnsupported, name() + ": a staging server reserves no space"};
}
Status DrainFile::punch(std::uint64_t, std::uint64_t) {
    return {Code::kUnsupported, name() + ": a staging server gives no space back"};
}
Result<std::unique_ptr<io::Mapping>> DrainFile::map(std::uint64_t, std::size_t) {
    return Status(Code::kUnsupported, name() + ": what a staging server writes cannot be mapped");
}

}   // namespace forebay::wire
