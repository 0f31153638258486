#include "hdf5/connector/other_driver.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "hdf5/open_files.h"
#include "hdf5/other_driver_files.h"
#include "hdf5/session.h"
#include "hdf5/warning.h"

namespace forebay::hdf5 {

namespace {

std::optional<io::Identity> identity_of(const char* path) {
    struct stat status{};
    if (path == nullptr || ::stat(path, &status) != 0) return std::nullopt;
    return io::Identity{status.st_dev, status.st_ino};
}

}   // namespace

bool is_of_forebay(hid_t driver) noexcept {
    return Session::get().is_ours(driver) || Session::get().is_our_mpi(driver);
}

bool is_left_to_driver(hid_t driver) {
    return !is_of_forebay(driver) && reason_of(driver) == ledger::AsideReason::kDriver;
}

ledger::AsideReason reason_of(hid_t driver) {
    using ledger::AsideReason;
    unsigned long features = 0;
    if (host().H5FDdriver_query(driver, &features) < 0 || (features & H5FD_FEAT_HAS_MPI) == 0)
        return AsideReason::kDriver;
    return driver == host().subfiling() ? AsideReason::kSubfiling : AsideReason::kMpi;
}

bool is_open_through_forebay(const char* path) {
    if (OpenFiles::get().is_empty()) return false;
    const auto identity = identity_of(path);
    return identity && OpenFiles::get().has_serial(*identity);
}

bool is_open_through_sec2(const char* path) {
    if (!OtherDriverFiles::get().any_by_default()) return false;
    const auto identity = identity_of(path);
    return identity && OtherDriverFiles::get().has_by_default(*identity);
}

Status await_closed(const char* path) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    const auto identity = identity_of(path);
    if (engine == nullptr || !identity) return Status::ok();
    return engine->closes().await(*identity);
}

Status show_staged(const char* path, unsigned flags) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    const auto identity = identity_of(path);
    if (engine == nullptr || !identity) return Status::ok();
    const auto shared = OpenFiles::get().shared(*identity);
    if (shared != nullptr && !shared->engine().inherited()) {
        // Other ranks would drain over the new content.
        if ((flags & H5F_ACC_TRUNC) != 0)
            return {Code::kUnsupported, fmt::format("truncate {}: it is open for writing already", path), EEXIST};
        return shared->expose_offsets();
    }
    const auto file = engine->files().find(*identity);
    if (file == nullptr) return Status::ok();
    if (file->lifecycle().failed() && !file->lifecycle().left_to_others())
        return {Code::kUnavailable,
                fmt::format("open {} with another driver: a close in this program left bytes of it in the staging log; "
                            "end the program, then run `forebay recover`",
                            path)};
    return engine->files().step_aside(*identity, ledger::AsideReason::kDriver);
}

Status make_ready(const char* path, unsigned flags) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    // A file that must not exist yet is left as it is.
    const bool empties = (flags & H5F_ACC_TRUNC) != 0;
    if (engine == nullptr || (!empties && (flags & H5F_ACC_EXCL) != 0)) return Status::ok();
    FOREBAY_TRY(show_staged(path, flags));
    return empties ? engine->leftovers().admit_emptying(path) : Status::ok();
}

Status make_whole(hid_t driver, const char* path, unsigned flags) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if (engine == nullptr || path == nullptr) return Status::ok();
    const bool fresh = (flags & (H5F_ACC_TRUNC | H5F_ACC_EXCL)) != 0;
    const bool with_mpi = !is_left_to_driver(driver);
    if (fresh || with_mpi) {
        FOREBAY_TRY(await_closed(path));
    } else {
        const auto recovered = engine->recover_before_open(path, (flags & H5F_ACC_RDWR) != 0);
        if (!recovered) return recovered.status();
        if (!recovered.value().empty()) warn_once(recovered.value());
    }
    if (!with_mpi) return make_ready(path, flags);
    if (fresh && (flags & H5F_ACC_TRUNC) == 0) return Status::ok();
    // The open is collective, and this rank has no team: it must not leave the others alone there.
    if (const Status shown = show_staged(path, flags); !shown) warn_once(shown.message());
    return Status::ok();
}

}   // namespace forebay::hdf5
