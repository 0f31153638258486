#include "server/newcomers.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "io/passed_socket.h"
#include "wire/connection.h"
#include "wire/proof.h"

namespace forebay::server {

namespace {

constexpr std::size_t kFrameMax = std::max(wire::kCredentialMax, wire::kOpenMax);

}   // namespace

Newcomers::~Newcomers() {
    if (channel_ >= 0) ::close(channel_);
}

Status Newcomers::run() {
    std::vector<pollfd> look;
    while (channel_ >= 0 || !newcomers_.empty()) {
        const Clock::time_point now = Clock::now();
        auto first_end = Clock::time_point::max();
        look.assign(1, {channel_, POLLIN, 0});
        for (const Newcomer& one : newcomers_) {
            look.push_back({one.socket->number(), POLLIN, 0});
            first_end = std::min(first_end, one.until);
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(first_end - now).count();
        const int until_ms = newcomers_.empty() ? -1 : static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
        if (::poll(look.data(), look.size(), until_ms) < 0 && errno != EINTR)
            return Status::from_errno(errno, "wait for clients");
        std::size_t at = 0;
        for (Newcomer& one : newcomers_) {
            if (look[++at].revents != 0) advance(one);
            // Also of one that sends a byte now and then.
            if (one.socket != nullptr && one.until <= Clock::now())
                let_go(one, {Code::kUnavailable, "it has not said who it is"});
        }
        std::erase_if(newcomers_, [](const Newcomer& one) { return one.socket == nullptr; });
        // All that have come: each round may take long, and root's process does not wait.
        for (std::size_t taken = 0; channel_ >= 0 && taken < setup_.most && io::is_readable(channel_); ++taken)
            take_in();
        if (newcomers_.empty() && displaced_ > 0)
            setup_.report(fmt::format("{} clients that had not said who they are had to make room for others",
                                      std::exchange(displaced_, 0)));
    }
    return Status::ok();
}

void Newcomers::take_in() {
    auto come = io::receive_passed(channel_);
    if (!come && come.status().retryable()) return setup_.report(come.status().message());
    if (!come || !come.value()) {
        ::close(std::exchange(channel_, -1));
        std::erase_if(newcomers_, [](const Newcomer& one) { return one.refusal.empty(); });
        return;
    }
    if (come.value()->socket == nullptr) return;
    if (newcomers_.size() >= setup_.most) {
        newcomers_.pop_front();
        ++displaced_;
    }
    const std::string& why = come.value()->note.empty() ? setup_.refusal : come.value()->note;
    Newcomer& one = newcomers_.emplace_back();
    one.socket = std::move(come.value()->socket);
    one.until = Clock::now() + setup_.identifying;
    if (!why.empty()) refuse(one, why);
}

void Newcomers::advance(Newcomer& one) {
    const Status outcome = attempt([&]() -> Status {
        while (one.socket != nullptr) {
            const auto whole = receive_frame(one);
            if (!whole) return whole.status();
            if (!whole.value()) return Status::ok();
            FOREBAY_TRY(take_frame(one));
        }
        return Status::ok();
    });
    if (!outcome) let_go(one, outcome);
}

// False: the rest of it has not come yet.
Result<bool> Newcomers::receive_frame(Newcomer& one) const {
    for (;;) {
        const bool of_header = one.got < wire::kHeaderBytes;
        const io::MutableBytes into = of_header ? io::MutableBytes(one.header).subspan(one.got)
                                                : io::MutableBytes(one.payload).subspan(one.got - wire::kHeaderBytes);
        if (into.empty()) return true;
        const auto some = one.socket->receive_some(into);
        if (!some) return some.status();
        if (some.value() == 0) return false;
        one.got += some.value();
        if (!of_header || one.got < wire::kHeaderBytes) continue;
        const auto header = wire::parse_header(one.header);
        if (!header) return header.status();
        if (header.value().payload_bytes > kFrameMax) return Status(Code::kCorrupt, "a frame that is too long here");
        one.parsed = header.value();
        one.payload.resize(header.value().payload_bytes);
    }
}

// Whoever is asked goes back to root's process, or is refused; whoever is refused is told so as the answer to whatever
// it asks.
Status Newcomers::take_frame(Newcomer& one) {
    const wire::Connection::Frame frame{*one.parsed, one.payload};
    one.got = 0;
    const bool identifies = frame.header.type == wire::Type::kIdentify;
    if (one.refusal.empty()) {
        const auto user = setup_.credentials != nullptr
                              ? wire::identified_user(frame, *setup_.credentials)
                              : Result<std::uint32_t>(Status(Code::kUnavailable, "nobody can be asked who it is"));
        if (user) {
            const std::unique_ptr<io::Socket> done = std::move(one.socket);
            return io::pass(channel_, done.get(), std::to_string(user.value()), io::Waits::kYes);
        }
        setup_.report("a client was not admitted: " + user.status().message());
        refuse(one, user.status().message());
    }
    if (identifies) return Status::ok();   // the proof comes next, and is what waits for an answer
    wire::Connection connection(std::move(one.socket));
    const Status refusal(Code::kPermissionDenied, one.refusal);
    return connection.send(wire::Type::kFailed, frame.header.request, wire::encode(refusal));
}

void Newcomers::refuse(Newcomer& one, std::string why) const {
    one.refusal = std::move(why);
    one.until = Clock::now() + setup_.refusing;
    (void)one.socket->set_patience(std::chrono::seconds(1), std::chrono::seconds(1));
}

// Whoever is refused was reported before. Whoever comes, says nothing and goes is not worth a line.
void Newcomers::let_go(Newcomer& one, const Status& why) {
    one.socket.reset();
    if (one.refusal.empty() && (one.got > 0 || why.code() != Code::kNotFound))
        setup_.report("a client was not admitted: " + why.message());
}

}   // namespace forebay::server
