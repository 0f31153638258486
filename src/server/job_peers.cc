#include "server/job_peers.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "area/staging_area.h"
#include "base/attempt.h"
#include "base/background_thread.h"
#include "io/claim.h"
#include "io/event.h"
#include "io/forked_process.h"
#include "io/process_lock.h"
#include "server/server.h"
#include "wire/cache_servers.h"
#include "wire/job.h"

namespace forebay::server {

namespace {

// For the end of a peer. Another node whose read is cut reads the file itself.
constexpr std::chrono::seconds kLastMoment{5};
constexpr std::string_view kPeersFolder = "peers";   // in the staging area, with a claim for each job

std::string claims_in(const LoadedOptions& loaded) {
    return fmt::format("{}/{}/{}", loaded.options.nls, area::staging_folder(), kPeersFolder);
}

// Returns the number of descriptors that the peer may take from the program's limit.
std::size_t sessions_allowed() noexcept {
    constexpr std::size_t kPart = 8, kLeast = 8;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
    return std::clamp<std::size_t>(limit.rlim_cur / kPart, kLeast, CachedFiles::kReadersMax);
}

// Its thread uses all of it, and may hang in a file system that does not answer. So only `End` destroys it.
class JobPeer {
  public:
    // Ends the peer within kLastMoment. A peer whose thread has not ended by then stays as it is, until the process
    // ends.
    struct End {
        void operator()(JobPeer* peer) const noexcept {
            if (peer->end()) delete peer;
        }
    };
    using Owner = std::unique_ptr<JobPeer, End>;

    // Returns kUnavailable with EBUSY if another process is the node's peer.
    [[nodiscard]] static Result<Owner> start(const LoadedOptions& loaded, const wire::Job& job,
                                             std::shared_ptr<wire::JobFolder> folder) {
        const auto area = area::open_staging_area(loaded);
        if (!area) return area.status();
        auto claim = io::Claim::make(claims_in(loaded), job.name);
        if (!claim) return claim.status();
        io::Claim::remove_leftovers(claims_in(loaded));
        const auto master = io::parse_address(job.master);
        if (!master) return master.status();
        const auto host = io::own_host_towards(master.value());
        if (!host) return host.status();
        const auto key = folder->key();
        if (!key) return key.status();
        io::Address address;
        address.host = host.value();
        auto listener = io::Listener::open(address);
        if (!listener) return listener.status();
        auto wake = io::Event::create();
        if (!wake) return wake.status();
        const io::Address listens_at = listener.value()->address();
        Server::Setup setup;
        setup.options = loaded;
        setup.report = [](const std::string&) {};
        setup.key = key.value();
        setup.readers_max = sessions_allowed();
        Owner peer(new JobPeer(std::move(claim).value(), std::move(folder), std::move(wake).value()));
        peer->server_ = std::make_unique<Server>(std::move(setup), std::move(listener).value());
        peer->thread_ = start_background_thread([serving = peer.get()] { serving->serve(); });
        FOREBAY_TRY(peer->folder_->publish(listens_at));
        return peer;
    }
    JobPeer(const JobPeer&) = delete;
    JobPeer& operator=(const JobPeer&) = delete;

  private:
    JobPeer(std::unique_ptr<io::Claim> claim, std::shared_ptr<wire::JobFolder> folder, std::unique_ptr<io::Event> wake)
        : claim_(std::move(claim)), folder_(std::move(folder)), wake_(std::move(wake)) {}
    ~JobPeer() = default;
    // Serves until it is woken, or until it cannot continue: the program may have closed the socket. This thread also
    // ends the server, as each of these calls may hang with a session's read of a file.
    void serve() noexcept {
        (void)attempt([&] { return server_->run(wake_->number()); });
        folder_->withdraw();
        bool ended = true;
        (void)attempt([&] { ended = server_->await_sessions(); });
        if (!ended) (void)server_.release();   // a thread that hangs still uses it
        server_.reset();
        const std::lock_guard lock(mutex_);
        ended_ = true;
        thread_ended_.notify_all();
    }
    // Returns false if the thread may still run after kLastMoment.
    [[nodiscard]] bool end() noexcept {
        if (!thread_.joinable()) return true;
        wake_->signal();
        std::unique_lock lock(mutex_);
        return thread_ended_.wait_for(lock, kLastMoment, [this] { return ended_; });
    }

    const std::unique_ptr<io::Claim> claim_;   // outlives the server
    const std::shared_ptr<wire::JobFolder> folder_;
    const std::unique_ptr<io::Event> wake_;
    std::unique_ptr<Server> server_;
    std::mutex mutex_;
    std::condition_variable thread_ended_;
    bool ended_ = false;   // guarded by mutex_
    std::jthread thread_;
};

class JobPeers {
  public:
    JobPeers(LoadedOptions loaded, wire::Job job, std::function<void(const std::string&)> warn)
        : loaded_(std::move(loaded)), job_(std::move(job)), warn_(std::move(warn)) {}
    // In a forked child the threads belong to the parent, and so do the objects that they use.
    ~JobPeers() {
        if (io::forks_so_far() != forks_) (void)peer_.release();
    }
    JobPeers(const JobPeers&) = delete;
    JobPeers& operator=(const JobPeers&) = delete;

    [[nodiscard]] std::shared_ptr<cache::Peers> find(const cache::PeersWanted& file) {
        const std::lock_guard lock(mutex_);
        if (unusable_) return nullptr;
        if (folder_ == nullptr) {
            if (const Status joined = join(file.path); !joined) {
                give_up(joined);
                return nullptr;
            }
            serve();
            // Other nodes may have only forked processes, too.
            if (cannot_serve_ && !folder_->has_met(job_.own)) tell_of_forks();
            else meet();
        } else {
            serve();
        }
        return find_peers_(file);
    }

  private:
    [[nodiscard]] Status join(const std::string& path) {
        const std::string& option = loaded_.options.read_cache_servers;
        const std::size_t colon = option.find(':');
        const std::string folder = colon == std::string::npos ? std::filesystem::path(path).parent_path().string()
                                                              : option.substr(colon + 1);
        if (!folder.starts_with('/')) return {Code::kInvalidArgument, "the path of the folder is not absolute"};
        auto opened = wire::JobFolder::open(folder, job_);
        if (!opened) return opened.status();
        folder_ = std::move(opened).value();
        find_peers_ = wire::find_peers(wire::CacheServers::of_job(
            job_.nodes, job_.own, [folder = folder_](std::size_t node) { return folder->find(node); }, {}));
        return Status::ok();
    }
    // A node without a peer of its own still asks others.
    void serve() {
        if (peer_ != nullptr || cannot_serve_) return;
        // Checked at each open.
        if (const auto held = io::Claim::is_held(claims_, job_.name); held && held.value()) return;
        auto started = JobPeer::start(loaded_, job_, folder_);
        if (started) peer_ = std::move(started).value();
        else if (started.status().sys_errno() != EBUSY) {
            cannot_serve_ = true;
            tell(started.status().with_context("other nodes cannot read from this one"));
        }
    }
    // A shared file system does not report new files, so this looks for them after growing pauses.
    void meet() {
        io::ListenerWatch pause{io::Address{}};
        std::vector<std::size_t> missing(job_.nodes);
        std::iota(missing.begin(), missing.end(), std::size_t{0});
        const auto end = std::chrono::steady_clock::now() + kMeeting;
        for (;;) {
            std::erase_if(missing, [&](std::size_t node) { return node == job_.own || folder_->has_met(node); });
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
            if (missing.empty() || left.count() <= 0) return;
            pause.await(left);
        }
    }
    void tell_of_forks() const {
        if (io::is_forked())
            tell({Code::kUnavailable,
                  "the nodes do not share reads, because a forked process cannot serve other nodes: open a file in "
                  "each rank's own process before its DataLoader starts workers"});
    }
    void give_up(const Status& why) {
        unusable_ = true;
        tell(why);
    }
    void tell(const Status& why) const {
        warn_(fmt::format("option read_cache_servers={}: {}", loaded_.options.read_cache_servers, why.message()));
    }

    const LoadedOptions loaded_;
    const wire::Job job_;
    const std::function<void(const std::string&)> warn_;
    const std::string claims_ = claims_in(loaded_);
    const std::uint64_t forks_ = io::forks_so_far();
    std::mutex mutex_;   // guards the members below
    bool unusable_ = false;
    bool cannot_serve_ = io::is_forked();   // a forked process may end at any time, with or without its exit handlers
    std::shared_ptr<wire::JobFolder> folder_;
    cache::FindPeers find_peers_;
    JobPeer::Owner peer_;
};

}   // namespace

cache::FindPeers find_job_peers(const LoadedOptions& loaded, const Getenv& getenv,
                                std::function<void(const std::string& message)> warn) {
    if (loaded.options.read_cache != ReadCacheMode::kOn) return nullptr;
    auto job = wire::find_job(getenv);
    if (!job) {
        warn(fmt::format("option read_cache_servers={}: {}", loaded.options.read_cache_servers,
                         job.status().message()));
        return nullptr;
    }
    if (!job.value()) return nullptr;
    auto peers = std::make_shared<JobPeers>(loaded, std::move(*job.value()), std::move(warn));
    return [peers](const cache::PeersWanted& file) -> std::shared_ptr<cache::Peers> {
        std::shared_ptr<cache::Peers> found;
        (void)attempt([&] { found = peers->find(file); });
        return found;
    };
}

}   // namespace forebay::server
