#include "wire/proof.h"

#include <algorithm>

namespace forebay::wire {

namespace {

Result<SealKey> random_bytes_of(const Connection::Frame& frame) {
    // The sender is not yet proved, so its text is reported, but its code is not acted upon.
    if (frame.header.type == Type::kFailed) return Status(Code::kUnavailable, parse_failed(frame.payload).message());
    SealKey bytes;
    if (frame.header.type != Type::kProve || frame.header.request != kBeforeHello ||
        frame.payload.size() != bytes.size())
        return Status(Code::kCorrupt, "it does not prove its identity (PROVE)");
    std::copy(frame.payload.begin(), frame.payload.end(), bytes.begin());
    return bytes;
}

}   // namespace

Status prove_to_server(Connection& connection, const SealKey& key) {
    const auto mine = new_secret();
    if (!mine) return mine.status();
    FOREBAY_TRY(connection.send(Type::kProve, kBeforeHello, mine.value()));
    const auto answer = connection.receive();
    if (!answer) return answer.status();
    const auto others = random_bytes_of(answer.value());
    if (!others) return others.status();
    const auto keys = derive_keys(key, mine.value(), others.value());
    if (!keys) return keys.status();
    FOREBAY_TRY(connection.seal(keys.value().to_server, keys.value().to_client));
    const auto proof = connection.receive();
    if (proof.status().code() == Code::kCorrupt)
        return {Code::kPermissionDenied, "its key differs from that of this program (option server_key)"};
    if (!proof) return proof.status();
    const Header& header = proof.value().header;
    if (header.type == Type::kDone && header.request == kBeforeHello) return Status::ok();
    return {Code::kCorrupt, "its answer is of another kind"};
}

Status prove_to_client(Connection& connection, const SealKey& key) {
    const auto first = connection.receive();
    if (!first) return first.status();
    const auto others = random_bytes_of(first.value());
    if (!others) return others.status();
    const auto mine = new_secret();
    if (!mine) return mine.status();
    const auto keys = derive_keys(key, others.value(), mine.value());
    if (!keys) return keys.status();
    FOREBAY_TRY(connection.send(Type::kProve, kBeforeHello, mine.value()));
    FOREBAY_TRY(connection.seal(keys.value().to_client, keys.value().to_server));
    return connection.send(Type::kDone, kBeforeHello, {});
}

}   // namespace forebay::wire
