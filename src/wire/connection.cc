#include "wire/connection.h"

#include <array>
#include <cerrno>

namespace forebay::wire {

Status Connection::send(Type type, std::uint64_t request, io::Bytes head, io::Bytes bytes) {
    const HeaderBytes header = encode({type, static_cast<std::uint32_t>(head.size() + bytes.size()), request});
    const std::array<io::Bytes, 3> pieces{io::Bytes(header), head, bytes};
    return socket_->send(pieces);
}

Result<Connection::Frame> Connection::receive() {
    HeaderBytes bytes;
    FOREBAY_TRY(socket_->receive(bytes));
    const auto header = parse_header(bytes);
    if (!header) return header.status();
    if (buffer_.size() < header.value().payload_bytes) buffer_.resize(header.value().payload_bytes);
    const auto payload = io::MutableBytes(buffer_).first(header.value().payload_bytes);
    if (const Status received = socket_->receive(payload); !received) {
        if (received.code() == Code::kNotFound) return Status::from_errno(ECONNRESET, "receive the rest of a frame");
        return received;
    }
    return Frame{header.value(), payload};
}

}   // namespace forebay::wire
