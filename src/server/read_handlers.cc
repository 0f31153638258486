#include "server/read_handlers.h"

#include "cache/attached_replica.h"
#include "io/event.h"

namespace forebay::server {

using wire::Type;
using Next = SessionHandler::Next;

Result<Next> SnapshotHandler::serve(const wire::Connection::Frame& request) {
    Status served = out_of_turn();
    if (request.header.type == Type::kExpose) served = transfer_.expose(request);
    if (request.header.type == Type::kRead || request.header.type == Type::kReadExposed)
        served = transfer_.read(request, [this](std::uint64_t offset, io::MutableBytes into) {
            return snapshot_->read(offset, into);
        });
    return served ? Result<Next>(Next::kGoesOn) : served;
}

std::string SnapshotHandler::end(const Status& end) {
    transfer_.end();
    return describe_end(end);
}

Result<Next> FollowHandler::serve(const wire::Connection::Frame& request) {
    if (request.header.type != Type::kNext) return out_of_turn();
    const auto known = wire::parse_number(request.payload);
    if (!known) return known.status();
    auto event = io::Event::create();
    if (!event) return event.status();
    const Observers::Following following(*observers_, *event.value());
    for (;;) {
        event.value()->clear();
        const wire::Commits news = observers_->after(known.value(), writer_);
        if (!news.commits.empty() || news.writer != wire::Commits::Writer::kWrites) {
            const Status sent = connection_.send(Type::kCommits, request.header.request, wire::encode(news));
            return sent ? Result<Next>(Next::kGoesOn) : sent;
        }
        const auto input = connection_.socket().await_input(event.value()->number());
        if (!input) return input.status();
        if (input.value()) return Next::kGoesOn;   // the client has gone, or asks out of turn: the next frame shows it
    }
}

Status CachedHandler::open(std::uint64_t number, const wire::Open& request) {
    file_ = nullptr;
    auto opened = files_.open(request, connection_.sealed());
    if (!opened) return connection_.send(Type::kFailed, number, wire::encode(opened.status()));
    file_ = std::move(opened).value();
    const cache::Replica& replica = *file_->attached()->replica();
    return connection_.send(Type::kOpened, number, wire::encode(wire::Opened{replica.source().size, replica.label()}));
}

Status CachedHandler::read(const wire::Connection::Frame& request) {
    const auto wanted = wire::parse_read(request.payload);
    if (!wanted) return wanted.status();
    if (file_ == nullptr) return answer(connection_, request, {Code::kUnavailable, "no file is open"});
    const std::uint64_t size = file_->attached()->replica()->source().size;
    if (wanted.value().offset > size || wanted.value().bytes > size - wanted.value().offset)
        return {Code::kCorrupt, "a request for bytes behind the end of the file"};
    wire::Payload buffer = files_.take_buffer();
    if (buffer.size() < wanted.value().bytes) buffer.resize(wanted.value().bytes);
    const io::MutableBytes into = io::MutableBytes(buffer).first(wanted.value().bytes);
    const Status done = CachedFiles::read(*file_, wanted.value().offset, into);
    const Status sent = done ? connection_.send(Type::kData, request.header.request, into)
                             : answer(connection_, request, done);
    files_.give_back(std::move(buffer));
    return sent;
}

Result<Next> CachedHandler::serve(const wire::Connection::Frame& request) {
    Status served = out_of_turn();
    if (request.header.type == Type::kRead) served = read(request);
    if (request.header.type == Type::kOpen) {
        const auto wanted = wire::parse_open(request.payload);
        if (!wanted) return wanted.status();
        if (wanted.value().purpose == wire::Purpose::kReadCached) served = open(request.header.request, wanted.value());
    }
    return served ? Result<Next>(Next::kGoesOn) : served;
}

}   // namespace forebay::server
