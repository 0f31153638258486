#include "wire/requests.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace forebay::wire {

Requests::Requests(ClientSession session, bool local, RefusedWrite refused)
    : connection_(std::move(session.connection)),
      credits_(session.welcome),
      refused_(std::move(refused)),
      may_expose_(local) {}

Requests::~Requests() = default;

Status Requests::lose(const Status& why) noexcept {
    lost_ = true;
    connection_->socket().shut_down();
    return why;
}

// Loses the connection if no frame comes. With `late` it stays if the patience ends.
Result<Connection::Frame> Requests::receive_in_time(bool* late) {
    auto frame = connection_->receive();
    if (frame) return frame;
    if (late == nullptr || frame.status().sys_errno() != EAGAIN) return lose(frame.status());
    *late = true;
    return frame;
}

// Receives the answer to the oldest WRITE. An error means that the connection is lost.
Status Requests::receive_write_answer(bool* late) {
    const auto frame = receive_in_time(late);
    if (!frame) return frame.status();
    const Header& header = frame.value().header;
    if (header.request != answered_ + 1) return lose({Code::kCorrupt, "it answers out of turn"});
    answered_ = header.request;
    unanswered_bytes_ -= unanswered_.front().bytes;
    if (unanswered_.front().exposed) exposed_->give_back();
    unanswered_.erase(unanswered_.begin());
    if (header.type == Type::kDone) return Status::ok();
    if (header.type != Type::kFailed) return lose({Code::kCorrupt, "its answer is not one to a write"});
    refused_(parse_failed(frame.value().payload));
    return Status::ok();
}

Status Requests::await_writes(bool* late) {
    while (!unanswered_.empty()) FOREBAY_TRY(receive_write_answer(late));
    return Status::ok();
}

Result<Connection::Frame> Requests::receive_answer(Type answer, bool* late) {
    FOREBAY_TRY(await_writes(late));
    auto frame = receive_in_time(late);
    if (!frame) return frame;
    const Header& header = frame.value().header;
    if (header.request != sent_) return lose({Code::kCorrupt, "it answers out of turn"});
    answered_ = header.request;
    if (header.type == Type::kFailed) return parse_failed(frame.value().payload);
    if (header.type != answer) return lose({Code::kCorrupt, "its answer is of another kind"});
    return frame;
}

Result<Connection::Frame> Requests::call(Type type, io::Bytes payload, Type answer, bool* late) {
    if (const Status sent = connection_->send(type, ++sent_, payload); !sent) return lose(sent);
    return receive_answer(answer, late);
}

Status Requests::await_credit(std::size_t bytes) {
    while (!unanswered_.empty() &&
           (unanswered_.size() >= credits_.credit_frames || unanswered_bytes_ + bytes > credits_.credit_bytes))
        FOREBAY_TRY(receive_write_answer());
    return Status::ok();
}

Status Requests::send_write(io::Bytes head, io::Bytes bytes) {
    const std::size_t size = head.size() + bytes.size();
    FOREBAY_TRY(await_credit(size));
    if (const Status sent = connection_->send(Type::kWrite, ++sent_, head, bytes); !sent) return lose(sent);
    unanswered_.push_back({static_cast<std::uint32_t>(size), false});
    unanswered_bytes_ += size;
    return Status::ok();
}

Status Requests::send_exposed_write(std::span<const Part> parts, io::Bytes bytes) {
    FOREBAY_TRY(await_credit(bytes.size()));
    while (exposed_->full()) FOREBAY_TRY(receive_write_answer());
    const std::size_t place = exposed_->take();
    std::memcpy(exposed_->bytes().data() + place, bytes.data(), bytes.size());
    if (const Status sent = connection_->send(Type::kWriteExposed, ++sent_, encode_exposed(place, parts)); !sent)
        return lose(sent);
    unanswered_.push_back({static_cast<std::uint32_t>(bytes.size()), true});
    unanswered_bytes_ += bytes.size();
    return Status::ok();
}

// Exposes memory once large requests have carried kExposeAfter bytes. Where that fails, the session goes on without it.
Status Requests::expose_for(std::size_t bytes) {
    if (!may_expose_ || bytes < kExposedMin) return Status::ok();
    unexposed_bytes_ += bytes;
    if (unexposed_bytes_ < kExposeAfter) return Status::ok();
    may_expose_ = false;
    auto memory = io::SharedMemory::create(kExposedBytes);
    if (!memory) return Status::ok();
    if (const Status sent = connection_->expose(++sent_, *memory.value()); !sent) return lose(sent);
    memory.value()->close_number();
    const Status taken = receive_answer(Type::kDone, nullptr).status();
    if (taken) exposed_ = std::make_unique<ExposedMemory>(std::move(memory).value());
    return lost_ ? taken : Status::ok();
}

Status Requests::write(std::span<const Part> parts, io::Bytes head, io::Bytes bytes) {
    FOREBAY_TRY(expose_for(bytes.size()));
    return is_exposed(bytes.size()) ? send_exposed_write(parts, bytes) : send_write(head, bytes);
}

// The server reads into the exposed memory after it has carried out all earlier WRITEs, so any place is free.
Status Requests::read(std::uint64_t offset, io::MutableBytes into) {
    const Read wanted{offset, static_cast<std::uint32_t>(into.size())};
    FOREBAY_TRY(expose_for(into.size()));
    if (is_exposed(into.size())) {
        FOREBAY_TRY(call(Type::kReadExposed, encode(ReadExposed{wanted, 0}), Type::kDone).status());
        const Status copied = connection_->copy_exposed(exposed_->memory(), into);
        return copied ? copied : lose(copied);
    }
    const auto answer = call(Type::kRead, encode(wanted), Type::kData);
    if (!answer) return answer.status();
    if (answer.value().payload.size() != into.size()) return {Code::kCorrupt, "a read was cut short"};
    std::memcpy(into.data(), answer.value().payload.data(), into.size());
    return Status::ok();
}

}   // namespace forebay::wire
