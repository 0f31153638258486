#include "server/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "io/event.h"
#include "wire/proof.h"

namespace forebay::server {

namespace {

using wire::Connection;
using wire::Type;

constexpr std::chrono::seconds kOpening{10}, kSending{60}, kWithoutEnd{0};
constexpr std::uint32_t kCreditFrames = 64, kCreditBytes = 8 << 20;

Status out_of_turn() { return {Code::kCorrupt, "a request that is not allowed here"}; }

Status answer(Connection& connection, const Connection::Frame& request, const Status& outcome) {
    if (outcome) return connection.send(Type::kDone, request.header.request, {});
    return connection.send(Type::kFailed, request.header.request, wire::encode(outcome));
}

}   // namespace

void Session::run(Connection& connection) {
    Status end = attempt([&]() -> Status {
        FOREBAY_TRY(begin(connection));
        for (;;) {
            const auto frame = connection.receive();
            if (!frame) return frame.status();
            const auto goes_on = serve(connection, frame.value());
            if (!goes_on) return goes_on.status();
            if (!goes_on.value()) return Status::ok();
        }
    });
    connection.socket().shut_down();
    if (exposed_ != nullptr) exposed_->clear();   // the client sees before that this session has ended
    if (served_ == nullptr) {
        if (!end && end.code() != Code::kNotFound) report_("a session ended: " + end.message());
        return;
    }
    end_file(end);
}

void Session::end_file(const Status& end) {
    const std::string path = served_->path();
    const auto left = served_->abandon();
    served_.reset();
    const std::string what = close_failed_ ? std::string("its client, whose close had failed, has ended")
                                           : fmt::format("its client ended without closing it ({})", end.message());
    report_(fmt::format("{}: {}{}{}", path, what, left && left.value().empty() ? "" : "; ",
                        left ? left.value() : left.status().message()));
}

Status Session::prove(Connection& connection) {
    if (key_ == nullptr) return out_of_turn();
    connection.allow_payload(sizeof(wire::SealKey));
    return wire::prove_to_client(connection, *key_);
}

Status Session::begin(Connection& connection) {
    FOREBAY_TRY(connection.socket().set_patience(kOpening, kSending));
    connection.socket().set_deadline(std::chrono::steady_clock::now() + kOpening);
    if (!connection.socket().is_local()) FOREBAY_TRY(prove(connection));
    connection.allow_payload(wire::kOpenMax);   // so much memory can those take who have opened nothing
    const auto first = connection.receive();
    if (!first) return first.status();
    if (first.value().header.type != Type::kHello || first.value().header.request != 1) return out_of_turn();
    const auto hello = wire::parse_hello(first.value().payload);
    if (!hello) return hello.status();
    if (hello.value().lowest > wire::kVersion || hello.value().highest < wire::kVersion) {
        const Status refused(Code::kUnavailable, fmt::format("this server speaks version {} only", wire::kVersion));
        (void)answer(connection, first.value(), refused);
        return refused;
    }
    const wire::Welcome welcome{wire::kVersion, kCreditFrames, kCreditBytes, epoch_};
    FOREBAY_TRY(connection.send(Type::kWelcome, 1, wire::encode(welcome)));
    const auto second = connection.receive();
    if (!second) return second.status();
    connection.socket().set_deadline(std::nullopt);
    if (second.value().header.type != Type::kOpen || second.value().header.request != 2) return out_of_turn();
    auto request = wire::parse_open(second.value().payload);
    if (!request) return request.status();
    if (request.value().purpose == wire::Purpose::kReadCached) {
        FOREBAY_TRY(admit_reader(connection));
        FOREBAY_TRY(open_cached(connection, 2, request.value()));
        last_request_ = 2;
        return connection.socket().set_patience(kWithoutEnd, kSending);
    }
    Status opened;
    if (files_ == nullptr) opened = {Code::kUnsupported, "this server serves nothing but reads through its cache"};
    else if (connection.sealed()) opened = files_->recognise(request.value());
    if (opened) opened = open(connection, request.value());
    connection.close_passed();
    if (!opened) {
        (void)answer(connection, second.value(), opened);
        // To a reader that is an answer like another.
        const wire::Purpose purpose = request.value().purpose;
        return purpose == wire::Purpose::kWrite ? opened : Status(Code::kNotFound, opened.message());
    }
    last_request_ = 2;
    connection.allow_payload(wire::kPayloadMax);
    return connection.socket().set_patience(kWithoutEnd, kSending);
}

Status Session::open(Connection& connection, const wire::Open& request) {
    wire::Opened answer;
    switch (request.purpose) {
        case wire::Purpose::kWrite: {
            writes_ = true;
            auto opened = files_->open(request, connection);
            if (!opened) return opened.status();
            served_ = std::move(opened).value();
            answer = {served_->file().size(), served_->log_directory()};
            break;
        }
        case wire::Purpose::kRead: {
            auto opened = files_->open_to_read(request);
            if (!opened) return opened.status();
            snapshot_ = std::move(opened).value();
            answer.size = snapshot_->size();
            break;
        }
        case wire::Purpose::kFollow: {
            auto opened = files_->open_to_follow(request);
            if (!opened) return opened.status();
            observers_ = std::move(opened).value();
            break;
        }
        case wire::Purpose::kReadCached: return out_of_turn();   // `open_cached` does
    }
    return connection.send(Type::kOpened, 2, wire::encode(answer));
}

// Answers once there is something to tell.
Status Session::follow(Connection& connection, const Connection::Frame& frame) {
    const auto known = wire::parse_number(frame.payload);
    if (!known) return known.status();
    auto event = io::Event::create();
    if (!event) return event.status();
    const Observers::Following following(*observers_, *event.value());
    for (;;) {
        event.value()->clear();
        const wire::Commits news = observers_->after(known.value());
        if (!news.commits.empty() || news.writer != wire::Commits::Writer::kWrites)
            return connection.send(Type::kCommits, frame.header.request, wire::encode(news));
        const auto input = connection.socket().await_input(event.value()->number());
        if (!input) return input.status();
        if (input.value()) return Status::ok();   // it has gone, or asks out of turn: the next frame tells
    }
}

// One that is not admitted ends, so that readers take no place of a writer's.
Status Session::admit_reader(Connection& connection) {
    if (cached_files_ != nullptr) reader_ = cached_files_->admit();
    if (reader_ != nullptr) return Status::ok();
    const Status refusal(Code::kUnsupported,
                         cached_files_ == nullptr
                             ? "this server has no read cache (option read_cache)"
                             : fmt::format("this server has its {} readers", CachedFiles::kReadersMax));
    (void)connection.send(Type::kFailed, 2, wire::encode(refusal));
    return {Code::kNotFound, refusal.message()};   // to a reader that is an answer like another
}

// A file that is not read here is an answer like another: the client goes on with its next one.
Status Session::open_cached(Connection& connection, std::uint64_t number, const wire::Open& request) {
    cached_ = nullptr;
    auto opened = cached_files_->open(request, connection.sealed());
    if (!opened) return connection.send(Type::kFailed, number, wire::encode(opened.status()));
    cached_ = std::move(opened).value();
    return connection.send(Type::kOpened, number,
                           wire::encode(wire::Opened{cached_->version().size, cached_->replica_label()}));
}

Status Session::read_cached(Connection& connection, const Connection::Frame& frame) {
    const auto request = wire::parse_read(frame.payload);
    if (!request) return request.status();
    if (cached_ == nullptr) return answer(connection, frame, {Code::kUnavailable, "no file is open"});
    const std::uint64_t size = cached_->version().size;
    if (request.value().offset > size || request.value().bytes > size - request.value().offset)
        return {Code::kCorrupt, "a request for what is behind the end of the file"};
    wire::Payload buffer = cached_files_->take_buffer();
    if (buffer.size() < request.value().bytes) buffer.resize(request.value().bytes);
    const io::MutableBytes into = io::MutableBytes(buffer).first(request.value().bytes);
    const Status done = CachedFiles::read(*cached_, request.value().offset, into);
    const Status sent = done ? connection.send(Type::kData, frame.header.request, into)
                             : answer(connection, frame, done);
    cached_files_->give_back(std::move(buffer));
    return sent;
}

bool Session::allows(Type type) const noexcept {
    if (observers_ != nullptr) return type == Type::kNext;
    if (snapshot_ == nullptr && !close_failed_) return type != Type::kNext;
    return type == Type::kRead || type == Type::kExpose || type == Type::kReadExposed;
}

Result<bool> Session::serve(Connection& connection, const Connection::Frame& frame) {
    const Type type = frame.header.type;
    if (frame.header.request != last_request_ + 1) return out_of_turn();
    last_request_ = frame.header.request;
    if (reader_ != nullptr) {
        Status served = out_of_turn();
        if (type == Type::kRead) served = read_cached(connection, frame);
        if (type == Type::kOpen) {
            const auto request = wire::parse_open(frame.payload);
            if (!request) return request.status();
            if (request.value().purpose == wire::Purpose::kReadCached)
                served = open_cached(connection, frame.header.request, request.value());
        }
        return served ? Result<bool>(true) : served;
    }
    if (!allows(type)) return out_of_turn();
    switch (type) {
        case Type::kNext: {
            const Status followed = follow(connection, frame);
            return followed ? Result<bool>(true) : followed;
        }
        case Type::kExpose: {
            const Status taken = take_exposed(connection, frame);
            return taken ? Result<bool>(true) : taken;
        }
        case Type::kRead:
        case Type::kReadExposed: {
            const Status sent = read(connection, frame);
            return sent ? Result<bool>(true) : sent;
        }
        case Type::kWrite:
        case Type::kWriteExposed:
        case Type::kTruncate: {
            Status outcome = served_->incomplete();
            if (outcome) {
                const Writers::Request request(served_->writers(), connection, frame.header.request);
                outcome = type == Type::kTruncate ? truncate(frame.payload) : write(type, frame.payload);
            }
            if (outcome.code() == Code::kCorrupt) return outcome;
            if (!outcome) served_->fail(outcome);
            const Status sent = answer(connection, frame, outcome);
            return sent ? Result<bool>(true) : sent;
        }
        case Type::kCommit:
        case Type::kDrain:
        case Type::kSync:
        case Type::kStepAside: {
            FOREBAY_TRY(wire::parse_empty(frame.payload));
            const Status sent = answer(connection, frame, change(connection, frame));
            return sent ? Result<bool>(true) : sent;
        }
        case Type::kClose: {
            FOREBAY_TRY(wire::parse_empty(frame.payload));
            return close(connection, frame);
        }
        default: return out_of_turn();
    }
}

// A close that has failed leaves what is staged where it is: the client may read it, and the file is brought home once
// the client has ended, as with a program that stages by itself.
Result<bool> Session::close(Connection& connection, const Connection::Frame& frame) {
    Status closed = served_->incomplete();
    const bool tried = closed.is_ok();
    if (tried) {
        const Writers::Request request(served_->writers(), connection, frame.header.request);
        closed = served_->close();
    }
    if (closed) served_.reset();
    else report_(closed.message());
    const Status sent = answer(connection, frame, closed);
    if (served_ == nullptr) return sent ? Result<bool>(false) : sent;
    if (const Status incomplete = served_->incomplete(); !tried || !incomplete) return closed;   // it is dropped
    close_failed_ = true;
    writes_ = false;   // a server that ends does not wait for it
    served_->mark_failed();
    return sent ? Result<bool>(true) : sent;
}

Status Session::change(Connection& connection, const Connection::Frame& frame) {
    FOREBAY_TRY(served_->failure());
    const Writers::Request request(served_->writers(), connection, frame.header.request);
    stage::StagedFile& file = served_->file();
    switch (frame.header.type) {
        case Type::kCommit: return served_->commit();
        case Type::kStepAside: return file.step_aside(ledger::AsideReason::kHandleTaken);
        case Type::kDrain: return file.drain();
        default: FOREBAY_TRY(file.drain()); return file.sync_drained();
    }
}

// Whoever cannot use the memory says so, and the client goes on without it.
Status Session::take_exposed(Connection& connection, const Connection::Frame& frame) {
    const auto bytes = wire::parse_expose(frame.payload);
    if (!bytes) return bytes.status();
    auto memory = connection.take_exposed(bytes.value());
    if (!memory) return answer(connection, frame, {Code::kUnsupported, memory.status().message()});
    if (exposed_ != nullptr) exposed_->clear();
    exposed_ = std::move(memory).value();
    return answer(connection, frame, Status::ok());
}

io::MutableBytes Session::exposed() const noexcept {
    return exposed_ != nullptr ? exposed_->bytes() : io::MutableBytes();
}

Status Session::write(Type type, io::Bytes payload) {
    const auto parsed = type == Type::kWrite ? wire::Write::parse(payload)
                                             : wire::Write::parse_exposed(payload, exposed());
    return parsed ? write(parsed.value()) : parsed.status();
}

Status Session::write(const wire::Write& message) {
    io::Bytes bytes = message.bytes();
    std::vector<stage::StagedFile::Part> parts;
    // Parts of one class after the other: later ones are newer.
    for (std::size_t i = 0; i < message.count();) {
        const wire::Class byte_class = message.part(i).byte_class;
        parts.clear();
        for (; i < message.count() && message.part(i).byte_class == byte_class; ++i) {
            const wire::Part part = message.part(i);
            parts.push_back({part.offset, bytes.first(part.bytes)});
            bytes = bytes.subspan(part.bytes);
        }
        const auto what = byte_class == wire::Class::kMetadata ? stage::ByteClass::kMetadata : stage::ByteClass::kRaw;
        FOREBAY_TRY(served_->file().write(parts, what));
    }
    return Status::ok();
}

Status Session::truncate(io::Bytes payload) {
    const auto size = wire::parse_size_of(payload);
    return size ? served_->file().truncate(size.value()) : size.status();
}

Status Session::read(const wire::Read& wanted, io::MutableBytes into) {
    return snapshot_ != nullptr ? snapshot_->read(wanted.offset, into) : served_->file().read(wanted.offset, into);
}

Status Session::read(Connection& connection, const Connection::Frame& frame) {
    const bool into_exposed = frame.header.type == Type::kReadExposed;
    wire::Read wanted;
    io::MutableBytes into;
    if (into_exposed) {
        const auto request = wire::parse_read_exposed(frame.payload, exposed().size());
        if (!request) return request.status();
        wanted = request.value().read;
        into = exposed().subspan(request.value().position, wanted.bytes);
    } else {
        const auto request = wire::parse_read(frame.payload);
        if (!request) return request.status();
        wanted = request.value();
        if (buffer_.size() < wanted.bytes) buffer_.resize(wanted.bytes);
        into = io::MutableBytes(buffer_).first(wanted.bytes);
    }
    const Status done = read(wanted, into);
    if (!done || into_exposed) return answer(connection, frame, done);
    return connection.send(Type::kData, frame.header.request, into);
}

}   // namespace forebay::server
