#include "hdf5/driver/mpi_open.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>

#include "base/attempt.h"
#include "cache/attached_replica.h"
#include "file/local_file.h"
#include "hdf5/driver/forwarding.h"
#include "hdf5/driver/open_recovery.h"
#include "hdf5/open_files.h"
#include "hdf5/session.h"
#include "hdf5/warning.h"
#include "io/posix_file.h"

namespace forebay::hdf5 {

namespace {

using file::SharedFile;

constexpr unsigned kFresh = H5F_ACC_TRUNC | H5F_ACC_EXCL;   // made or emptied

// Two groups of ranks that write one file would not see each other's staged bytes. So the second group is refused.
Status claim(MpiFile& file) {
    OpenFile& open = *file.open;
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if (!file.leads || engine == nullptr || OpenFiles::get().shared(open.identity) != nullptr) return Status::ok();
    if (engine->options().options.forwards()) return Status::ok();   // the server sees to that
    auto claimed = engine->area().claim(open.identity);
    if (claimed) {
        file.claim = std::move(claimed).value();
        return Status::ok();
    }
    if (claimed.status().sys_errno() == EBUSY)
        return {
            Code::kUnsupported,
            fmt::format("open {}: it is open for writing already, through another communicator, by {} of this machine",
                        open.path, claimed.status().message()),
            EBUSY};
    warn_once(claimed.status().message() + " (no rank stages " + open.path + ")");
    open.aside = ledger::AsideReason::kStagingArea;
    return Status::ok();
}

bool is_of_same_ranks(const SharedFile& existing, const MpiFile& file) {
    return existing.team().size() == file.team->size() && existing.team().rank() == file.team->rank();
}

Status refuse_to_empty(const char* name) {
    return {Code::kUnsupported, fmt::format("truncate {}: it is open for writing already", name), EEXIST};
}

// mpio lets the same ranks empty a file that they have open; they answer for the rest of the old one.
Status refuse_to_empty_what_others_have_open(const MpiFile& file, const io::Identity& identity, const char* name) {
    const auto existing = OpenFiles::get().shared(identity);
    return existing == nullptr || is_of_same_ranks(*existing, file) ? Status::ok() : refuse_to_empty(name);
}

// Opens or creates the file. Empties nothing yet, because others may be writing it, but asks all that may refuse that.
Status open_descriptor(MpiFile& file, const char* name, unsigned flags, bool first) {
    const bool empties = (flags & H5F_ACC_TRUNC) != 0;
    if (first && empties)
        if (const auto there = io::identify(name); there)
            FOREBAY_TRY(refuse_to_empty_what_others_have_open(file, there.value(), name));
    const int o_flags = open_flags(flags) & (first ? ~O_TRUNC : O_ACCMODE);
    FOREBAY_TRY(open_target(file, file.made, name, flags, o_flags));
    OpenFile& open = *file.open;
    if (open.writable && !open.aside) FOREBAY_TRY(claim(file));
    if (empties) FOREBAY_TRY(refuse_to_empty_what_others_have_open(file, open.identity, name));
    return (flags & kFresh) != 0 ? may_be_emptied(open) : Status::ok();
}

// Collective. The first rank empties it, or each rank in the order of its writes if all have it open and staged.
Status empty_everywhere(MpiFile& file, const char* name) {
    const auto existing = OpenFiles::get().shared(file.open->identity);
    const auto all = file.team->agree(Status::ok(), existing != nullptr ? 1 : 0);
    if (!all) return all.status();
    const auto open = static_cast<int>(std::ranges::count(all.value(), std::uint64_t{1}));
    if (open == file.team->size()) return existing->truncate(0);
    if (open > 0) return refuse_to_empty(name);
    return file.team->agree(attempt([&] {
        return file.team->rank() == 0 ? io::empty(*file.open->descriptor, file.open->path) : Status::ok();
    }));
}

stage::OpenTarget take_target(MpiFile& file) {
    return file.target ? std::move(*std::exchange(file.target, std::nullopt)) : target_of(*file.open);
}

// Collective. Does nothing without option server, or if these ranks have the file open already.
Status forward_everywhere(MpiFile& file, unsigned flags) {
    OpenFile& open = *file.open;
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    const auto all = file.team->agree(attempt([&] {
                                          return engine != nullptr
                                                     ? Status::ok()
                                                     : Status(Code::kUnavailable, "the staging engine has ended");
                                      }),
                                      OpenFiles::get().shared(open.identity) != nullptr ? 1 : 0);
    if (!all) return all.status();
    if (std::ranges::count(all.value(), std::uint64_t{1}) > 0) return Status::ok();
    stage::OpenTarget target;
    FOREBAY_TRY(file.team->agree(attempt([&] { target = target_of(open); })));
    const bool emptied = file.team->rank() == 0 && ((flags & H5F_ACC_TRUNC) != 0 || file.made.made());
    FOREBAY_TRY(forward_together(*file.team, target, engine->options(), open, {.emptied = emptied}));
    open.aside = target.aside;
    file.target = std::move(target);
    return Status::ok();
}

// The first rank creates, then all open, then it is emptied. Collective; all ranks get the same outcome.
Status open_everywhere(MpiFile& file, const char* name, unsigned flags) {
    const bool first = file.team->rank() == 0;
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    const auto open_if = [&](bool turn) {
        return file.team->agree(attempt([&] {
            return turn ? open_descriptor(file, name, flags, first) : Status::ok();
        }));
    };
    FOREBAY_TRY(open_if(first));
    FOREBAY_TRY(open_if(!first));
    // Only after the claim: an earlier writer may die unseen until then.
    const bool empties = (flags & H5F_ACC_TRUNC) != 0;
    if (!empties) FOREBAY_TRY(recover_together(*file.team, engine.get(), name, (flags & H5F_ACC_RDWR) != 0));
    FOREBAY_TRY(forward_everywhere(file, flags));
    if (!empties) return Status::ok();
    if (file.open->aside != ledger::AsideReason::kForwarded) FOREBAY_TRY(empty_everywhere(file, name));
    file.end_of_file = 0;
    return Status::ok();
}

Status find_engine(const MpiFile& file, const char* name, unsigned flags, std::shared_ptr<stage::Engine>& engine) {
    engine = Session::get().engine();
    if (engine == nullptr) return {Code::kUnavailable, "the staging engine has ended"};
    return (flags & kFresh) != 0 ? engine->leftovers().forget_before(file.open->identity, name) : Status::ok();
}

// Returns these ranks' open shared file, or a new one. If a rank fails or is not `ready`, all ranks get an error.
Result<std::shared_ptr<SharedFile>> share(MpiFile& file, std::shared_ptr<stage::Engine> engine, const Status& ready) {
    auto existing = OpenFiles::get().shared(file.open->identity);
    const bool same = existing != nullptr && is_of_same_ranks(*existing, file);
    enum class Known : std::uint64_t { kNot, kSame, kOther };
    const auto all = file.team->agree(ready, static_cast<std::uint64_t>(existing == nullptr ? Known::kNot
                                                                        : same              ? Known::kSame
                                                                                            : Known::kOther));
    if (!all) return all.status();
    const auto every = [&](Known what) {
        return std::ranges::all_of(all.value(), [&](std::uint64_t one) { return static_cast<Known>(one) == what; });
    };
    if (every(Known::kSame)) return existing;
    if (!every(Known::kNot))
        return Status(Code::kUnsupported,
                      fmt::format("open {}: it is open for writing already, through another communicator",
                                  file.open->path));
    Result<stage::OpenTarget> target = out_of_memory();
    (void)attempt([&] { target = take_target(file); });
    auto opened = SharedFile::open(std::move(engine), std::move(target), file.team);
    if (!opened) return opened.status();
    opened.value().file->hold(std::move(file.claim));
    (void)attempt([&] {
        if (!opened.value().warning.empty()) warn_once(opened.value().warning);
    });
    return std::move(opened.value().file);
}

}   // namespace

Status open_file(MpiFile& file, const char* name, unsigned flags) {
    OpenFile& open = *file.open;
    FOREBAY_TRY(open_everywhere(file, name, flags));
    std::shared_ptr<stage::Engine> engine;
    const Status ready = attempt([&] { return find_engine(file, name, flags, engine); });
    if ((flags & H5F_ACC_RDWR) == 0) {
        auto read = std::shared_ptr<file::FileReadByRanks>();   // its end detaches it if another rank fails
        FOREBAY_TRY(file.team->agree(attempt([&]() -> Status {
            FOREBAY_TRY(ready);
            read = std::make_shared<file::FileReadByRanks>(engine);
            stage::OpenTarget target = take_target(file);
            target.with_peers = file.several_nodes;
            auto attached = read->attach(std::move(target));
            FOREBAY_TRY(attached.status());
            file.cached = std::move(attached.value().cached);
            file.end_of_file = read->size();
            return Status::ok();
        })));
        open.file = std::move(read);
        file.made.keep();
        return Status::ok();
    }
    auto shared = share(file, std::move(engine), ready);
    if (!shared) return shared.status();
    // All begin with the same end of file: each tells its own before any of them can write.
    const auto sizes = file.team->agree(Status::ok(), shared.value()->size());
    if (!sizes) {
        if (OpenFiles::get().shared(open.identity) == nullptr)   // on all ranks alike
            (void)shared.value()->close();
        return sizes.status();
    }
    file.end_of_file = std::ranges::max(sizes.value());
    open.file = open.shared = std::move(shared).value();
    file.made.keep();
    return Status::ok();
}

void join_peers(MpiFile& file) noexcept {
    if (!file.several_nodes || file.open->writable) return;
    file::PeersWanted wanted{file.cached, file.leads, {}};
    const Status named = attempt([&] { wanted.node = file.open->file->engine().area().node_name(); });
    if (!named) wanted.file = nullptr;
    file.peers = file.handles.adapter().join_peers(*file.team, file.handles.communicator(), wanted);
    if (file.peers != nullptr) (void)file.cached->attached()->join(file.peers);   // files on trial have no peers
    if (file.cached != nullptr) file.open->file->engine().read_cache().prefetch_opened(*file.cached);
}

void leave_peers(MpiFile& file) noexcept {
    if (file.peers != nullptr) {
        file.cached->attached()->part();
        file.peers->leave();
    }
    file.peers = nullptr;
    file.cached = nullptr;
}

Result<OfferedTeam> offer_from(hid_t list, const file::MpiAdapter& adapter) {
    auto made = OfferedTeam::make(list, adapter);
    if (!made) return made.status();
    OfferedTeam offered = std::move(made).value();
    offered.leads = true;
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    std::string node;
    const Status ready = attempt([&] {
        if (engine != nullptr) node = engine->area().node_name();
    });
    const auto all = offered.team->gather(ready, std::as_bytes(std::span(node)));
    if (!all) return all.status();
    for (int rank = 0; rank < offered.team->rank(); ++rank) {
        if (std::ranges::equal(all.value()[static_cast<std::size_t>(rank)], std::as_bytes(std::span(node))))
            offered.leads = false;
    }
    for (std::size_t rank = 1; rank < all.value().size(); ++rank)
        offered.several_nodes = offered.several_nodes || !std::ranges::equal(all.value()[rank], all.value()[0]);
    return offered;
}

}   // namespace forebay::hdf5
