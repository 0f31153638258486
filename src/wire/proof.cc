#include "wire/proof.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace forebay::wire {

namespace {

Result<SealKey> secret_of(const Credentials::Content& content) {
    SealKey secret;
    if (content.secret.size() != secret.size())
        return Status(Code::kPermissionDenied, "the credential has another secret than forebay's");
    std::copy(content.secret.begin(), content.secret.end(), secret.begin());
    return secret;
}

io::Bytes as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string text_of(io::Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

bool has_credential(const Connection::Frame& frame, Type type) {
    return frame.header.type == type && frame.header.request == kBeforeHello && !frame.payload.empty() &&
           frame.payload.size() <= kCredentialMax;
}

Status check_proof(const Connection::Frame& frame) {
    // Nobody knows yet who says so: its words count, and nothing that the caller would act upon.
    if (frame.header.type == Type::kFailed) return {Code::kUnavailable, parse_failed(frame.payload).message()};
    return has_credential(frame, Type::kProve) ? Status::ok() : Status(Code::kCorrupt, "no proof of who it is");
}

}   // namespace

Status prove_to_server(Connection& connection, Credentials& credentials) {
    const std::uint32_t own = ::geteuid();
    const auto secret = new_secret();
    if (!secret) return secret.status();
    // It holds no secret, and no other service's processes can read it: who has seen it has nothing.
    const auto name = credentials.make({}, kIdentifiers);
    if (!name) return name.status();
    const auto credential = credentials.make(secret.value(), own);
    if (!credential) return credential.status();
    FOREBAY_TRY(connection.send(Type::kIdentify, kBeforeHello, as_bytes(name.value())));
    FOREBAY_TRY(connection.send(Type::kProve, kBeforeHello, as_bytes(credential.value())));
    const auto answer = connection.receive();
    if (!answer) return answer.status();
    FOREBAY_TRY(check_proof(answer.value()));
    const auto content = credentials.read(text_of(answer.value().payload));
    if (!content) return content.status();
    // Whoever listens there gets the program's data.
    if (content.value().user != own && content.value().user != 0)
        return {Code::kPermissionDenied,
                fmt::format("it belongs to user {}, and this process to {}", content.value().user, own)};
    const auto of_server = secret_of(content.value());
    if (!of_server) return of_server.status();
    const auto keys = derive_keys(secret.value(), of_server.value());
    return keys ? connection.seal(keys.value().to_server, keys.value().to_client) : keys.status();
}

Status prove_to_client(Connection& connection, Credentials& credentials) {
    auto first = connection.receive();
    // What it says of itself makes no difference here: the proof names it again.
    if (first && has_credential(first.value(), Type::kIdentify)) first = connection.receive();
    if (!first) return first.status();
    FOREBAY_TRY(check_proof(first.value()));
    const std::uint32_t own = ::geteuid();
    const auto content = credentials.read(text_of(first.value().payload));
    if (!content) return content.status();
    if (content.value().user != own) {
        const Status refusal(Code::kPermissionDenied,
                             fmt::format("this server serves user {} only, not {}", own, content.value().user));
        (void)connection.send(Type::kFailed, kBeforeHello, encode(refusal));
        return refusal;
    }
    const auto of_client = secret_of(content.value());
    if (!of_client) return of_client.status();
    const auto secret = new_secret();
    if (!secret) return secret.status();
    const auto credential = credentials.make(secret.value(), content.value().user);
    if (!credential) return credential.status();
    const auto keys = derive_keys(of_client.value(), secret.value());
    if (!keys) return keys.status();
    FOREBAY_TRY(connection.send(Type::kProve, kBeforeHello, as_bytes(credential.value())));
    return connection.seal(keys.value().to_client, keys.value().to_server);
}

Result<std::uint32_t> identified_user(const Connection::Frame& frame, Credentials& credentials) {
    if (!has_credential(frame, Type::kIdentify)) return Status(Code::kCorrupt, "it does not say who it is (IDENTIFY)");
    const auto content = credentials.read(text_of(frame.payload));
    if (!content) return content.status();
    return content.value().user;
}

}   // namespace forebay::wire
