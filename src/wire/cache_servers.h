// The staging servers of all nodes, as peers of the read cache (option read_cache_servers; docs/protocol.md, "Peers of
// the read cache"). This process reads from each server the parts of files that its node is the home of. A thread uses
// a connection alone: an idle one, or a new one, at most kConnectionsMax to each server. A server that is missing,
// silent or hangs up is not asked for a time. That time grows with each failure, and is at least eight times the
// failure's cost. Owns the connections until destruction. Thread-safety: all calls from any thread, also in a forked
// child, which makes connections of its own and leaves its parent's alone. Blocking: as each call says. No threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cache/peers.h"
#include "io/socket.h"
#include "wire/frame.h"

namespace forebay::wire {

inline constexpr std::uint64_t kHomeStripeBytes = std::uint64_t{1} << 20;   // a part of a file with one home

class CacheServers {
  public:
    struct Bounds {
        // A server without an answer within these times counts as silent.
        std::chrono::seconds connect{2}, answer{5};
        std::chrono::nanoseconds pause_min = std::chrono::seconds(1), pause_max = std::chrono::minutes(10);
    };
    static constexpr std::size_t kConnectionsMax = 4;          // per server
    static constexpr std::size_t kConnectionsOfAllMax = 256;   // per process

    // `servers` are addresses as io::parse_address reads them, separated by commas, and resolved when they are needed.
    // `key_file` is option server_key. Returns kInvalidArgument if an address is empty or repeated.
    [[nodiscard]] static Result<std::shared_ptr<CacheServers>> create(const std::string& servers,
                                                                      const std::string& key_file,
                                                                      const Bounds& bounds);
    [[nodiscard]] static Result<std::shared_ptr<CacheServers>> create(const std::string& servers,
                                                                      const std::string& key_file) {
        return create(servers, key_file, Bounds{});
    }
    // Returns the current address of a server, or kNotFound. Called for each connection. Blocks on files.
    using Find = std::function<Result<io::Address>(std::size_t server)>;
    // Makes the peers of a job. Only forked children, which store nothing, ask the server `own` of this node.
    [[nodiscard]] static std::shared_ptr<CacheServers> of_job(std::size_t nodes, std::size_t own, Find find,
                                                              const Bounds& bounds);
    ~CacheServers();
    CacheServers(const CacheServers&) = delete;
    CacheServers& operator=(const CacheServers&) = delete;

    [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
    // Returns the server of this process's node, if it is known in advance.
    [[nodiscard]] std::optional<std::size_t> own() const noexcept { return own_; }

    struct File {
        std::uint64_t id = 0;
        Open open;   // a server on another machine compares the birth time, and not the device
    };
    [[nodiscard]] std::uint64_t new_id() noexcept { return ++ids_; }

    enum class Answer : std::uint8_t {
        kYes,
        kRefused,    // it does not read this file, or finds another version of it
        kOurs,       // it reads through the same replica as this process
        kFailed,     // it is missing, silent, or has hung up
        kNotAsked,   // it is in its pause after a failure, or all connections are in use for too long
    };
    // Fills `into` from `offset` on. `own` is the label of this process's replica, or empty; a server with the same
    // replica does not read. Blocks for name lookups, and within the bounds for a free connection, a new one, and each
    // answer of at most 1 MiB.
    [[nodiscard]] Answer read(std::size_t server, const File& file, const std::string& own, std::uint64_t offset,
                              io::MutableBytes into);

  private:
    struct Session;
    struct Pool;
    CacheServers(std::vector<std::string> names, std::string key_file, const Bounds& bounds, Find find,
                 std::optional<std::size_t> own);
    [[nodiscard]] Result<io::Address> address_of(Pool& pool, std::size_t server);
    [[nodiscard]] Pool& pool();
    [[nodiscard]] Answer take(Pool& pool, std::size_t server, const File& file, bool fresh,
                              std::unique_ptr<Session>& taken);
    [[nodiscard]] Status connect(Pool& pool, std::size_t server, std::unique_ptr<Session>& made);
    [[nodiscard]] Result<Answer> ask(Session& session, const File& file, const std::string& own, std::uint64_t offset,
                                     io::MutableBytes into) const;

    const std::vector<std::string> names_;
    const std::string key_file_;
    const Bounds bounds_;
    const Find find_;   // null: the names are the addresses
    const std::optional<std::size_t> own_;
    std::atomic<std::uint64_t> ids_{0};
    std::atomic<Pool*> pool_;
};

// Returns the servers as peers of each file, for ReadCache.
[[nodiscard]] cache::FindPeers find_peers(std::shared_ptr<CacheServers> servers);

}   // namespace forebay::wire
