#include "hdf5/mpi_open.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "base/attempt.h"
#include "hdf5/mpi_recovery.h"
#include "hdf5/open_files.h"
#include "hdf5/session.h"
#include "hdf5/warning.h"

namespace forebay::hdf5 {

namespace {

using node::SharedFile;

int open_flags(unsigned flags, bool first) noexcept {
    int o_flags = (flags & H5F_ACC_RDWR) != 0 ? O_RDWR : O_RDONLY;
    if (first) {
        o_flags |= (flags & H5F_ACC_CREAT) != 0 ? O_CREAT : 0;
        o_flags |= (flags & H5F_ACC_EXCL) != 0 ? O_EXCL : 0;
    }
    return o_flags | O_CLOEXEC;
}

// Another group of ranks that writes the file would not see what this one stages, nor the other way round.
Status claim(MpiFile& file) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if (!file.leads || engine == nullptr || OpenFiles::get().find(file.device, file.inode) != nullptr)
        return Status::ok();
    auto claimed = engine->claim({file.device, file.inode});
    if (claimed) {
        file.claim = std::move(claimed).value();
        return Status::ok();
    }
    if (claimed.status().sys_errno() == EBUSY)
        return {Code::kUnsupported,
                fmt::format("open {}: it is open for writing already, through another communicator, by {} of this machine", file.path,
                            claimed.status().message()),
                EBUSY};
    warn_once(claimed.status().message() + " (no rank stages " + file.path + ")");
    file.unclaimed = true;
    return Status::ok();
}

// Opens or makes it, and empties nothing yet: others may be writing it.
Status open_descriptor(MpiFile& file, const char* name, unsigned flags, bool first) {
    struct stat status {};
    if (first && (flags & H5F_ACC_TRUNC) != 0 && ::stat(name, &status) == 0 &&
        OpenFiles::get().find(status.st_dev, status.st_ino) != nullptr)
        return {Code::kUnsupported, fmt::format("truncate {}: it is open for writing already", name), EEXIST};
    file.descriptor = ::open(name, open_flags(flags, first), 0666);
    if (file.descriptor < 0)
        return Status::from_errno(errno, std::string("open ") + name);
    if (::fstat(file.descriptor, &status) != 0)
        return Status::from_errno(errno, std::string("stat ") + name);
    std::error_code error;
    file.path = *name == '/' ? name : std::filesystem::absolute(name, error).string();
    if (error)
        return Status::from_errno(error.value(), std::string("find the folder that ") + name + " is in");
    file.device = status.st_dev;
    file.inode = status.st_ino;
    file.end_of_file = static_cast<haddr_t>(status.st_size);
    return (flags & H5F_ACC_RDWR) != 0 && S_ISREG(status.st_mode) ? claim(file) : Status::ok();
}

Status empty(const MpiFile& file) {
    if (::ftruncate(file.descriptor, 0) != 0)
        return Status::from_errno(errno, "truncate " + file.path);
    return Status::ok();
}

// The first rank creates, then all open, then the first one truncates. Collective; the outcome is everybody's.
Status open_everywhere(MpiFile& file, const char* name, unsigned flags) {
    const bool first = file.team->rank() == 0;
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if ((flags & H5F_ACC_TRUNC) == 0)
        FOREBAY_TRY(recover_together(*file.team, engine.get(), name, (flags & H5F_ACC_RDWR) != 0));
    const auto open_if = [&](bool turn) {
        return file.team->agree(attempt([&] { return turn ? open_descriptor(file, name, flags, first) : Status::ok(); }));
    };
    FOREBAY_TRY(open_if(first));
    FOREBAY_TRY(open_if(!first));
    if ((flags & H5F_ACC_TRUNC) == 0)
        return Status::ok();
    FOREBAY_TRY(file.team->agree(attempt([&] { return first ? empty(file) : Status::ok(); })));
    file.end_of_file = 0;
    return Status::ok();
}

// Each rank by itself, once the file is there as the flags say: it is empty, if it was to be, on all.
Status find_engine(MpiFile& file, const char* name, unsigned flags) {
    file.engine = Session::get().engine();
    if (file.engine == nullptr)
        return {Code::kUnavailable, "the staging engine has ended"};
    return (flags & H5F_ACC_TRUNC) != 0 ? file.engine->forget_before({file.device, file.inode}, name) : Status::ok();
}

// The shared file that the same ranks have open already, a new one, or an error on all of them: one that is not `ready`, too.
Result<std::shared_ptr<SharedFile>> share(MpiFile& file, const Status& ready) {
    auto existing = OpenFiles::get().find(file.device, file.inode);
    const bool same = existing != nullptr && existing->team().size() == file.team->size() &&
                      existing->team().rank() == file.team->rank();
    enum class Known : std::uint64_t { kNot, kSame, kOther };
    const auto all = file.team->agree(ready, static_cast<std::uint64_t>(existing == nullptr ? Known::kNot : same ? Known::kSame : Known::kOther));
    if (!all)
        return all.status();
    const auto every = [&](Known what) {
        return std::ranges::all_of(all.value(), [&](std::uint64_t one) { return static_cast<Known>(one) == what; });
    };
    if (every(Known::kSame))
        return existing;
    if (!every(Known::kNot))
        return Status(Code::kUnsupported, fmt::format("open {}: it is open for writing already, through another communicator",
                                                      file.path));
    Result<stage::OpenTarget> target = out_of_memory();
    (void)attempt([&] {
        const auto aside = file.unclaimed ? std::optional(log::AsideReason::kStagingArea) : std::nullopt;
        target = stage::OpenTarget{file.path, file.descriptor, true, aside};
    });
    auto opened = SharedFile::open(file.engine, target, file.team);
    if (!opened)
        return opened.status();
    opened.value().file->hold(std::move(file.claim));
    (void)attempt([&] {
        if (!opened.value().warning.empty())
            warn_once(opened.value().warning);
    });
    return std::move(opened.value().file);
}

}   // namespace

Status open_file(MpiFile& file, const char* name, unsigned flags) {
    FOREBAY_TRY(open_everywhere(file, name, flags));
    const Status ready = attempt([&] { return find_engine(file, name, flags); });
    if ((flags & H5F_ACC_RDWR) == 0)
        return file.team->agree(attempt([&]() -> Status {
            FOREBAY_TRY(ready);
            auto attached = file.engine->attach({file.path, file.descriptor, false});
            if (attached) {
                file.read_only = std::move(attached.value().file);
                file.end_of_file = file.read_only->size();
            }
            return attached.status();
        }));
    auto shared = share(file, ready);
    if (!shared)
        return shared.status();
    const Status added = attempt([&] {
        OpenFiles::get().add(file.device, file.inode, shared.value());
    });
    // The end of file that all begin with: each of them tells before any of them can write.
    const auto sizes = file.team->agree(added, shared.value()->size());
    if (!sizes) {
        const bool last = added ? OpenFiles::get().remove(file.device, file.inode) : OpenFiles::get().find(file.device, file.inode) == nullptr;
        if (last)   // on all ranks alike
            (void)shared.value()->close();
        return sizes.status();
    }
    file.end_of_file = std::ranges::max(sizes.value());
    file.shared = std::move(shared).value();
    return Status::ok();
}

Result<OfferedTeam> offer_from(hid_t list, const node::Door& door) {
    auto made = OfferedTeam::make(list, door);
    if (!made)
        return made.status();
    OfferedTeam offered = std::move(made).value();
    offered.leads = true;
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    std::string node;
    const Status ready = attempt([&] {
        if (engine != nullptr)
            node = engine->node_name();
    });
    const auto all = offered.team->gather(ready, std::as_bytes(std::span(node)));
    if (!all)
        return all.status();
    for (int rank = 0; rank < offered.team->rank(); ++rank) {
        if (std::ranges::equal(all.value()[static_cast<std::size_t>(rank)], std::as_bytes(std::span(node))))
            offered.leads = false;
    }
    return offered;
}

}   // namespace forebay::hdf5
