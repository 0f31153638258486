// A staging server: it listens, and has a thread for each session; these end before the object. One thread calls `run`
// and `await_sessions`. `run` blocks until it is woken, `await_sessions` and the destructor until all sessions have
// ended. A session that only reads may hang in a call of its file. `await_sessions` waits for it with option patience.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
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
        // Options of all files together, which share `size`. `read_cache` concerns programs of other nodes.
        LoadedOptions options;
        std::size_t clients_max = 0;   // limit of writers; 0: only reads through the cache
        Report report;
        std::optional<wire::SealKey> key{};   // shared with clients on other machines; none: they are refused
        ServedFiles::Reach reach{};           // for tests
        std::shared_ptr<WaitClock> clock = std::make_shared<WaitClock>();
        std::size_t readers_max =
            CachedFiles::kReadersMax;           // limit of readers through the cache; each has a descriptor
        std::set<io::Identity> unrecovered{};   // files of which a log may still have bytes
    };
    Server(Setup setup, std::unique_ptr<io::Listener> listener);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    [[nodiscard]] Status run(int wake);
    // Accepts no more clients, and waits until all written files are closed. Then it ends all other sessions. Returns
    // false if one that only reads has not ended after the time in option patience. Its thread uses this object as long
    // as the call hangs. So the caller leaves the object to the end of the process, and does not destroy it.
    [[nodiscard]] bool await_sessions();
    // Returns the files whose staged bytes may still be only in a log. Call it after `await_sessions`.
    [[nodiscard]] std::set<io::Identity> unrecovered() const { return files_.unrecovered(); }
    [[nodiscard]] std::size_t sessions();
    // Returns the totals of reads by programs of other nodes. Returns nothing without a read cache.
    [[nodiscard]] std::optional<cache::CacheTotals> cached();

    [[nodiscard]] const io::Address& address() const noexcept { return listener_->address(); }

  private:
    struct Slot {
        std::unique_ptr<wire::Connection> connection;
        SessionUse use;
        std::jthread thread;
        bool ended = false;   // guarded by mutex_
    };
    void admit(std::unique_ptr<io::Socket> socket);
    // A thread tells a refused client the reason, so that other clients need not wait.
    void refuse(std::unique_ptr<io::Socket> socket, const Status& why);
    template <class Run>
    void begin(std::list<Slot>& slots, std::unique_ptr<io::Socket> socket, Run run);
    [[nodiscard]] bool await_readers();
    void remove_ended();
    void remove_ended(std::list<Slot>& slots);

    const std::size_t sessions_max_;
    const bool stages_;
    const std::uint64_t patience_ns_;   // 0: without end
    const std::shared_ptr<WaitClock> clock_;
    const Report report_;
    const std::optional<wire::SealKey> key_;
    const std::uint64_t epoch_;
    const std::unique_ptr<CachedFiles> cached_files_;
    ServedFiles files_;
    std::unique_ptr<io::Listener> listener_;
    std::mutex mutex_;
    std::condition_variable ended_;
    std::list<Slot> slots_, refused_;   // only the thread of `run` adds and removes slots
};

}   // namespace forebay::server
