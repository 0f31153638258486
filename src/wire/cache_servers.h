// The staging servers of all nodes, whose read caches this process asks for what their nodes are the home of (option
// read_cache_servers; docs/protocol.md, "Peers of the read cache").
//
// A thread that asks has a connection for itself meanwhile: an idle one, or a new one, of which there are at most
// kConnectionsMax to each server. A server that is not there, falls silent or hangs up is left alone for a time that
// grows with each failure, and is at least eight times what the failure has cost.
//
// Ownership: the connections, which end with this. Thread-safety: all calls from any thread, and in a forked child,
// which makes connections of its own and leaves its parent's alone. Blocking: as each call says. No threads.
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

inline constexpr std::uint64_t kHomeStripeBytes = std::uint64_t{1} << 20;   // of a file, with one home

class CacheServers {
  public:
    struct Bounds {
        std::chrono::seconds connect{2}, answer{5};   // then it counts as silent
        std::chrono::nanoseconds pause_min = std::chrono::seconds(1), pause_max = std::chrono::minutes(10);
    };
    static constexpr std::size_t kConnectionsMax = 4;          // to one server
    static constexpr std::size_t kConnectionsOfAllMax = 256;   // of a process

    // `servers`: addresses as io::parse_address reads them, with commas between; they are looked up when they are
    // needed. `key_file`: option server_key. kInvalidArgument: one of them is empty, or named twice.
    [[nodiscard]] static Result<std::shared_ptr<CacheServers>> create(const std::string& servers,
                                                                      const std::string& key_file,
                                                                      const Bounds& bounds);
    [[nodiscard]] static Result<std::shared_ptr<CacheServers>> create(const std::string& servers,
                                                                      const std::string& key_file) {
        return create(servers, key_file, Bounds{});
    }
    // Where server number `server` is now. kNotFound: nowhere. Blocks on the file system. Asked for each connection.
    using Find = std::function<Result<io::Address>(std::size_t server)>;
    // The peers of a job of `nodes` nodes. This process's node is number `own`: its own peer is asked by nobody but
    // children that store nothing.
    [[nodiscard]] static std::shared_ptr<CacheServers> of_job(std::size_t nodes, std::size_t own, Find find,
                                                              const Bounds& bounds);
    ~CacheServers();
    CacheServers(const CacheServers&) = delete;
    CacheServers& operator=(const CacheServers&) = delete;

    [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
    // The server of this process's node, if it is known before it is asked.
    [[nodiscard]] std::optional<std::size_t> own() const noexcept { return own_; }

    // A file, as this process has it open.
    struct File {
        std::uint64_t id = 0;   // new_id()
        Open open;              // its device, and whether the birth time counts, are the connection's to say
    };
    [[nodiscard]] std::uint64_t new_id() noexcept { return ++ids_; }

    enum class Answer : std::uint8_t {
        kYes,
        kRefused,    // it does not read this file, or finds another version of it
        kOurs,       // it reads `own`
        kFailed,     // it is not there, silent, or has hung up
        kNotAsked,   // it is left alone for a while, or all connections are in use for too long
    };
    // Fills `into` from `offset` on. `own`: the label of a replica; a server that reads that one is not asked. Empty:
    // there is none. Blocks: no longer than the bounds for a free connection, for making one and for each answer (one
    // to each MiB); and while a name is looked up, as the system does.
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
    const Find find_;   // null: they are where their names say
    const std::optional<std::size_t> own_;
    std::atomic<std::uint64_t> ids_{0};
    std::atomic<Pool*> pool_;   // of this process
};

// For ReadCache: the servers as peers of each file.
[[nodiscard]] cache::FindPeers find_peers(std::shared_ptr<CacheServers> servers);

}   // namespace forebay::wire
