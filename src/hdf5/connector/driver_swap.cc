#include "hdf5/connector/driver_swap.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/attempt.h"
#include "file/launch.h"
#include "hdf5/connector/info.h"
#include "hdf5/connector/other_driver.h"
#include "hdf5/connector/transfer.h"
#include "hdf5/driver/forwarding.h"
#include "hdf5/driver/open_recovery.h"
#include "hdf5/host/guard.h"
#include "hdf5/host/local_list.h"
#include "hdf5/host/mpi_library.h"
#include "hdf5/open_files.h"
#include "hdf5/pause.h"
#include "hdf5/session.h"
#include "hdf5/warning.h"
#include "io/file_system.h"
#include "io/posix_file.h"
#include "io/spare_descriptors.h"

namespace forebay::hdf5 {

namespace {

using ledger::AsideReason;

constexpr const char* kSetCollective = "H5Pset_coll_metadata_write";
using SetCollective = herr_t (*)(hid_t, hbool_t);

// HDF5 would take one file under two drivers for two files. A file staged here keeps our driver, but unstaged.
std::shared_ptr<stage::StagedFile> staged_already(const char* path) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    struct stat status{};
    if (engine == nullptr || ::stat(path, &status) != 0) return nullptr;
    return engine->files().find({status.st_dev, status.st_ino});
}

constexpr unsigned kFresh = H5F_ACC_TRUNC | H5F_ACC_EXCL;

}   // namespace

bool exchange_driver(hid_t file_access_list) {
    if (host().H5Pget_driver(file_access_list) != host().sec2()) return false;
    const hid_t ours = Session::get().driver();
    return ours >= 0 && host().H5Pset_driver(file_access_list, ours, nullptr) >= 0;
}

namespace {

// A rank's vote on a file that the ranks are about to open. All ranks whose lists name mpio vote, whatever their
// options: options may differ, and a silent rank would keep the others waiting.
enum class Vote : char { kStage = 's', kStageOnNode = 'n', kDecline = 'd', kRefuse = 'r' };

// True if this library can hold a ballot over the list's communicator.
bool names_mpio(hid_t list) {
    // MPI's identifiers may be asked for only once MPI runs; then the list has one of them.
    const hid_t driver = host().H5Pget_driver(list);
    return reason_of(driver) == AsideReason::kMpi && driver == host().mpio();
}

// A rank without the connector does not know of the ballot. Local; true on all ranks that have the connector, if all
// ranks run on this machine.
bool someone_lacks_connector(hid_t list) {
    if (!names_mpio(list)) return false;
    const auto adapter = mpi_adapter();
    if (!adapter) return false;
    const auto members = members_of(list, *adapter.value());
    if (!members) return false;
    static file::Launch& launch = *new file::Launch(::getpid());   // HDF5 calls under its lock, or from one thread
    const auto unequal = launch.compare(members.value().ranks, members.value().own);
    if (!unequal) return false;
    if (unequal->with == members.value().own)
        warn_once(fmt::format("rank {} was started without HDF5_VOL_CONNECTOR=forebay, rank {} with it: {}",
                              unequal->without, unequal->with,
                              unequal->all_seen
                                  ? "files that they open together with MPI are not staged"
                                  : "unless it loads forebay by itself, an open of a shared file does not return"));
    return unequal->all_seen;
}

// Reading it needs no memory, so all ranks come to the same result.
struct Ballot {
    OfferedTeam offered;
    // For each rank: a Vote and, if it can stage, '+' or '-' for nodes=consistent, and the node's name.
    file::Gathered votes;

    [[nodiscard]] std::string_view vote(std::size_t rank) const noexcept {
        return {reinterpret_cast<const char*>(votes[rank].data()), votes[rank].size()};
    }
    [[nodiscard]] std::string_view node(std::size_t rank) const noexcept {
        return vote(rank).substr(std::min<std::size_t>(2, vote(rank).size()));
    }
    [[nodiscard]] bool any_rank(std::size_t end, auto&& is) const {
        for (std::size_t rank = 0; rank < end; ++rank)
            if (is(rank)) return true;
        return false;
    }
    [[nodiscard]] bool several_nodes() const {
        return any_rank(votes.size(), [&](std::size_t rank) { return node(rank) != node(0); });
    }
    [[nodiscard]] bool leads_node() const {
        const auto own = static_cast<std::size_t>(offered.team->rank());
        return !any_rank(own, [&](std::size_t rank) { return node(rank) == node(own); });
    }
    [[nodiscard]] bool all_consistent() const {
        return !any_rank(votes.size(), [&](std::size_t rank) { return !vote(rank).substr(1).starts_with('+'); });
    }
    [[nodiscard]] bool any(Vote what) const {
        return any_rank(votes.size(), [&](std::size_t rank) { return vote(rank).front() == static_cast<char>(what); });
    }
};

// Collective over the list's communicator. Returns nothing if the list does not name mpio, or if the libraries prevent
// that, which is the same on all ranks. `more` makes the text behind the vote.
template <class More>
std::optional<Ballot> ballot(hid_t list, Vote mine, More&& more) {
    if (!names_mpio(list)) return std::nullopt;
    const auto adapter = mpi_adapter();
    const char* const obstacle = obstacle_with_mpi();
    if (!adapter || obstacle != nullptr) {
        if (mine == Vote::kStage || mine == Vote::kStageOnNode)
            warn_once("files opened with MPI are not staged: " + (adapter ? obstacle : adapter.status().message()));
        return std::nullopt;
    }
    auto offered = OfferedTeam::make(list, *adapter.value());
    if (!offered) return std::nullopt;
    std::string told;
    const Status ready = attempt([&] {
        told = more();
        told.insert(told.begin(), static_cast<char>(mine));
    });
    auto all = offered.value().team->gather(ready, std::as_bytes(std::span(told)));
    if (!all) return std::nullopt;
    return Ballot{std::move(offered).value(), std::move(all).value()};
}
std::optional<Ballot> ballot(hid_t list, Vote mine) {
    return ballot(list, mine, [] { return std::string(); });
}

// The read cache leaves local file systems alone; mpio then keeps a file that is opened for reading.
bool may_be_cached(const char* path) {
    const auto kind = io::file_system_of(path);
    return kind && !kind.value().local;
}

class OwnPart {
  public:
    // `open`: the file as this process stages it already, or null. `routed`: no reason against staging is known so far.
    OwnPart(hid_t list, const char* path, bool writes, UnderList::For what, stage::StagedFile* open, bool routed)
        : wanted_(Session::get().wants(list, writes)) {
        if (!routed || !wanted_ || engine_ == nullptr || options().mpi == WithMpi::kOff) return;
        goes_on_ = open != nullptr && open->membership().shared();
        served_ = options().forwards();   // a server does not care for nodes
        const bool reads = !writes && what == UnderList::For::kOpen;
        caches_ = reads && options().read_cache == ReadCacheMode::kOn && may_be_cached(path);
        if (writes && !goes_on_ && !served_) obstacle_ = engine_->area().obstacle();
        const bool beside_a_writer = served_ && reads;
        can_ = goes_on_ || caches_ || beside_a_writer || (writes && !obstacle_);
    }

    [[nodiscard]] stage::Engine* engine() const noexcept { return engine_.get(); }
    [[nodiscard]] bool wanted() const noexcept { return wanted_; }
    [[nodiscard]] const std::optional<stage::ProcessArea::Obstacle>& obstacle() const noexcept { return obstacle_; }
    [[nodiscard]] bool refuses() const { return obstacle_ && options().strict; }
    [[nodiscard]] std::optional<Ballot> vote(hid_t list) const {
        if (!can_) return ballot(list, refuses() ? Vote::kRefuse : Vote::kDecline);
        const char consistent = options().nodes == SeveralNodes::kConsistent ? '+' : '-';
        return ballot(list, options().mpi == WithMpi::kNode && !served_ ? Vote::kStageOnNode : Vote::kStage,
                      [&] { return consistent + engine_->area().node_name(); });
    }
    // For a file that all ranks can stage and only read. Returns true if mpio opens it: no client writes it through the
    // server, and not all ranks have another reason to keep it. Collective.
    [[nodiscard]] bool leaves_reading(const OfferedTeam& offered, const char* path) const {
        const bool keeps = goes_on_ || caches_;
        const bool written = served_ && offered.team->rank() == 0 && may_have_writer(options(), path);
        const auto all = offered.team->agree(Status::ok(), (keeps ? 1 : 0) + (written ? 2 : 0));
        return !all || (all.value()[0] < 2 && std::ranges::count(all.value(), 1u) < offered.team->size());
    }

  private:
    [[nodiscard]] const Options& options() const { return engine_->options().options; }

    const std::shared_ptr<stage::Engine> engine_ = Session::get().engine();
    const bool wanted_;
    bool goes_on_ = false;   // it is staged and shared already
    bool served_ = false, caches_ = false, can_ = false;
    std::optional<stage::ProcessArea::Obstacle> obstacle_;
};

}   // namespace

// Like `exchange_driver` for mpio, once all ranks agree that they can stage, or have the file open so already.
// Collective. If `aside_` is set already, this only informs the others.
bool UnderList::exchange_mpi_driver(const char* path, unsigned flags, For what) {
    if (!names_mpio(list_)) return false;
    note_emptying(path, flags, what);   // no rank opens the file before all have voted
    const bool route_stages = !aside_;
    const std::shared_ptr<stage::StagedFile> open = staged_already(path);
    if (!aside_ && open == nullptr && is_paused()) aside_ = AsideReason::kPaused;
    const bool writes = (flags & H5F_ACC_RDWR) != 0;
    const OwnPart own(list_, path, writes, what, open.get(), !aside_);
    auto result = own.vote(list_);
    if (!result) return false;
    if (own.refuses() || result->any(Vote::kRefuse)) {
        refusal_ = own.refuses() ? own.obstacle()->status
                                 : Status(Code::kInvalidArgument,
                                          "another rank refuses its options, or its staging area (strict)");
        refusal_ = std::move(refusal_).with_context(std::string("open ") + path);
        return false;
    }
    if (const auto& obstacle = own.obstacle()) {
        aside_ = obstacle->reason;
        (void)attempt([&] {
            if (!obstacle->status) warn_once(obstacle->status.message() + "; files are written directly, unstaged");
        });
    }
    const bool declined = result->any(Vote::kDecline) || (!writes && own.leaves_reading(result->offered, path));
    const bool left_to_one_node = !declined && result->several_nodes() && result->any(Vote::kStageOnNode);
    if (declined || left_to_one_node) {
        // mpio opens it, and must find it whole. A rank whose text stages nothing has no engine that could recover it.
        if ((flags & kFresh) == 0)
            refusal_ = recover_together(*result->offered.team, route_stages ? own.engine() : nullptr, path, writes);
        if (refusal_) await_closed_together(*result->offered.team, path, [&] { return make_ready(path, flags); });
        if (left_to_one_node) aside_ = AsideReason::kSeveralNodes;
        else if (!own.wanted() && !aside_) aside_ = AsideReason::kDisabled;
        return false;
    }
    const std::shared_ptr<file::Team> team = result->offered.team;
    await_closed_together(*team, path, [&]() -> Status {
        const hid_t ours = Session::get().mpi_driver();
        if (ours < 0 || host().H5Pset_driver(list_, ours, nullptr) < 0)
            return {Code::kUnavailable, "put forebay's MPI driver into the file access list"};
        if (result->several_nodes() && result->all_consistent()) FOREBAY_TRY(write_metadata_collectively());
        result->offered.leads = result->leads_node();
        result->offered.several_nodes = result->several_nodes();
        offer_.emplace(path, std::move(result->offered));
        return Status::ok();
    });
    return refusal_.is_ok();
}

// All ranks go on to the open, or none: it is collective, and a rank that left before it would keep the others waiting.
void UnderList::await_closed_together(file::Team& team, const char* path, const std::function<Status()>& then) {
    refusal_ = team.agree(attempt([&]() -> Status {
        FOREBAY_TRY(await_closed(path));
        return then ? then() : Status::ok();
    }));
    closes_awaited_ = true;
    if (!refusal_) offer_.reset();
}

// They tell which rank overwrote a piece of metadata first (undo/undo_journal.h). All ranks do this, or none.
Status UnderList::write_metadata_collectively() {
    using Get = herr_t (*)(hid_t, hbool_t*);
    const auto get = reinterpret_cast<Get>(host().find_symbol("H5Pget_coll_metadata_write"));
    const auto set = reinterpret_cast<SetCollective>(host().find_symbol(kSetCollective));
    hbool_t already = false;
    if (get == nullptr || set == nullptr || get(list_, &already) < 0 || already) return Status::ok();
    if (set(list_, true) < 0) return {Code::kUnavailable, "have HDF5 write metadata collectively"};
    origin_->metadata_made_collective = true;
    return Status::ok();
}

herr_t restore_list(hid_t file_access_list, const Origin& origin) {
    if (origin.metadata_made_collective)
        if (const auto set = reinterpret_cast<SetCollective>(host().find_symbol(kSetCollective));
            set(file_access_list, false) < 0)
            return -1;
    const hid_t driver = host().H5Pget_driver(file_access_list);
    if (Session::get().is_ours(driver) && host().H5Pset_driver(file_access_list, host().sec2(), nullptr) < 0) return -1;
    if (Session::get().is_our_mpi(driver) && host().H5Pset_driver(file_access_list, host().mpio(), nullptr) < 0)
        return -1;
    if (origin.connector < 0) return 0;
    const ConnectorInfo info(origin.info);
    return host().H5Pset_vol(file_access_list, origin.connector, &info);
}

UnderList::UnderList(const char* function, const char* path, unsigned flags, hid_t file_access_list, For what)
    : program_list_(file_access_list), origin_(std::make_shared<Origin>()) {
    io::SpareDescriptors::of_process().note_open();   // the file may be opened by HDF5's own driver
    Session& session = Session::get();
    origin_->info = info_of_list(file_access_list);
    const Route& route = session.route(text_of_list(file_access_list, origin_->info));
    origin_->fails_in_event_set = route.fails_in_event_set;
    local_ = someone_lacks_connector(file_access_list);
    // With mpio copying is collective, so it comes before any refusal.
    list_ = local_ ? copy_locally(file_access_list) : host().H5Pcopy(file_access_list);
    if (list_ < 0) return;
    if (!route.refusal.is_ok()) {
        refuse_together(function, route.refusal);
        return;
    }
    if (host().H5Pset_vol(list_, route.under_connector, route.under_info) < 0) {
        refuse_together(function, {Code::kUnavailable, "put the connector beneath into the file access list"});
        return;
    }
    if (host().H5Pget_vol_id(file_access_list, &origin_->connector) < 0) origin_->connector = H5I_INVALID_HID;
    host().H5Iinc_ref(route.under_connector);
    origin_->under_connector = route.under_connector;

    aside_ = choose(route, path, flags);
    const hid_t driver = host().H5Pget_driver(list_);
    if (!aside_ && (exchange_driver(list_) || session.is_ours(driver))) origin_->staged = true;
    else if (!local_ && exchange_mpi_driver(path, flags, what)) origin_->staged = origin_->mpi = true;
    else aside_ = aside_.value_or(reason_of(driver));
    origin_->left_to_driver = !origin_->staged && is_left_to_driver(driver);
    // Without a ballot the ranks have no team. Then the other ranks' open waits for a rank that fails here.
    if (!origin_->staged && !closes_awaited_ && refusal_)
        refusal_ = is_of_forebay(driver) ? await_closed(path) : make_whole(driver, path, flags);
    if (!emptied_) note_emptying(path, flags, what);
    if (!refusal_) refuse(function, refusal_);
}

void UnderList::refuse_together(const char* function, const Status& why) {
    if (!local_) (void)ballot(list_, Vote::kRefuse);
    refuse(function, why);
}

void UnderList::close_list() {
    if (local_) close_local_copy(list_);
    else host().H5Pclose(list_);
    list_ = H5I_INVALID_HID;
}

void UnderList::refuse(const char* function, const Status& why) {
    close_list();
    push_error(function, host().H5E_FILE_g, host().H5E_CANTOPENFILE_g, why);
}

UnderList::~UnderList() {
    if (list_ >= 0) {
        const ErrorStackKeeper keeper;
        if (names_mpio(list_)) carry_hints(list_, program_list_);
        close_list();
    }
}

std::optional<AsideReason> UnderList::choose(const Route& route, const char* path, unsigned flags) const {
    if (route.aside == AsideReason::kUnderConnector) return route.aside;
    const bool off = route.aside || (route.writes == Switch::kOff && route.reads == Switch::kOff);
    // HDF5 takes the file for the same one only if it keeps its driver, which is forebay's or sec2.
    const bool by_default = host().H5Pget_driver(list_) == host().sec2();
    if (off && !(by_default && is_open_through_forebay(path))) return route.aside.value_or(AsideReason::kDisabled);
    if (!off && by_default && is_open_through_sec2(path)) return AsideReason::kDisabled;
    if ((flags & (H5F_ACC_SWMR_WRITE | H5F_ACC_SWMR_READ)) != 0) {
        // Our driver, unstaged: HDF5 knows the file again. The next flush of an open handle reports a failure.
        if (const std::shared_ptr<stage::StagedFile> file = staged_already(path))
            (void)Session::get().engine()->files().step_aside(file->identity(), AsideReason::kSwmr);
    }
    return std::nullopt;
}

void UnderList::note_emptying(const char* path, unsigned flags, For what) noexcept {
    if (!origin_->staged && what == For::kOpen && path != nullptr && (flags & kFresh) != 0) emptied_.emplace(path);
}

void UnderList::note_opened(void* under, const char* path) {
    if (origin_->staged) origin_->file = open_file_of(under, origin_->under_connector);
    else if (path != nullptr) {
        origin_->unstaged_name = path;
        // Core without a backing store opens no file of this name.
        const bool left_alone = emptied_ && !emptied_->is_touched(path);
        if (const auto identity = io::identify(path); identity && !left_alone)
            origin_->other_driver.emplace(identity.value(), host().H5Pget_driver(list_) == host().sec2());
    }
    if (aside_) Session::get().count_aside(*aside_);
}

bool UnderList::opened(const char* function, void* under, const char* path) noexcept {
    Status outcome = attempt([&] { note_opened(under, path); });
    const bool noted = outcome.is_ok();
    if (noted) outcome = void_logs(path);
    if (outcome) return true;
    const bool alone = origin_->left_to_driver || (origin_->staged && !origin_->mpi);
    if (noted && !alone) {
        warn_once(outcome.message());
        return true;
    }
    if (alone) host().H5VLfile_close(under, origin_->under_connector, *host().H5P_LST_DATASET_XFER_ID_g, nullptr);
    push_error(function, host().H5E_FILE_g, host().H5E_CANTOPENFILE_g, outcome);
    return false;
}

// Forebay's drivers do this themselves.
Status UnderList::void_logs(const char* path) const {
    return origin_->staged || !emptied_ ? Status::ok() : attempt([&] { return emptied_->void_logs(path); });
}

}   // namespace forebay::hdf5
