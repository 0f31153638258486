#include "wire/connection.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

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

Connection::Passed::~Passed() { put(-1); }

void Connection::Passed::put(int number) noexcept {
    if (number_ >= 0) ::close(number_);
    number_ = number;
}

// The descriptor goes with the payload, because the receiver of the header has no room for it.
Status Connection::send_with(Type type, std::uint64_t request, io::Bytes payload, int passed) {
    if (passed < 0 || sent_) return send(type, request, payload);
    const HeaderBytes header = encode({type, static_cast<std::uint32_t>(payload.size()), request});
    const std::array<io::Bytes, 1> first{io::Bytes(header)}, second{payload};
    FOREBAY_TRY(socket_->send(first));
    // If the system refuses to pass a descriptor (a limit, a policy), the other side finds none.
    const Status sent = socket_->send(second, passed);
    return sent ? sent : socket_->send(second);
}

Status Connection::expose(std::uint64_t request, const io::SharedMemory& memory) {
    return send_with(Type::kExpose, request, encode_size(memory.bytes().size()), memory.number());
}

// The other side ends the connection before it clears the memory.
Status Connection::copy_exposed(const io::SharedMemory& memory, io::MutableBytes into) const {
    std::memcpy(into.data(), memory.bytes().data(), into.size());
    if (socket_->is_connected()) return Status::ok();
    return {Code::kUnavailable, "the other side has closed the connection", ECONNRESET};
}

Result<std::unique_ptr<io::SharedMemory>> Connection::take_exposed(std::size_t bytes) {
    const int number = passed_.take();
    if (number < 0) return Status(Code::kUnsupported, "memory can be exposed through a Unix socket only");
    return io::SharedMemory::adopt(number, bytes);
}

Result<Connection::Frame> Connection::receive(io::MutableBytes into) {
    for (;;) {
        auto frame = receive_one(into);
        const bool working = frame && frame.value().header.type == Type::kWorking;
        if (!working || !passes_over_working_ || !frame.value().payload.empty()) return frame;
    }
}

Result<Connection::Frame> Connection::receive_one(io::MutableBytes into) {
    HeaderBytes bytes;
    FOREBAY_TRY(socket_->receive(bytes));
    const auto header = parse_header(bytes);
    if (!header) return header.status();
    if (header.value().payload_bytes > payload_max_) return Status(Code::kCorrupt, "a frame that is too long here");
    const std::size_t length = header.value().payload_bytes;
    const bool fits = header.value().type == Type::kData && length == into.size();
    if (!fits && buffer_.size() < length) buffer_.resize(length);
    const auto payload = fits ? into : io::MutableBytes(buffer_).first(length);
    const bool may_pass = header.value().type == Type::kExpose || header.value().type == Type::kOpen;
    if (may_pass && !received_ && length > 0) {
        const auto passed = socket_->receive_passed(payload);
        if (!passed) return passed.status();
        passed_.put(passed.value());
    } else {
        FOREBAY_TRY(receive_rest(payload));
    }
    if (received_) {
        Seal seal;
        FOREBAY_TRY(receive_rest(seal));
        const std::array<io::Bytes, 2> pieces{io::Bytes(bytes), payload};
        if (!received_->fits(pieces, seal)) return Status(Code::kCorrupt, "a frame whose seal does not fit");
    }
    return Frame{header.value(), payload};
}

}   // namespace forebay::wire
