// A staging server: it listens, and has a thread for each session.
//
// Thread-safety: `run` and `end` are one thread's. Ownership: sessions' threads end before it does. Blocking: `run`
// until it is woken, `end` until all sessions have ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/options.h"
#include "base/status.h"
#include "io/socket.h"
#include "server/cached_files.h"
#include "server/served_files.h"
#include "server/session.h"

namespace forebay::server {

class Server {
  public:
    struct Setup {
        LoadedOptions options;   // of all files together: `size` is shared out; `read_cache`: of programs elsewhere
        std::size_t clients_max = 0;   // that write; 0: it serves nothing but reads through the cache
        Report report;
        std::optional<wire::SealKey> key{};   // shared with clients on other machines; none: they are refused
        ServedFiles::Reach reach{};           // for tests
        std::shared_ptr<WaitClock> clock = std::make_shared<WaitClock>();   // of ServedFiles
        std::size_t readers_max = CachedFiles::kReadersMax;                 // of the read cache; each has a descriptor
    };
    Server(Setup setup, std::unique_ptr<io::Listener> listener);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // Serves until `wake` is readable.
    [[nodiscard]] Status run(int wake);
    // Accepts nobody any more; until all files that are written are closed. Then it ends the sessions of all others.
    void await_sessions();
    [[nodiscard]] std::size_t sessions();
    // What programs of other nodes have read through the cache. None: it has no read cache.
    [[nodiscard]] std::optional<cache::CacheTotals> cached();

    [[nodiscard]] const io::Address& address() const noexcept { return listener_->address(); }

  private:
    struct Slot {
        std::unique_ptr<wire::Connection> connection;
        std::atomic<bool> writes{false};
        std::jthread thread;
        bool ended = false;   // guarded by mutex_
    };
    void admit(std::unique_ptr<io::Socket> socket);
    // Whoever is refused is told so in a thread, and holds up nobody.
    void refuse(std::unique_ptr<io::Socket> socket, const Status& why);
    template <class Run>
    void begin(std::list<Slot>& slots, std::unique_ptr<io::Socket> socket, Run run);
    void remove_ended();
    void remove_ended(std::list<Slot>& slots);

    const std::size_t sessions_max_;
    const bool stages_;
    const Report report_;
    const std::optional<wire::SealKey> key_;
    const std::uint64_t epoch_;
    const std::unique_ptr<CachedFiles> cached_files_;   // null: it has no read cache
    ServedFiles files_;
    std::unique_ptr<io::Listener> listener_;
    std::mutex mutex_;
    std::list<Slot> slots_, refused_;   // added to and removed from by the thread of `run` only
};

}   // namespace forebay::server
