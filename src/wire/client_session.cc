#include "wire/client_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "wire/key_file.h"
#include "wire/proof.h"

namespace forebay::wire {

namespace {

// The server has a patience of its own, and answers at its end. A greeting takes no longer, whatever the server does.
constexpr std::uint64_t kAnswerSeconds = 30;

// The listener would receive the program's data, so it must belong to the same user.
Status check_user(const Result<std::uint32_t>& user) {
    if (!user) return user.status();
    if (user.value() == ::geteuid()) return Status::ok();
    return {Code::kPermissionDenied,
            fmt::format("it belongs to user {}, and this process to {}", user.value(), ::geteuid())};
}

Status not_connected(const Status& why) {
    const bool nobody = why.sys_errno() == ECONNREFUSED || why.sys_errno() == ENOENT;
    return {nobody ? Code::kNotFound : Code::kUnavailable, why.message(), why.sys_errno()};
}

// A server was there. The end of the connection does not mean that no process writes the file.
Status after_connecting(const Status& why) {
    if (why.code() != Code::kNotFound) return why;
    return {Code::kUnavailable, why.message(), why.sys_errno()};
}

Result<io::Descriptor::Use> out_of_use() { return Status(Code::kUnsupported, "nothing is passed"); }

// The server still has the file, or waits.
Status silent(const Status& why) {
    if (why.sys_errno() != EAGAIN && why.sys_errno() != ETIMEDOUT) return why;
    return {why.code(), "it does not answer: it is stopped, or waits for the end of what another session has written",
            why.sys_errno()};
}

// The exchange before OPEN does not concern the file. A stranger at the address that stays silent is not waited for.
Status greet(ClientSession& session, const io::Address& server, bool local) {
    Connection& connection = *session.connection;
    if (local) FOREBAY_TRY(check_user(connection.socket().listening_user()));
    if (!local) {
        const auto key = read_key(key_file(server.key_file));
        if (!key) return {Code::kUnavailable, key.status().message()};
        FOREBAY_TRY(prove_to_server(connection, key.value()));
    }
    const Hello hello{kVersion, kVersion, static_cast<std::uint32_t>(::getpid())};
    FOREBAY_TRY(connection.send(Type::kHello, 1, encode(hello)));
    const auto welcomed = connection.receive();
    if (!welcomed) return welcomed.status();
    if (welcomed.value().header.request != 1) return {Code::kCorrupt, "it answers out of turn"};
    // The sender is not yet proved, so its text is reported, but its code is not acted upon.
    if (welcomed.value().header.type == Type::kFailed)
        return {Code::kUnavailable, parse_failed(welcomed.value().payload).message()};
    if (welcomed.value().header.type != Type::kWelcome) return {Code::kCorrupt, "its answer is of another kind"};
    const auto welcome = parse_welcome(welcomed.value().payload);
    if (!welcome) return welcome.status();
    session.welcome = welcome.value();
    return local ? check_user(connection.socket().peer_user()) : Status::ok();
}

}   // namespace

Status check_path(const std::string& path) {
    if (!path.empty() && path.front() == '/' && path.size() <= kPathMax) return Status::ok();
    return {Code::kUnsupported, path + ": its path is not absolute, or too long for a server"};
}

Result<Open> describe(io::File& file, Purpose purpose, const io::Address& server) {
    const std::string& path = file.name();
    FOREBAY_TRY(check_path(path));
    const auto identity = file.identity();
    if (!identity) return identity.status();
    Open message{false, false, identity.value(), path, purpose, {}, {}};
    if (server.is_local()) return message;
    if (file.traits().local)
        return Status(Code::kUnsupported, path + ": it lies on this machine, and the server is another one");
    const auto state = file.state();
    if (!state) return state.status();
    message.seen.born_ns = state.value().born_ns;
    // A file that is read or followed has a writer, and changes all the time.
    if (purpose == Purpose::kWrite)
        message.seen = {state.value().born_ns, state.value().size, state.value().modified_ns, state.value().changed_ns};
    return message;
}

Result<Connection::Frame> call(Connection& connection, std::uint64_t request, Type type, io::Bytes payload,
                               Type answer) {
    FOREBAY_TRY(connection.send(type, request, payload));
    return answer_to(connection, request, answer);
}

Result<Connection::Frame> answer_to(Connection& connection, std::uint64_t request, Type answer) {
    auto frame = connection.receive();
    if (!frame) return frame;
    const Header& header = frame.value().header;
    if (header.request != request) return Status(Code::kCorrupt, "it answers out of turn");
    if (header.type == Type::kFailed) return parse_failed(frame.value().payload);
    if (header.type != answer) return Status(Code::kCorrupt, "its answer is of another kind");
    return frame;
}

Result<ClientSession> begin_session(const io::Address& server, std::chrono::seconds patience,
                                    std::optional<std::chrono::steady_clock::time_point> deadline) {
    auto socket = io::Socket::connect(server, patience);
    if (!socket) return not_connected(socket.status());
    ClientSession session{std::make_unique<Connection>(std::move(socket).value()), {}, {}};
    session.connection->pass_over_working();
    const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(kAnswerSeconds);
    session.connection->socket().set_deadline(std::min(deadline.value_or(latest), latest));
    FOREBAY_TRY(after_connecting(greet(session, server, session.connection->socket().is_local())));
    session.connection->socket().set_deadline(std::nullopt);
    return session;
}

Result<ClientSession> open_session(const io::Address& server, std::uint64_t patience_s, const Open& message,
                                   bool* unanswered, const std::shared_ptr<io::Descriptor>& locked) {
    auto begun = begin_session(
        server, std::chrono::seconds(static_cast<std::int64_t>(patience_s == 0 ? 0 : patience_s + kAnswerSeconds)));
    if (!begun) return begun;
    ClientSession session = std::move(begun).value();
    Connection& connection = *session.connection;
    bool taken = true;   // until the answer says otherwise
    bool& may_be_taken = unanswered != nullptr ? *unanswered : taken;
    may_be_taken = true;
    {
        // Without the descriptor the server takes the lock after this process has ended.
        const auto use = locked != nullptr && connection.socket().is_unix() ? locked->use() : out_of_use();
        const int passed = use ? use.value().number() : -1;
        FOREBAY_TRY(after_connecting(connection.send_with(Type::kOpen, 2, encode(message), passed)));
    }
    const auto frame = connection.receive();
    if (!frame) return after_connecting(silent(frame.status()));
    const Header& header = frame.value().header;
    if (header.request != 2) return Status(Code::kCorrupt, "it answers out of turn");
    if (header.type == Type::kFailed) {
        may_be_taken = false;
        return after_connecting(parse_failed(frame.value().payload));
    }
    if (header.type != Type::kOpened) return Status(Code::kCorrupt, "its answer is of another kind");
    auto answer = parse_opened(frame.value().payload);
    if (!answer) return answer.status();
    session.opened = std::move(answer).value();
    may_be_taken = false;
    return session;
}

}   // namespace forebay::wire
