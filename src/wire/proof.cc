#include "wire/proof.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace forebay::wire {

namespace {

constexpr std::uint64_t kRequest = 0;   // before the first of the session

Result<SealKey> secret_of(const Credentials::Content& content) {
    SealKey secret;
    if (content.secret.size() != secret.size())
        return Status(Code::kPermissionDenied, "the credential has another secret than forebay's");
    std::copy(content.secret.begin(), content.secret.end(), secret.begin());
    return secret;
}

io::Bytes as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string text_of(io::Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

Status check_proof(const Connection::Frame& frame) {
    // Nobody knows yet who says so: its words count, and nothing that the caller would act upon.
    if (frame.header.type == Type::kFailed) return {Code::kUnavailable, parse_failed(frame.payload).message()};
    const bool fits = frame.header.type == Type::kProve && frame.header.request == kRequest && !frame.payload.empty() &&
                      frame.payload.size() <= kCredentialMax;
    return fits ? Status::ok() : Status(Code::kCorrupt, "no proof of who it is");
}

}   // namespace

Status prove_to_server(Connection& connection, Credentials& credentials) {
    const std::uint32_t own = ::geteuid();
    const auto secret = new_secret();
    if (!secret) return secret.status();
    const auto credential = credentials.make(secret.value(), own);
    if (!credential) return credential.status();
    FOREBAY_TRY(connection.send(Type::kProve, kRequest, as_bytes(credential.value())));
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

Status prove_to_client(Connection& connection, Credentials& credentials, const Connection::Frame& first) {
    FOREBAY_TRY(check_proof(first));
    const std::uint32_t own = ::geteuid();
    const auto content = credentials.read(text_of(first.payload));
    if (!content) return content.status();
    if (content.value().user != own) {
        const Status refusal(Code::kPermissionDenied,
                             fmt::format("this server serves user {} only, not {}", own, content.value().user));
        (void)connection.send(Type::kFailed, kRequest, encode(refusal));
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
    FOREBAY_TRY(connection.send(Type::kProve, kRequest, as_bytes(credential.value())));
    return connection.seal(keys.value().to_client, keys.value().to_server);
}

}   // namespace forebay::wire
