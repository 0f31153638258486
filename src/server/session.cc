#include "server/session.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/attempt.h"
#include "server/read_handlers.h"
#include "wire/proof.h"

namespace forebay::server {

namespace {

using wire::Connection;
using wire::Type;

constexpr std::chrono::seconds kOpening{10}, kSending{60}, kWithoutEnd{0};
constexpr std::uint32_t kCreditFrames = 64, kCreditBytes = 8 << 20;
constexpr std::uint64_t kHelloRequest = 1, kOpenRequest = 2;

}   // namespace

void Session::run(Connection& connection) {
    std::unique_ptr<SessionHandler> handler;
    const Status end = attempt([&]() -> Status {
        FOREBAY_TRY(welcome(connection));
        FOREBAY_TRY(open(connection, handler));
        FOREBAY_TRY(connection.socket().set_patience(kWithoutEnd, kSending));
        for (std::uint64_t last = kOpenRequest;;) {
            const auto frame = connection.receive();
            if (!frame) return frame.status();
            if (frame.value().header.request != ++last) return out_of_turn();
            const auto next = handler->serve(frame.value());
            if (!next) return next.status();
            if (next.value() == SessionHandler::Next::kEnds) return Status::ok();
        }
    });
    connection.socket().shut_down();
    // A lack of memory must not end the server. The handler's file then ends without a line (~ServedFile).
    (void)attempt([&] {
        const std::string line = handler != nullptr ? handler->end(end) : describe_end(end);
        if (!line.empty()) report_(line);
    });
}

Status Session::prove(Connection& connection) {
    if (key_ == nullptr) return out_of_turn();
    connection.allow_payload(sizeof(wire::SealKey));
    return wire::prove_to_client(connection, *key_);
}

Status Session::welcome(Connection& connection) {
    FOREBAY_TRY(connection.socket().set_patience(kOpening, kSending));
    connection.socket().set_deadline(std::chrono::steady_clock::now() + kOpening);
    if (!connection.socket().is_local()) FOREBAY_TRY(prove(connection));
    connection.allow_payload(wire::kOpenMax);   // bounds the memory of clients before their open
    const auto frame = connection.receive();
    if (!frame) return frame.status();
    if (frame.value().header.type != Type::kHello || frame.value().header.request != kHelloRequest)
        return out_of_turn();
    const auto hello = wire::parse_hello(frame.value().payload);
    if (!hello) return hello.status();
    if (hello.value().lowest > wire::kVersion || hello.value().highest < wire::kVersion) {
        const Status refused(Code::kUnavailable, fmt::format("this server speaks version {} only", wire::kVersion));
        (void)answer(connection, frame.value(), refused);
        return refused;
    }
    const wire::Welcome welcome{wire::kVersion, kCreditFrames, kCreditBytes, epoch_};
    return connection.send(Type::kWelcome, kHelloRequest, wire::encode(welcome));
}

Status Session::open(Connection& connection, Handler& handler) {
    const auto frame = connection.receive();
    if (!frame) return frame.status();
    connection.socket().set_deadline(std::nullopt);
    if (frame.value().header.type != Type::kOpen || frame.value().header.request != kOpenRequest) return out_of_turn();
    auto request = wire::parse_open(frame.value().payload);
    if (!request) return request.status();
    if (request.value().purpose == wire::Purpose::kReadCached) return open_cached(connection, request.value(), handler);
    const Status opened = open_file(connection, request.value(), handler);
    connection.close_passed();
    if (opened) {
        connection.allow_payload(wire::kPayloadMax);
        return opened;
    }
    (void)answer(connection, frame.value(), opened);
    // The operator learns only of refused writers: the line for kNotFound is empty.
    const bool writes = request.value().purpose == wire::Purpose::kWrite;
    return writes ? opened : Status(Code::kNotFound, opened.message());
}

// Sets `handler` before the answer: without the client it still brings the file to its last commit.
Status Session::open_file(Connection& connection, wire::Open& request, Handler& handler) {
    if (files_ == nullptr) return {Code::kUnsupported, "this server serves only reads through its cache"};
    if (connection.sealed()) FOREBAY_TRY(files_->recognise(request));
    wire::Opened answer;
    switch (request.purpose) {
        case wire::Purpose::kWrite: {
            use_.wrote = use_.writes = true;
            auto file = files_->open(request, connection);
            if (!file) return file.status();
            answer = {file.value()->file().size(), file.value()->log_directory()};
            handler = std::make_unique<WriteHandler>(std::move(file).value(), connection, report_, use_.writes);
            break;
        }
        case wire::Purpose::kRead: {
            auto snapshot = files_->open_to_read(request);
            if (!snapshot) return snapshot.status();
            answer.size = snapshot.value()->size();
            handler = std::make_unique<SnapshotHandler>(std::move(snapshot).value(), connection);
            break;
        }
        case wire::Purpose::kFollow: {
            auto observers = files_->open_to_follow(request);
            if (!observers) return observers.status();
            handler = std::make_unique<FollowHandler>(std::move(observers).value(), connection);
            break;
        }
        case wire::Purpose::kReadCached: return out_of_turn();
    }
    return connection.send(Type::kOpened, kOpenRequest, wire::encode(answer));
}

// Ends the session of a refused reader at once, so that readers take no writer's place.
Status Session::open_cached(Connection& connection, const wire::Open& request, Handler& handler) {
    auto reader = cached_files_ != nullptr ? cached_files_->admit() : nullptr;
    if (reader == nullptr) {
        const Status refusal(Code::kUnsupported,
                             cached_files_ == nullptr
                                 ? "this server has no read cache (option read_cache)"
                                 : fmt::format("this server has the maximum of {} readers", CachedFiles::kReadersMax));
        (void)connection.send(Type::kFailed, kOpenRequest, wire::encode(refusal));
        return {Code::kNotFound, refusal.message()};
    }
    auto cached = std::make_unique<CachedHandler>(*cached_files_, std::move(reader), connection);
    FOREBAY_TRY(cached->open(kOpenRequest, request));
    handler = std::move(cached);
    return Status::ok();
}

}   // namespace forebay::server
