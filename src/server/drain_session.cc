#include "server/drain_session.h"

#include <cerrno>

#include "base/attempt.h"
#include "io/posix_file.h"

namespace forebay::server {

using wire::Connection;
using wire::Type;

namespace {

Status out_of_turn() { return {Code::kCorrupt, "a request that is not allowed here"}; }

Status answer(Connection& connection, std::uint64_t request, const Status& outcome) {
    if (outcome) return connection.send(Type::kDone, request, {});
    return connection.send(Type::kFailed, request, wire::encode(outcome));
}

Status append_pieces(io::Bytes payload, std::vector<WriteCombiner::Piece>& pieces) {
    const auto parsed = wire::Write::parse(payload);
    if (!parsed) return parsed.status();
    io::Bytes bytes = parsed.value().bytes();
    for (std::size_t i = 0; i < parsed.value().count(); ++i) {
        const wire::Part part = parsed.value().part(i);
        pieces.push_back({part.offset, bytes.first(part.bytes)});
        bytes = bytes.subspan(part.bytes);
    }
    return Status::ok();
}

}   // namespace

DrainedFile::DrainedFile(std::shared_ptr<io::Descriptor> opened, const std::string& path, std::uint64_t stripe_bytes,
                         std::size_t writes_max)
    : descriptor(std::move(opened)),
      file(io::make_posix_file(descriptor, path)),
      combiner(*file, stripe_bytes != 0 ? stripe_bytes : file->traits().stripe_bytes, writes_max) {}

Result<std::unique_ptr<DrainSession>> DrainSession::open(ServedFiles& files, const wire::Open& request,
                                                         Connection& connection) {
    std::unique_ptr<DrainSession> session(new DrainSession(files, request, connection.socket()));
    auto drained = files.open_to_drain(request, connection.socket());
    if (!drained) return drained.status();
    session->drained_ = std::move(drained).value();
    const auto size = session->drained_->file->size();
    if (!size) return size.status();
    session->size_ = size.value();
    return session;
}

DrainSession::~DrainSession() {
    if (drained_ == nullptr) return;
    drained_.reset();   // so that the last session closes it
    files_.close_drained(request_, socket_);
}

Result<bool> DrainSession::serve(Connection& connection, const Connection::Frame& frame) {
    const auto goes_on = [](const Status& sent) { return sent ? Result<bool>(true) : sent; };
    if (!gathered_.empty() && frame.header.type != Type::kWrite) return out_of_turn();
    switch (frame.header.type) {
        case Type::kWrite: return goes_on(write(connection, frame));
        case Type::kRead: return goes_on(read(connection, frame));
        case Type::kTruncate:
        case Type::kSync: {
            const Status outcome = change(frame);
            if (outcome.code() == Code::kCorrupt) return outcome;
            return goes_on(answer(connection, frame.header.request, outcome));
        }
        case Type::kClose: {
            FOREBAY_TRY(wire::parse_empty(frame.payload));
            // Network file systems write back then, and other machines see it.
            const int error = drained_->descriptor->flush_as_close();
            const Status closed = error == 0 ? Status::ok() : Status::from_errno(error, "close " + request_.path);
            const Status sent = answer(connection, frame.header.request, closed);
            return sent ? Result<bool>(false) : sent;
        }
        default: return out_of_turn();
    }
}

// Frames that belong together are written as one, and all answered then.
Status DrainSession::write(Connection& connection, const Connection::Frame& frame) {
    const auto parsed = wire::Write::parse(frame.payload);
    if (!parsed) return parsed.status();
    const std::uint64_t number = frame.header.request;
    if (gathered_.empty()) first_request_ = number;
    gathered_bytes_ += frame.payload.size();
    if (parsed.value().more()) {
        if (gathered_bytes_ > wire::kDrainWriteMax) return {Code::kCorrupt, "a write of too many frames"};
        gathered_.emplace_back(frame.payload.begin(), frame.payload.end());
        return Status::ok();
    }
    std::vector<WriteCombiner::Piece> pieces;
    for (const wire::Payload& payload : gathered_) FOREBAY_TRY(append_pieces(payload, pieces));
    FOREBAY_TRY(append_pieces(frame.payload, pieces));
    const Status outcome = drained_->combiner.write(pieces);
    gathered_.clear();
    gathered_bytes_ = 0;
    for (std::uint64_t request = first_request_; request <= number; ++request)
        FOREBAY_TRY(answer(connection, request, outcome));
    return Status::ok();
}

Status DrainSession::read(Connection& connection, const Connection::Frame& frame) {
    const auto request = wire::parse_read(frame.payload);
    if (!request) return request.status();
    if (buffer_.size() < request.value().bytes) buffer_.resize(request.value().bytes);
    const io::MutableBytes into = io::MutableBytes(buffer_).first(request.value().bytes);
    const auto got = drained_->file->read_at(request.value().offset, into);
    if (!got) return answer(connection, frame.header.request, got.status());
    return connection.send(Type::kData, frame.header.request, into.first(got.value()));
}

Status DrainSession::change(const Connection::Frame& frame) {
    if (frame.header.type == Type::kSync) {
        FOREBAY_TRY(wire::parse_empty(frame.payload));
        return drained_->file->sync();
    }
    const auto size = wire::parse_size_of(frame.payload);
    if (!size) return size.status();
    return drained_->combiner.alone([&] { return drained_->file->resize(size.value()); });
}

}   // namespace forebay::server
