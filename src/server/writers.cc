#include "server/writers.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/attempt.h"

namespace forebay::server {

namespace {

// Far below any patience of a client.
constexpr std::chrono::seconds kTellEvery{1};

Status in_use() {
    return {Code::kUnavailable, "all clients of the file are gone, and another process has locked the file", EBUSY};
}

}   // namespace

Status Writers::may_write() noexcept {
    if (lock_ == nullptr || lock_->is_passed()) return Status::ok();
    {
        const std::lock_guard lock(mutex_);
        if (std::ranges::any_of(clients_, [](wire::Connection* client) { return !client->socket().hung_up(); }))
            return Status::ok();
    }
    return attempt([&] { return lock_->keep() ? Status::ok() : in_use(); });
}

bool Writers::gone(std::chrono::milliseconds at_most) noexcept {
    {
        const std::lock_guard lock(mutex_);
        clients_.clear();
    }
    return lock_ == nullptr || attempt([&] { return lock_->keep(at_most) ? Status::ok() : in_use(); }).is_ok();
}

void Writers::closed() noexcept {
    if (lock_ != nullptr) lock_->end();
}

// Skips a client whose socket would block.
void Writers::wrote(TimePoint now) noexcept {
    const std::lock_guard lock(mutex_);
    for (Waiting& waiting : waiting_) {
        if (now - waiting.told < kTellEvery || !waiting.connection->socket().may_send()) continue;
        waiting.told = now;
        (void)attempt([&] { return waiting.connection->send(wire::Type::kWorking, waiting.number, {}); });
    }
}

Writers::Client::Client(Writers& writers, wire::Connection& connection) : writers_(writers), connection_(connection) {
    const std::lock_guard lock(writers_.mutex_);
    writers_.clients_.push_back(&connection);
}

Writers::Client::~Client() {
    const std::lock_guard lock(writers_.mutex_);
    std::erase(writers_.clients_, &connection_);
}

Writers::Request::Request(Writers& writers, wire::Connection& connection, std::uint64_t number) : writers_(writers) {
    const std::lock_guard lock(writers_.mutex_);
    writers_.waiting_.push_back({this, &connection, number, std::chrono::steady_clock::now()});
}

Writers::Request::~Request() {
    const std::lock_guard lock(writers_.mutex_);
    std::erase_if(writers_.waiting_, [this](const Waiting& waiting) { return waiting.request == this; });
}

}   // namespace forebay::server
