// Files that clients drain to: which sessions have them, and what comes before the first one.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/attempt.h"
#include "io/served_lock.h"
#include "server/drain_session.h"
#include "server/opening.h"
#include "server/served_files.h"

namespace forebay::server {

// Under the lock. Sessions that the client has lost are ended first: what they had begun to write is in the file then,
// and nothing of it comes after what the new one writes.
Status ServedFiles::enter_to_drain(Drained& drained, const wire::Open& request, io::Socket& session) {
    const std::uint32_t number = request.drainer.session;
    const bool known = drained.clients.contains(request.drainer.client);
    const bool room = known || clients() < clients_max_;
    Drained::Client& client = drained.clients[request.drainer.client];
    if (number < client.number) return {Code::kUnavailable, "the client has lost this session"};
    client.number = number;
    client.sessions.emplace(number, &session);
    if (!room)
        return {Code::kUnsupported,
                fmt::format("open {}: the clients that this server may have (--clients-max {}) would be more",
                            request.path, clients_max_),
                EUSERS};
    if (client.sessions.count(number) > wire::kDrainSessionsMax)
        return {Code::kUnavailable,
                fmt::format("open {}: the client has its {} sessions", request.path, wire::kDrainSessionsMax)};
    return Status::ok();
}

// The first session: whatever a server has left of it here is in the file before the client writes.
Status ServedFiles::prepare_to_drain(Drained& drained, const wire::Open& request,
                                     std::shared_ptr<io::Descriptor> descriptor) {
    // A client that comes back has its own bytes in the file.
    if (request.drainer.session == 1) {
        const auto engine = stage::Engine::create(options_);
        const auto recovered = engine->recover_opened({request.identity, request.path, true, request.locked,
                                                       descriptor});
        FOREBAY_TRY(recovered.status());
    } else {   // another server at this address may still write for it
        FOREBAY_TRY(io::await_unserved(*descriptor, kUnknown, request.drainer.server));
    }
    (void)io::mark_served(*descriptor, request.drainer.server);
    const Options& options = options_.options;
    auto made = std::make_shared<DrainedFile>(std::move(descriptor), request.path, options.stripe,
                                              static_cast<std::size_t>(options.drain_threads));
    const std::lock_guard lock(mutex_);
    drained.file = std::move(made);
    return Status::ok();
}

Result<std::shared_ptr<DrainedFile>> ServedFiles::open_to_drain(const wire::Open& request, io::Socket& session) {
    auto opened = open_as_named(request);
    if (!opened) return opened.status();
    const io::Identity& identity = request.identity;
    std::unique_lock lock(mutex_);
    const auto forwarded = [&] { return open_.contains(identity); };
    if (!left_.wait_for(lock, kUnknown, [&] { return !forwarded(); }))
        return Status(Code::kUnavailable, fmt::format("open {}: another client writes it", request.path), EBUSY);
    if (ends_) return Status(Code::kUnavailable, fmt::format("open {}: this server ends", request.path));
    Drained& drained = drained_[identity];   // stays where it is while it has users
    ++drained.users;
    const Status entered = attempt([&] { return enter_to_drain(drained, request, session); });
    Status outcome = attempt([&]() -> Status {
        if (!entered && entered.code() != Code::kUnsupported) return entered;
        Drained::Client& client = drained.clients[request.drainer.client];
        const std::uint32_t number = request.drainer.session;
        const auto lost_ended = [&] {
            const auto first = client.sessions.begin();
            return first == client.sessions.end() || first->first >= number;
        };
        for (const auto& [other, socket] : client.sessions)
            if (other < number) socket->shut_down();
        if (!left_.wait_for(lock, kEnding, lost_ended))
            return {Code::kUnavailable, fmt::format("open {}: a session that was lost does not end", request.path)};
        if (!left_.wait_for(lock, kEnding, [&] { return !drained.opening; }))
            return {Code::kUnavailable, fmt::format("open {}: what was left of it is not recovered", request.path)};
        if (const std::shared_ptr<DrainedFile> file = drained.file; file != nullptr) {
            lock.unlock();
            const Status unserved = attempt([&] {
                if (number > 1) FOREBAY_TRY(io::await_unserved(*file->descriptor, kUnknown, request.drainer.server));
                (void)io::mark_served(*file->descriptor, request.drainer.server);
                return Status::ok();
            });
            lock.lock();
            return unserved ? entered : unserved;
        }
        drained.opening = true;
        lock.unlock();
        const Status prepared = attempt([&] {
            return prepare_to_drain(drained, request, std::move(opened.value().descriptor));
        });
        lock.lock();
        drained.opening = false;
        left_.notify_all();
        return prepared ? entered : prepared;
    });
    if (outcome) return drained.file;
    lock.unlock();
    close_drained(request, session);
    return outcome;
}

void ServedFiles::close_drained(const wire::Open& request, io::Socket& session) noexcept {
    std::shared_ptr<DrainedFile> last;   // closed without the lock
    {
        const std::lock_guard lock(mutex_);
        const auto found = drained_.find(request.identity);
        if (found == drained_.end()) return;
        Drained& drained = found->second;
        if (const auto client = drained.clients.find(request.drainer.client); client != drained.clients.end()) {
            auto& sessions = client->second.sessions;
            const auto own = std::ranges::find_if(sessions, [&](const auto& each) { return each.second == &session; });
            if (own != sessions.end()) sessions.erase(own);
            if (sessions.empty()) drained.clients.erase(client);
        }
        if (--drained.users == 0) {
            last = std::move(drained.file);
            if (last != nullptr) drained_before_ += last->combiner.totals();
            drained_.erase(found);
        }
    }
    last.reset();
    left_.notify_all();
}

WriteCombiner::Totals ServedFiles::drained() const {
    const std::lock_guard lock(mutex_);
    WriteCombiner::Totals sum = drained_before_;
    for (const auto& [identity, drained] : drained_)
        if (drained.file != nullptr) sum += drained.file->combiner.totals();
    return sum;
}

}   // namespace forebay::server
