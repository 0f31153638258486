#include "wire/cache_servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/attempt.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "io/process_lock.h"
#include "io/socket.h"
#include "wire/client_session.h"
#include "wire/home_server.h"

namespace forebay::wire {

namespace {

constexpr std::size_t kAhead = 4;   // READs that are sent before the first answer
// Bytes of one READ. The wake-ups of both sides for each READ cost as much as copying 256 KiB.
constexpr std::size_t kReadBytes = kDataMax;
constexpr std::uint64_t kCostTimes = 8;   // the pause of a server, in multiples of the failure's cost

bool has_left(const Status& failure) noexcept { return failure.code() == Code::kNotFound || failure.sys_errno() != 0; }

}   // namespace

struct CacheServers::Session {
    std::unique_ptr<Connection> connection;
    std::uint64_t requests = 1;   // HELLO
    std::uint64_t file = 0;       // open in this session; 0: none
    std::string replica;
    bool used = false;   // it has answered before
    ~Session() {
        if (connection != nullptr) connection->socket().shut_down();   // a forked child may have it, too
    }
};

// The connections of one process. A forked child makes its own, as a thread of its parent may hold the lock.
struct CacheServers::Pool {
    struct Line {
        std::vector<std::unique_ptr<Session>> idle;
        std::size_t open = 0;   // idle and busy ones
        std::uint64_t not_before_ns = 0, pause_ns = 0;
        std::uint64_t failed_ns = 0;
        std::optional<io::Address> address;
    };
    explicit Pool(std::size_t servers) : lines(servers) {}

    const std::uint64_t forks = io::forks_so_far();
    std::mutex mutex;   // guards the members below
    std::condition_variable freed;
    std::vector<Line> lines;
    std::size_t open = 0;

    void forget(Line& line, std::size_t sessions) noexcept {
        line.open -= sessions;
        open -= sessions;
        freed.notify_all();
    }
    void put_back(std::size_t server, std::unique_ptr<Session> session) {
        const std::lock_guard lock(mutex);
        Line& line = lines[server];
        line.pause_ns = line.not_before_ns = 0;
        line.idle.push_back(std::move(session));
        freed.notify_all();
    }
    // Also drops the idle connections: they lead to the same server, which may have restarted.
    void drop(std::size_t server, std::unique_ptr<Session> session) noexcept {
        std::vector<std::unique_ptr<Session>> ended;
        {
            const std::lock_guard lock(mutex);
            Line& line = lines[server];
            ended.swap(line.idle);
            forget(line, ended.size() + (session != nullptr ? 1 : 0));
        }
    }
    // Notes the failure of a request that began at `begin_ns`. Concurrent requests fail together, and count as one.
    void note_failure(std::size_t server, std::uint64_t begin_ns, const Bounds& bounds) noexcept {
        const std::lock_guard lock(mutex);
        Line& line = lines[server];
        if (begin_ns < line.failed_ns) return;
        line.failed_ns = monotonic_ns();
        const std::uint64_t took_ns = line.failed_ns - begin_ns;
        const auto least = static_cast<std::uint64_t>(bounds.pause_min.count());
        const auto most = static_cast<std::uint64_t>(bounds.pause_max.count());
        line.pause_ns = std::min(most, std::max({least, 2 * line.pause_ns, kCostTimes * took_ns}));
        line.not_before_ns = line.failed_ns + line.pause_ns;
    }
};

CacheServers::CacheServers(std::vector<std::string> names, std::string key_file, const Bounds& bounds, Find find,
                           std::optional<std::size_t> own)
    : names_(std::move(names)),
      key_file_(std::move(key_file)),
      bounds_(bounds),
      find_(std::move(find)),
      own_(own),
      pool_(new Pool(names_.size())) {}

CacheServers::~CacheServers() {
    if (Pool* const last = pool_.load(); last->forks == io::forks_so_far()) delete last;
}

Result<std::shared_ptr<CacheServers>> CacheServers::create(const std::string& servers, const std::string& key_file,
                                                           const Bounds& bounds) {
    auto names = server_names(servers);
    if (!names) return names.status();
    return std::shared_ptr<CacheServers>(new CacheServers(std::move(names).value(), key_file, bounds, {}, {}));
}

std::shared_ptr<CacheServers> CacheServers::of_job(std::size_t nodes, std::size_t own, Find find,
                                                   const Bounds& bounds) {
    std::vector<std::string> names;
    for (std::size_t node = 0; node < nodes; ++node) names.push_back(fmt::format("node {}", node));
    return std::shared_ptr<CacheServers>(new CacheServers(std::move(names), {}, bounds, std::move(find), own));
}

CacheServers::Pool& CacheServers::pool() {
    Pool* known = pool_.load();
    if (known->forks == io::forks_so_far()) return *known;
    auto own = std::make_unique<Pool>(names_.size());
    if (pool_.compare_exchange_strong(known, own.get())) known = own.release();
    return *known;
}

Result<io::Address> CacheServers::address_of(Pool& pool, std::size_t server) {
    if (find_) return find_(server);
    {
        const std::lock_guard lock(pool.mutex);
        if (const auto& known = pool.lines[server].address) return *known;
    }
    auto parsed = io::parse_address(names_[server]);
    if (!parsed) return parsed;
    parsed.value().key_file = key_file_;
    const std::lock_guard lock(pool.mutex);
    pool.lines[server].address = parsed.value();
    return parsed;
}

Status CacheServers::connect(Pool& pool, std::size_t server, std::unique_ptr<Session>& made) {
    const auto address = address_of(pool, server);
    if (!address) return address.status();
    auto begun = begin_session(address.value(), bounds_.connect, std::chrono::steady_clock::now() + bounds_.answer);
    if (!begun) return begun.status();
    FOREBAY_TRY(begun.value().connection->socket().set_patience(bounds_.answer, bounds_.answer));
    made = std::make_unique<Session>();
    made->connection = std::move(begun.value().connection);
    return Status::ok();
}

CacheServers::Answer CacheServers::take(Pool& pool, std::size_t server, const File& file, bool fresh,
                                        std::unique_ptr<Session>& taken) {
    Pool::Line& line = pool.lines[server];
    std::unique_ptr<Session> closed;   // destroyed after the lock
    {
        std::unique_lock lock(pool.mutex);
        const auto is_free = [&] { return !line.idle.empty() || line.open < kConnectionsMax; };
        if (monotonic_ns() < line.not_before_ns) return Answer::kNotAsked;
        if (!pool.freed.wait_for(lock, bounds_.answer, is_free)) return Answer::kNotAsked;
        if (monotonic_ns() < line.not_before_ns) return Answer::kNotAsked;   // the awaited request has failed
        if (!fresh && !line.idle.empty()) {
            const auto open = std::ranges::find_if(line.idle, [&](const auto& one) { return one->file == file.id; });
            const auto chosen = open != line.idle.end() ? open : std::prev(line.idle.end());
            taken = std::move(*chosen);
            line.idle.erase(chosen);
            return Answer::kYes;
        }
        if (pool.open >= kConnectionsOfAllMax) {
            const auto other = std::ranges::find_if(pool.lines, [](const auto& one) { return !one.idle.empty(); });
            if (other == pool.lines.end()) return Answer::kNotAsked;
            closed = std::move(other->idle.front());
            other->idle.erase(other->idle.begin());
            pool.forget(*other, 1);
        }
        line.idle.reserve(kConnectionsMax);   // makes a later give-back free of allocations
        ++line.open;
        ++pool.open;
    }
    const std::uint64_t begin_ns = monotonic_ns();
    if (attempt([&] { return connect(pool, server, taken); })) return Answer::kYes;
    taken = nullptr;
    {
        const std::lock_guard lock(pool.mutex);
        pool.forget(line, 1);
    }
    pool.note_failure(server, begin_ns, bounds_);
    return Answer::kFailed;
}

// Errors concern the connection, which is unusable then.
Result<CacheServers::Answer> CacheServers::ask(Session& session, const File& file, const std::string& own,
                                               std::uint64_t offset, io::MutableBytes into) const {
    Connection& connection = *session.connection;
    if (session.file != file.id) {
        session.file = 0;
        FOREBAY_TRY(connection.send(Type::kOpen, ++session.requests, encode(file.open)));
        const auto frame = connection.receive();
        if (!frame) return frame.status();
        const Header& header = frame.value().header;
        if (header.request != session.requests) return Status(Code::kCorrupt, "it answers out of turn");
        if (header.type == Type::kFailed) return Answer::kRefused;
        if (header.type != Type::kOpened) return Status(Code::kCorrupt, "its answer is of another kind");
        auto opened = parse_opened(frame.value().payload);
        if (!opened) return opened.status();
        session.file = file.id;
        session.replica = std::move(opened.value().log);
    }
    if (!own.empty() && session.replica == own) return Answer::kOurs;
    const std::size_t count = (into.size() + kReadBytes - 1) / kReadBytes;
    const auto part = [&](std::size_t index) {
        const std::size_t begin = index * kReadBytes;
        return into.subspan(begin, std::min(kReadBytes, into.size() - begin));
    };
    bool refused = false;
    for (std::size_t sent = 0, received = 0; received < count;) {
        if (sent < count && sent < received + kAhead) {
            const Read request{offset + sent * kReadBytes, static_cast<std::uint32_t>(part(sent).size())};
            FOREBAY_TRY(connection.send(Type::kRead, ++session.requests, encode(request)));
            ++sent;
            continue;
        }
        const io::MutableBytes wanted = part(received);
        const auto frame = connection.receive(wanted);
        if (!frame) return frame.status();
        const Header& header = frame.value().header;
        if (header.request != session.requests - (sent - ++received)) return Status(Code::kCorrupt, "out of turn");
        if (header.type == Type::kFailed) refused = true;
        else if (header.type != Type::kData || frame.value().payload.size() != wanted.size())
            return Status(Code::kCorrupt, "its answer is of another kind");
    }
    if (refused) session.file = 0;
    return refused ? Answer::kRefused : Answer::kYes;
}

CacheServers::Answer CacheServers::read(std::size_t server, const File& file, const std::string& own,
                                        std::uint64_t offset, io::MutableBytes into) {
    Pool& mine = pool();
    for (bool fresh = false;; fresh = true) {
        std::unique_ptr<Session> session;
        if (const Answer taken = take(mine, server, file, fresh, session); taken != Answer::kYes) return taken;
        const std::uint64_t begin_ns = monotonic_ns();
        Result<Answer> answer = out_of_memory();
        const Status asked = attempt([&] { answer = ask(*session, file, own, offset, into); });
        if (asked && answer) {
            session->used = true;
            mine.put_back(server, std::move(session));
            return answer.value();
        }
        // An idle connection to a server that has restarted is unknown there, so this asks once more.
        const bool again = session->used && asked && has_left(answer.status()) &&
                           answer.status().sys_errno() != EAGAIN && answer.status().sys_errno() != ETIMEDOUT;
        mine.drop(server, std::move(session));
        if (again) continue;
        mine.note_failure(server, begin_ns, bounds_);
        return Answer::kFailed;
    }
}

namespace {

class ServerPeers final : public cache::Peers {
  public:
    ServerPeers(std::shared_ptr<CacheServers> servers, const cache::PeersWanted& wanted)
        : servers_(std::move(servers)), replica_(wanted.replica), states_(servers_->names().size()) {
        const cache::Version& version = wanted.version;
        if (const auto own = servers_->own()) states_[*own].ours = true;
        file_.id = servers_->new_id();
        file_.open.purpose = Purpose::kReadCached;
        file_.open.identity = version.identity;
        file_.open.path = wanted.path;
        file_.open.seen = {version.born_ns, version.size, version.modified_ns, version.changed_ns};
        // The first offset of this node's read-ahead. Its own server is not known yet, so any offset serves.
        const std::uint64_t here = checksum(std::as_bytes(std::span(replica_)));
        first_byte_ = here % std::max<std::uint64_t>(1, version.size) / kHomeStripeBytes * kHomeStripeBytes;
    }

    bool usable() noexcept override { return true; }
    std::uint64_t piece_bytes() const noexcept override { return cache::kBlockBytes; }
    // A stripe's home reads it from the file. With larger claims, two nodes would wait for parts of each other's.
    std::uint64_t claim_within() const noexcept override { return kHomeStripeBytes; }
    std::uint64_t first_byte() const noexcept override { return first_byte_; }
    // Each node asks for the whole file, and the homes read it.
    Homes homes() const noexcept override { return {kHomeStripeBytes, 0, 1}; }
    void take_back(const Run&) noexcept override {}
    void help() noexcept override {}
    void leave() noexcept override {}

    // This needs no message: the homes are fixed.
    cache::PeerAnswer tell(ByteRange pieces, std::uint64_t, std::vector<Run>& before) noexcept override {
        const Status enough = attempt([&] {
            before.clear();
            for (std::uint64_t at = pieces.begin; at < pieces.end;) {
                const std::uint64_t stripe = at / kHomeStripeBytes;
                const std::uint64_t end = std::min(pieces.end, (stripe + 1) * kHomeStripeBytes);
                const auto home = static_cast<Node>(home_of_stripe(servers_->names(), file_.open.identity.inode,
                                                                   stripe));
                const Node holder = is_asked(home) ? home : kSelf;
                if (!before.empty() && before.back().holder == holder) before.back().range.end = end;
                else before.push_back({{at, end}, holder});
                at = end;
            }
        });
        return enough ? cache::PeerAnswer::kYes : cache::PeerAnswer::kNotAsked;
    }

    cache::PeerAnswer read(Node holder, ByteRange blocks, io::MutableBytes into, std::uint64_t) noexcept override {
        auto answer = CacheServers::Answer::kFailed;
        // A child stores nothing, so it asks its own node's server, too.
        const Status asked = attempt([&] {
            answer = servers_->read(holder, file_, is_child() ? std::string() : replica_, blocks.begin, into);
        });
        if (!asked) return cache::PeerAnswer::kNotAsked;
        switch (answer) {
            case CacheServers::Answer::kYes: return cache::PeerAnswer::kYes;
            case CacheServers::Answer::kOurs: states_[holder].ours = true; return cache::PeerAnswer::kNotThere;
            case CacheServers::Answer::kRefused:
                states_[holder].not_before_ns = monotonic_ns() + kRefusedNs;
                return cache::PeerAnswer::kLate;
            case CacheServers::Answer::kFailed: return cache::PeerAnswer::kLate;
            case CacheServers::Answer::kNotAsked: break;
        }
        return cache::PeerAnswer::kNotAsked;
    }

  private:
    static constexpr std::uint64_t kRefusedNs = 10'000'000'000;
    struct State {
        std::atomic<bool> ours{false};                 // it is this node's server
        std::atomic<std::uint64_t> not_before_ns{0};   // set after it has refused the file
    };

    [[nodiscard]] bool is_child() const noexcept { return io::forks_so_far() != forks_; }
    [[nodiscard]] bool is_asked(Node server) const noexcept {
        const State& state = states_[server];
        if (state.ours.load(std::memory_order_relaxed) && !is_child()) return false;
        return monotonic_ns() >= state.not_before_ns.load(std::memory_order_relaxed);
    }

    const std::shared_ptr<CacheServers> servers_;
    const std::string replica_;
    const std::uint64_t forks_ = io::forks_so_far();
    CacheServers::File file_;
    std::uint64_t first_byte_ = 0;
    std::vector<State> states_;
};

}   // namespace

cache::FindPeers find_peers(std::shared_ptr<CacheServers> servers) {
    return [servers = std::move(servers)](const cache::PeersWanted& file) -> std::shared_ptr<cache::Peers> {
        if (!check_path(file.path)) return nullptr;
        return std::make_shared<ServerPeers>(servers, file);
    };
}

}   // namespace forebay::wire
