#include "server/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "base/attempt.h"
#include "base/background_thread.h"
#include "drain/patience.h"
#include "wire/frame.h"

namespace forebay::server {

namespace {

constexpr std::chrono::seconds kRefusing{1};
constexpr std::size_t kRefusedMax = 64;   // refused clients that get an answer at a time; further ones are disconnected
// Sessions for each writer: its own, and four for readers and followers.
constexpr std::size_t kSessionsPerFile = 5;
constexpr std::uint64_t kLogMin = std::uint64_t{4} << 20;   // of one file

std::uint64_t random_number() {
    std::random_device source;
    return (std::uint64_t{source()} << 32) | source();
}

LoadedOptions options_of_a_file(LoadedOptions loaded, std::size_t clients_max) {
    Options& options = loaded.options;
    const std::uint64_t write_max = options.write_max;   // stays, although the log is divided
    options.size = std::max(kLogMin, options.size / std::max<std::size_t>(1, clients_max));
    options.derive_from_size();
    options.write_max = write_max;
    options.server.clear();
    options.close = OnClose::kWait;
    options.read_cache = ReadCacheMode::kOff;
    return loaded;
}

std::unique_ptr<CachedFiles> cached_files_of(const LoadedOptions& loaded) {
    return loaded.options.read_cache == ReadCacheMode::kOn ? std::make_unique<CachedFiles>(loaded) : nullptr;
}

}   // namespace

Server::Server(Setup setup, std::unique_ptr<io::Listener> listener)
    : sessions_max_(kSessionsPerFile * setup.clients_max +
                    (setup.options.options.read_cache == ReadCacheMode::kOn ? setup.readers_max : 0)),
      stages_(setup.clients_max > 0),
      patience_ns_(drain::patience_ns(setup.options.options)),
      clock_(setup.clock),
      report_(std::move(setup.report)),
      key_(setup.key),
      epoch_(random_number()),
      cached_files_(cached_files_of(setup.options)),
      files_(options_of_a_file(std::move(setup.options), setup.clients_max), setup.clients_max, report_,
             std::move(setup.unrecovered), std::move(setup.reach), std::move(setup.clock)),
      listener_(std::move(listener)) {}

Server::~Server() {
    listener_.reset();
    for (std::list<Slot>* const slots : {&slots_, &refused_}) {
        for (Slot& slot : *slots) slot.connection->socket().shut_down();
        slots->clear();
    }
}

Status Server::run(int wake) {
    for (;;) {
        auto socket = listener_->accept(wake);
        if (!socket && !socket.status().retryable()) return socket.status();
        if (!socket) {
            report_(socket.status().message());
            continue;
        }
        if (socket.value() == nullptr) return Status::ok();
        remove_ended();
        if (const Status admitted = attempt([&] { admit(std::move(socket).value()); }); !admitted)
            report_("cannot accept a client: " + admitted.message());
    }
}

void Server::admit(std::unique_ptr<io::Socket> socket) {
    const bool local = socket->is_local();   // other clients prove their identity in the session
    const auto user = local ? socket->peer_user() : Result<std::uint32_t>(::geteuid());
    Status refusal;
    if (!local && !key_) refusal = {Code::kPermissionDenied, "this server accepts clients on its own machine only"};
    else if (!user || user.value() != ::geteuid())
        refusal = {Code::kPermissionDenied,
                   user ? fmt::format("this server serves user {} only, not {}", ::geteuid(), user.value())
                        : user.status().message()};
    else if (slots_.size() >= sessions_max_)
        refusal = {Code::kUnavailable,
                   fmt::format("this server has the maximum of {} sessions (--clients-max)", sessions_max_)};
    if (!refusal) {
        report_(refusal.message());
        if (local && refused_.size() < kRefusedMax) refuse(std::move(socket), refusal);   // strangers get no answer
        return;
    }
    begin(slots_, std::move(socket), [this](Slot& slot) {
        Session session(stages_ ? &files_ : nullptr, cached_files_.get(), epoch_, report_, key_ ? &*key_ : nullptr,
                        slot.use);
        session.run(*slot.connection);
    });
}

void Server::refuse(std::unique_ptr<io::Socket> socket, const Status& why) {
    (void)socket->set_patience(kRefusing, kRefusing);
    socket->set_deadline(std::chrono::steady_clock::now() + kRefusing);
    begin(refused_, std::move(socket), [told = wire::encode(why)](Slot& slot) {
        (void)attempt([&] {
            FOREBAY_TRY(slot.connection->receive().status());   // HELLO: until then the client does not listen
            return slot.connection->send(wire::Type::kFailed, 1, told);
        });
        slot.connection->socket().shut_down();
    });
}

template <class Run>
void Server::begin(std::list<Slot>& slots, std::unique_ptr<io::Socket> socket, Run run) {
    Slot& slot = slots.emplace_back();
    try {
        slot.connection = std::make_unique<wire::Connection>(std::move(socket));
        slot.thread = start_background_thread([this, &slot, run = std::move(run)] {
            run(slot);
            const std::lock_guard lock(mutex_);
            slot.ended = true;
            ended_.notify_all();
        });
    } catch (...) {
        slots.pop_back();
        throw;
    }
}

void Server::remove_ended() {
    remove_ended(slots_);
    remove_ended(refused_);
}

void Server::remove_ended(std::list<Slot>& slots) {
    std::list<Slot> ended;
    const std::lock_guard lock(mutex_);
    for (auto slot = slots.begin(); slot != slots.end();) {
        const auto next = std::next(slot);
        if (slot->ended) ended.splice(ended.end(), slots, slot);
        slot = next;
    }
}

bool Server::await_sessions() {
    listener_.reset();
    files_.await_writers();
    // Readers and followers would stay indefinitely. A former writer may still need an answer.
    for (Slot& slot : slots_)
        if (!slot.use.writes) slot.connection->socket().shut_down();
    if (!await_readers()) return false;
    for (Slot& slot : slots_)
        if (slot.thread.joinable()) slot.thread.join();
    slots_.clear();
    return true;
}

// A reader that was cut off ends once its call of the file returns. A former writer may have to bring a file to its
// last commit, which has no bound.
bool Server::await_readers() {
    const std::uint64_t end_ns = clock_->now_ns() + patience_ns_;
    std::unique_lock lock(mutex_);
    const auto ended = [this] {
        return std::ranges::all_of(slots_, [](const Slot& slot) { return slot.ended || slot.use.wrote; });
    };
    while (!ended()) {
        if (patience_ns_ == 0) ended_.wait(lock);
        else if (clock_->now_ns() >= end_ns) return false;
        else ended_.wait_until(lock, clock_->wake_at(end_ns));
    }
    return true;
}

std::optional<cache::CacheTotals> Server::cached() {
    return cached_files_ != nullptr ? std::optional(cached_files_->totals()) : std::nullopt;
}

std::size_t Server::sessions() {
    remove_ended();
    return slots_.size();
}

}   // namespace forebay::server
