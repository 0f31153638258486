#include "wire/connection.h"

#include <array>
#include <cerrno>

namespace forebay::wire {

Status Connection::send(Type type, std::uint64_t request, io::Bytes head, io::Bytes bytes) {
    const HeaderBytes header = encode({type, static_cast<std::uint32_t>(head.size() + bytes.size()), request});
    std::array<io::Bytes, 4> pieces{io::Bytes(header), head, bytes};
    if (!sent_) return socket_->send(std::span(pieces).first(3));
    const Seal seal = sent_->next(std::span(pieces).first(3));
    pieces[3] = seal;
    return socket_->send(pieces);
}

Status Connection::receive_rest(io::MutableBytes into) {
    Status received = socket_->receive(into);
    if (received.code() == Code::kNotFound) received = Status::from_errno(ECONNRESET, "receive the rest of a frame");
    return received;
}

Status Connection::seal(const SealKey& sent, const SealKey& received) {
    const auto out = FrameSeal::with(sent);
    if (!out) return out.status();
    const auto in = FrameSeal::with(received);
    if (!in) return in.status();
    sent_ = out.value();
    received_ = in.value();
    return Status::ok();
}

Result<Connection::Frame> Connection::receive(io::MutableBytes into) {
    HeaderBytes bytes;
    FOREBAY_TRY(socket_->receive(bytes));
    const auto header = parse_header(bytes);
    if (!header) return header.status();
    if (header.value().payload_bytes > payload_max_) return Status(Code::kCorrupt, "a frame that is too long here");
    const std::size_t length = header.value().payload_bytes;
    const bool fits = header.value().type == Type::kData && length == into.size();
    if (!fits && buffer_.size() < length) buffer_.resize(length);
    const auto payload = fits ? into : io::MutableBytes(buffer_).first(length);
    FOREBAY_TRY(receive_rest(payload));
    if (received_) {
        Seal seal;
        FOREBAY_TRY(receive_rest(seal));
        const std::array<io::Bytes, 2> pieces{io::Bytes(bytes), payload};
        if (!received_->fits(pieces, seal)) return Status(Code::kCorrupt, "a frame whose seal does not fit");
    }
    return Frame{header.value(), payload};
}

}   // namespace forebay::wire
