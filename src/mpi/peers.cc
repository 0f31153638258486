#include "mpi/peers.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/attempt.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/immortal.h"
#include "mpi/check.h"
#include "mpi/window_peers.h"

namespace forebay::mpi {

namespace {

constexpr std::size_t kLeftMax = 8;   // windows left but not freed; at this number no more are made

// One rank's part of the gathered facts; the name of its node follows.
struct Told {
    std::uint64_t joins = 0;
    std::uint64_t nonce = 0;
    cache::Version version;
    std::uint64_t left_count = 0;
    std::array<std::uint64_t, kLeftMax> left{};
};

Told told_by(std::span<const std::byte> bytes) noexcept {
    Told told;
    if (bytes.size() >= sizeof told) std::memcpy(&told, bytes.data(), sizeof told);
    return told;
}
std::string_view node_of(std::span<const std::byte> bytes) noexcept {
    const auto name = bytes.subspan(std::min(bytes.size(), sizeof(Told)));
    return {reinterpret_cast<const char*>(name.data()), name.size()};
}

// The device number of a file system differs between nodes.
bool same_version(cache::Version one, const cache::Version& other) noexcept {
    one.identity.device = other.identity.device;
    return one == other;
}

// All windows of the process, in the order of their making. The end of MPI ends the remaining ones.
class AllWindows {
  public:
    static AllWindows& get() {
        static Immortal<AllWindows> all;   // MPI's end may come after static objects are destroyed
        return *all;
    }
    [[nodiscard]] Status watch_end() {
        if (watched_) return Status::ok();
        int key = MPI_KEYVAL_INVALID;
        const auto end = [](MPI_Comm, int, void*, void*) {
            get().end_all();
            return static_cast<int>(MPI_SUCCESS);
        };
        FOREBAY_TRY(check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end, &key, nullptr), "MPI_Comm_create_keyval"));
        FOREBAY_TRY(check(MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr"));
        watched_ = true;
        return Status::ok();
    }
    [[nodiscard]] std::vector<std::shared_ptr<WindowPeers>>& live() noexcept { return live_; }
    void tell_left(Told& told) const noexcept {
        for (const auto& one : live_)
            if (one->left() && told.left_count < kLeftMax) told.left[told.left_count++] = one->id();
    }
    // Collective. Ends the windows that all ranks of this team, and no others, have left.
    void end_left(const file::Gathered& all) noexcept {
        const Told first = told_by(all[0]);
        for (std::uint64_t i = 0; i < std::min<std::uint64_t>(first.left_count, kLeftMax); ++i) {
            const std::uint64_t id = first.left[i];
            bool everywhere = true;
            for (std::size_t rank = 0; rank < all.size(); ++rank) {
                const Told told = told_by(all[rank]);
                everywhere = everywhere && std::ranges::find(told.left, id) != told.left.end();
            }
            if (!everywhere) continue;
            const auto found = std::ranges::find_if(live_, [&](const auto& one) { return one->id() == id; });
            // All ranks of the team hold the window, so they agree on the number of its ranks.
            if (found == live_.end() || (*found)->ranks() != static_cast<int>(all.size())) continue;
            (*found)->end();
            live_.erase(found);
        }
    }

    void keep(std::shared_ptr<WindowPeers> unfinished) noexcept {
        (void)attempt([&] { kept_.push_back(std::move(unfinished)); });
    }

  private:
    void end_all() noexcept {
        for (const auto& one : live_) one->end();
        live_.clear();
    }
    std::vector<std::shared_ptr<WindowPeers>> live_, kept_;
    bool watched_ = false;
};

// Gives the same answer on all ranks.
bool all_join(const file::Gathered& all) noexcept {
    const Told first = told_by(all[0]);
    bool several = false, may = true;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const Told told = told_by(all[rank]);
        may = may && told.joins == 1 && same_version(told.version, first.version);
        several = several || node_of(all[rank]) != node_of(all[0]);
    }
    return may && several;
}

WindowPeers::Setup setup_of(const file::Gathered& all, std::size_t self, cache::AttachedReplica::Exposed exposed) {
    WindowPeers::Setup setup;
    const Told first = told_by(all[0]);
    setup.id = first.nonce;
    setup.ranks = static_cast<int>(all.size());
    setup.file_bytes = first.version.size;
    setup.exposed = std::move(exposed);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const auto same_node = [&](int leader) {
            return node_of(all[static_cast<std::size_t>(leader)]) == node_of(all[rank]);
        };
        const auto found = std::ranges::find_if(setup.leaders, same_node);
        const auto node = static_cast<cache::Peers::Node>(found - setup.leaders.begin());
        if (found == setup.leaders.end()) setup.leaders.push_back(static_cast<int>(rank));
        if (rank == self) setup.own = node;
    }
    return setup;
}

// Collective. Returns null on all ranks or on none. After a failure halfway the windows stay until the process ends.
std::shared_ptr<WindowPeers> make_windows(file::Team& team, MPI_Comm communicator, const file::Gathered& all,
                                          cache::AttachedReplica::Exposed exposed) noexcept {
    std::shared_ptr<WindowPeers> made;
    auto& live = AllWindows::get().live();
    if (!team.agree(attempt([&] {
            made = std::make_shared<WindowPeers>(setup_of(all, static_cast<std::size_t>(team.rank()),
                                                          std::move(exposed)));
            live.reserve(live.size() + 1);
            return AllWindows::get().watch_end();
        })))
        return nullptr;
    for (const auto make : {&WindowPeers::make_directory, &WindowPeers::make_maps, &WindowPeers::make_replicas}) {
        if (team.agree((*made.*make)(communicator))) continue;
        // Other ranks may have a window that this rank lacks. The memory that it exposes has to stay.
        AllWindows::get().keep(std::move(made));
        return nullptr;
    }
    made->begin();
    live.push_back(made);
    return made;
}

std::uint64_t nonce_of(const std::string& node) {
    static std::uint64_t count = 0;
    const std::string text = node + ' ' + std::to_string(::getpid()) + ' ' + std::to_string(realtime_ns()) + ' ' +
                             std::to_string(++count);
    return checksum(std::as_bytes(std::span(text)));
}

}   // namespace

std::shared_ptr<cache::Peers> join_peers(file::Team& team, const void* communicator,
                                         const file::PeersWanted& wanted) noexcept {
    MPI_Comm comm;
    std::memcpy(&comm, communicator, sizeof comm);
    cache::AttachedReplica::Exposed exposed;
    std::vector<std::byte> words;
    const Status ready = attempt([&] {
        Told mine;
        const cache::AttachedReplica* const attached = wanted.file != nullptr ? wanted.file->attached() : nullptr;
        mine.joins = attached != nullptr && !attached->has_peers() ? 1 : 0;
        mine.nonce = nonce_of(wanted.node);
        AllWindows::get().tell_left(mine);
        if (mine.left_count == kLeftMax) mine.joins = 0;
        if (attached != nullptr) mine.version = attached->replica()->source();
        if (mine.joins == 1 && wanted.leads) {
            auto shown = attached->expose();
            if (shown) exposed = std::move(shown).value();
            else mine.joins = 0;
        }
        words.resize(sizeof mine + wanted.node.size());
        std::memcpy(words.data(), &mine, sizeof mine);
        std::memcpy(words.data() + sizeof mine, wanted.node.data(), wanted.node.size());
    });
    const auto all = team.gather(ready, words);
    if (!all) return nullptr;
    AllWindows::get().end_left(all.value());
    if (!all_join(all.value())) return nullptr;
    return make_windows(team, comm, all.value(), std::move(exposed));
}

}   // namespace forebay::mpi
