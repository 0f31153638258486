#include "hdf5/driver_swap.h"

#include <sys/stat.h>

#include <algorithm>
#include <span>
#include <string>

#include "hdf5/guard.h"
#include "hdf5/info.h"
#include "hdf5/mpi_driver.h"
#include "hdf5/mpi_library.h"
#include "hdf5/transfer.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

using log::AsideReason;

AsideReason reason_of(hid_t driver) {
    unsigned long features = 0;
    if (host().H5FDdriver_query(driver, &features) < 0 || (features & H5FD_FEAT_HAS_MPI) == 0)
        return AsideReason::kDriver;
    return driver == host().subfiling() ? AsideReason::kSubfiling : AsideReason::kMpi;
}

// A file that is staged in this process cannot also be opened with sec2: HDF5 would take them for two
// files. It is opened with our driver, which writes straight through from then on.
std::shared_ptr<stage::StagedFile> staged_already(const char* path) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    struct stat status {};
    if (engine == nullptr || ::stat(path, &status) != 0)
        return nullptr;
    return engine->find(status.st_dev, status.st_ino);
}

}   // namespace

bool exchange_driver(hid_t file_access_list) {
    if (host().H5Pget_driver(file_access_list) != host().sec2())
        return false;
    const hid_t ours = Session::get().driver();
    return ours >= 0 && host().H5Pset_driver(file_access_list, ours, nullptr) >= 0;
}

// The same for mpio, once all ranks agree that they can stage, or have the file open so already. Collective.
bool UnderList::exchange_mpi_driver(const char* path, unsigned flags) {
    // MPI's identifiers may be asked for only once MPI runs; then the list has one of them.
    if (reason_of(host().H5Pget_driver(list_)) != AsideReason::kMpi || host().H5Pget_driver(list_) != host().mpio())
        return false;
    const std::shared_ptr<stage::StagedFile> open = staged_already(path);
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    // The same on all ranks only if they have the same options; that is the user's to see to.
    if (engine == nullptr || !engine->options().options.mpi)
        return false;
    const auto door = mpi_door();
    if (!door || !can_tell_collective())
        return false;
    auto team = MpiHandles::make_team(list_, *door.value());
    if (!team)
        return false;
    const bool writes = (flags & H5F_ACC_RDWR) != 0;
    const bool can = (open != nullptr && open->shared()) || (writes && engine != nullptr && engine->can_stage());
    const std::string mine = can ? engine->node_name() : std::string();
    const auto all = team.value()->gather(std::as_bytes(std::span(mine)));
    if (!all || std::any_of(all.value().begin(), all.value().end(), [](const auto& one) { return one.empty(); }))
        return false;
    // Across nodes nothing orders what one stages against what another writes to the same place (HDF5 fills
    // contiguous storage independently, for one), so such files stay mpio's.
    if (std::any_of(all.value().begin(), all.value().end(), [&](const auto& one) { return one != all.value().front(); })) {
        aside_ = AsideReason::kSeveralNodes;
        return false;
    }
    const hid_t ours = Session::get().mpi_driver();
    if (ours < 0 || host().H5Pset_driver(list_, ours, nullptr) < 0)
        return false;
    offer_team(std::move(team).value());
    return true;
}

herr_t restore_list(hid_t file_access_list, const Origin& origin) {
    const hid_t driver = host().H5Pget_driver(file_access_list);
    if (Session::get().is_ours(driver) && host().H5Pset_driver(file_access_list, host().sec2(), nullptr) < 0)
        return -1;
    if (Session::get().is_our_mpi(driver) && host().H5Pset_driver(file_access_list, host().mpio(), nullptr) < 0)
        return -1;
    if (origin.connector < 0)
        return 0;
    const ConnectorInfo info{origin.info};
    return host().H5Pset_vol(file_access_list, origin.connector, &info);
}

UnderList::UnderList(const char* function, const char* path, unsigned flags, hid_t file_access_list)
    : origin_(std::make_shared<Origin>()) {
    Session& session = Session::get();
    origin_->info = info_of_list(file_access_list);
    const Route& route = session.route(origin_->info);
    if (!route.refusal.is_ok()) {
        push_error(function, host().H5E_FILE_g, host().H5E_CANTOPENFILE_g, route.refusal);
        return;
    }
    // The reference that comes with the identifier is the origin's.
    if (host().H5Pget_vol_id(file_access_list, &origin_->connector) < 0)
        origin_->connector = H5I_INVALID_HID;
    host().H5Iinc_ref(route.under_connector);
    origin_->under_connector = route.under_connector;

    list_ = host().H5Pcopy(file_access_list);
    if (list_ < 0)
        return;
    aside_ = choose(route, path, flags);
    if (!aside_) {
        const hid_t driver = host().H5Pget_driver(list_);
        if (exchange_driver(list_) || session.is_ours(driver))
            origin_->staged = true;
        else if (exchange_mpi_driver(path, flags))
            origin_->staged = origin_->mpi = true;
        else
            aside_ = aside_.value_or(reason_of(driver));
    }
    if (host().H5Pset_vol(list_, route.under_connector, route.under_info) < 0) {
        host().H5Pclose(list_);
        list_ = H5I_INVALID_HID;
    }
}

UnderList::~UnderList() {
    offer_team(nullptr);
    if (list_ >= 0) {
        const ErrorStackKeeper keeper;
        host().H5Pclose(list_);
    }
}

std::optional<AsideReason> UnderList::choose(const Route& route, const char* path, unsigned flags) const {
    if (route.aside)
        return route.aside;
    if ((flags & (H5F_ACC_SWMR_WRITE | H5F_ACC_SWMR_READ)) != 0) {
        // Our driver all the same, so that HDF5 knows the file again; it does not stage it.
        const std::shared_ptr<stage::StagedFile> file = staged_already(path);
        if (file != nullptr)
            if (const Status stepped = file->step_aside(AsideReason::kSwmr); !stepped)
                Session::get().keep_failure(stepped);
    }
    return std::nullopt;
}

void UnderList::opened(const char* path) {
    origin_->shared = take_opened_file();
    if (!aside_)
        return;
    Session::get().count_aside(*aside_, path);
}

}   // namespace forebay::hdf5
