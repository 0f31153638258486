#include "hdf5/mpi_driver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "hdf5/call_scope.h"
#include "hdf5/guard.h"
#include "hdf5/mpi_library.h"
#include "hdf5/mpi_recovery.h"
#include "hdf5/open_files.h"
#include "hdf5/session.h"
#include "hdf5/transfer.h"
#include "hdf5/warning.h"

namespace forebay::hdf5 {

namespace {

using node::SharedFile;
using stage::ByteClass;
using Part = stage::StagedFile::Part;

constexpr haddr_t kMaxAddress = static_cast<haddr_t>(std::numeric_limits<off_t>::max());

thread_local std::shared_ptr<SharedFile> opened_file;
thread_local std::optional<OfferedTeam> offered_team;

struct MpiFile {
    H5FD_t library{};                  // HDF5's part; must be first
    unsigned char reserve[64] = {};    // for members that a newer HDF5 has added to it

    explicit MpiFile(MpiHandles&& taken) : handles(std::move(taken)) {}
    ~MpiFile() {
        if (descriptor >= 0)
            ::close(descriptor);
    }

    MpiHandles handles;
    std::shared_ptr<node::Team> team;
    bool leads = false;                              // the lowest rank of its node, which drains for it
    std::unique_ptr<io::Claim> claim;                // until the shared file has it
    bool unclaimed = false;                          // it cannot be known whether others write the file
    std::string path;
    int descriptor = -1;
    dev_t device = 0;
    ino_t inode = 0;
    std::shared_ptr<SharedFile> shared;              // null: read-only
    std::shared_ptr<stage::Engine> engine;           // of a read-only file
    std::shared_ptr<stage::StagedFile> read_only;
    haddr_t end_allocated = 0, end_of_file = 0;
    haddr_t last_end_allocated = HADDR_UNDEF;        // at the last truncate
    bool truncated = true;                           // the last truncate has succeeded, on all ranks
};

MpiFile* as_file(H5FD_t* file) noexcept {
    return reinterpret_cast<MpiFile*>(file);
}
const MpiFile* as_file(const H5FD_t* file) noexcept {
    return reinterpret_cast<const MpiFile*>(file);
}

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
    file.path = *name == '/' ? name : std::filesystem::absolute(name).string();
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
    FOREBAY_TRY(file.team->agree(first ? open_descriptor(file, name, flags, true) : Status::ok()));
    FOREBAY_TRY(file.team->agree(first ? Status::ok() : open_descriptor(file, name, flags, false)));
    if ((flags & H5F_ACC_TRUNC) == 0)
        return Status::ok();
    FOREBAY_TRY(file.team->agree(first ? empty(file) : Status::ok()));
    file.end_of_file = 0;
    return file.team->agree(engine != nullptr ? engine->forget_before({file.device, file.inode}, name) : Status::ok());
}

// The shared file that the same ranks have open already, a new one, or an error on all of them.
Result<std::shared_ptr<SharedFile>> share(MpiFile& file, const std::shared_ptr<stage::Engine>& engine) {
    auto existing = OpenFiles::get().find(file.device, file.inode);
    const bool same = existing != nullptr && existing->team().size() == file.team->size() &&
                      existing->team().rank() == file.team->rank();
    const std::byte mine{static_cast<unsigned char>(existing == nullptr ? 0 : same ? 1 : 2)};
    const auto all = file.team->gather({&mine, 1});
    if (!all)
        return all.status();
    bool every = true, none = true;
    for (const auto& one : all.value()) {
        every = every && one.at(0) == std::byte{1};
        none = none && one.at(0) == std::byte{0};
    }
    if (every)
        return existing;
    if (!none)
        return Status(Code::kUnsupported, fmt::format("open {}: it is open for writing already, through another communicator",
                                                      file.path));
    const auto aside = file.unclaimed ? std::optional(log::AsideReason::kStagingArea) : std::nullopt;
    auto opened = SharedFile::open(engine, stage::OpenTarget{file.path, file.descriptor, true, aside}, file.team);
    if (!opened)
        return opened.status();
    opened.value().file->hold(std::move(file.claim));
    if (!opened.value().warning.empty())
        warn_once(opened.value().warning);
    return std::move(opened.value().file);
}

// The end of file that all ranks begin with. Each of them tells before any of them can write.
Result<haddr_t> agree_on_size(node::Team& team, std::uint64_t mine) {
    const auto all = team.gather(std::as_bytes(std::span(&mine, 1)));
    if (!all)
        return all.status();
    std::uint64_t largest = mine;
    for (const auto& told : all.value()) {
        std::uint64_t one = 0;
        std::memcpy(&one, told.data(), std::min(told.size(), sizeof one));
        largest = std::max(largest, one);
    }
    return haddr_t{largest};
}

Status open_file(MpiFile& file, const char* name, unsigned flags) {
    FOREBAY_TRY(open_everywhere(file, name, flags));
    file.engine = Session::get().engine();
    FOREBAY_TRY(file.team->agree(file.engine != nullptr ? Status::ok()
                                                        : Status(Code::kUnavailable, "the staging engine has ended")));
    if ((flags & H5F_ACC_RDWR) != 0) {
        auto shared = share(file, file.engine);
        if (!shared)
            return shared.status();
        const auto size = agree_on_size(*file.team, shared.value()->size());
        if (!size)
            return size.status();
        file.shared = std::move(shared).value();
        OpenFiles::get().add(file.device, file.inode, file.shared);
        file.end_of_file = size.value();
        return Status::ok();
    }
    auto attached = file.engine->attach({file.path, file.descriptor, false});
    if (attached) {
        file.read_only = std::move(attached.value().file);
        file.end_of_file = file.read_only->size();
    }
    return file.team->agree(attached.status());
}

// Collective. For an open that has not come through the connector's: that of an external link's file.
Result<OfferedTeam> offer_from(hid_t list, const node::Door& door) {
    auto made = MpiHandles::make_team(list, door);
    if (!made)
        return made.status();
    OfferedTeam offered{std::move(made).value(), true};
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    const std::string node = engine != nullptr ? engine->node_name() : std::string();
    const auto all = offered.team->gather(std::as_bytes(std::span(node)));
    if (!all)
        return all.status();
    for (int rank = 0; rank < offered.team->rank(); ++rank) {
        const auto& told = all.value()[static_cast<std::size_t>(rank)];
        if (std::ranges::equal(told, std::as_bytes(std::span(node))))
            offered.leads = false;
    }
    return offered;
}

H5FD_t* driver_open(const char* name, unsigned flags, hid_t list, haddr_t max_address) {
    constexpr const char* kFunction = "mpi_driver_open";
    return guard(kFunction, [&]() -> H5FD_t* {
        if (name == nullptr || *name == '\0' || max_address == 0) {
            push_error(kFunction, host().H5E_ARGS_g, host().H5E_BADVALUE_g, "invalid file name or maximal address");
            return nullptr;
        }
        const auto fail = [&](const Status& status) -> H5FD_t* {
            push_error(kFunction, host().H5E_FILE_g, host().H5E_CANTOPENFILE_g, status);
            return nullptr;
        };
        std::optional<OfferedTeam> offered = std::exchange(offered_team, std::nullopt);
        const auto door = mpi_door();
        if (!door)
            return fail(door.status());
        auto handles = MpiHandles::of(list, *door.value());
        if (!handles)
            return fail(handles.status());
        auto file = std::make_unique<MpiFile>(std::move(handles).value());
        if (!offered) {
            auto made = offer_from(list, *door.value());
            if (!made)
                return fail(made.status());
            offered = std::move(made).value();
        }
        file->team = std::move(offered->team);
        file->leads = offered->leads;
        if (const Status opened = open_file(*file, name, flags); !opened)
            return fail(opened);
        opened_file = file->shared;
        return &file.release()->library;
    });
}

Status close_file(MpiFile& file) {
    if (file.read_only != nullptr)
        return file.engine->detach(file.read_only, false);
    // Another handle of the same ranks still writes: they all have it, so they all come this way.
    if (!OpenFiles::get().remove(file.device, file.inode))
        return file.shared->commit();
    return file.shared->close();
}

herr_t driver_close(H5FD_t* file) {
    return guard("mpi_driver_close", [&]() -> herr_t {
        const std::unique_ptr<MpiFile> self(as_file(file));
        // As with the serial driver: the close callback of the connector reports it.
        if (Status closed = close_file(*self); !closed)
            Session::get().keep_failure(closed.with_context("close " + self->path));
        return 0;
    });
}

herr_t driver_query(const H5FD_t*, unsigned long* flags) {
    if (flags != nullptr)
        *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_HAS_MPI |
                 H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

haddr_t driver_get_end_allocated(const H5FD_t* file, H5FD_mem_t) {
    return as_file(file)->end_allocated;
}

herr_t driver_set_end_allocated(H5FD_t* file, H5FD_mem_t, haddr_t address) {
    as_file(file)->end_allocated = address;
    return 0;
}

haddr_t driver_get_end_of_file(const H5FD_t* file, H5FD_mem_t) {
    return as_file(file)->end_of_file;
}

herr_t driver_get_handle(H5FD_t*, hid_t, void**) {
    push_error("mpi_driver_get_handle", host().H5E_VFL_g, host().H5E_UNSUPPORTED_g,
               "a file that forebay stages has no MPI_File; open it with stage=off to get one");
    return -1;
}

bool check_region(const char* function, haddr_t address, std::size_t size_bytes) {
    if (address != HADDR_UNDEF && address <= kMaxAddress && size_bytes <= kMaxAddress - address)
        return true;
    push_error(function, host().H5E_ARGS_g, host().H5E_OVERFLOW_g,
               fmt::format("addr overflow, addr = {}, size = {}", address, size_bytes).c_str());
    return false;
}

// MPI's atomic mode: a transfer holds a lock on the bytes from its first to its last.
class AtomicTransfer {
  public:
    AtomicTransfer(const MpiFile& file, short type, ByteRange hull)
        : descriptor_(OpenFiles::get().is_atomic(file.device, file.inode) ? file.descriptor : -1), hull_(hull) {
        if (descriptor_ >= 0)
            locked_ = apply(type);
    }
    ~AtomicTransfer() {
        if (descriptor_ >= 0 && locked_)
            (void)apply(F_UNLCK);
    }
    AtomicTransfer(const AtomicTransfer&) = delete;
    AtomicTransfer& operator=(const AtomicTransfer&) = delete;

    [[nodiscard]] Status status(const std::string& path) const {
        if (descriptor_ < 0 || locked_)
            return Status::ok();
        return Status::from_errno(error_, "lock " + path + " for an atomic transfer");
    }

  private:
    bool apply(short type) {
        struct flock range {};
        range.l_type = type;
        range.l_whence = SEEK_SET;
        range.l_start = static_cast<off_t>(hull_.begin);
        range.l_len = static_cast<off_t>(hull_.size());
        while (::fcntl(descriptor_, F_OFD_SETLKW, &range) != 0)
            if ((error_ = errno) != EINTR)
                return false;
        return true;
    }

    const int descriptor_;
    const ByteRange hull_;
    int error_ = 0;
    bool locked_ = false;
};

// The arguments of a vector call, which leaves out what repeats.
struct Vector {
    std::uint32_t count;
    const H5FD_mem_t* types;
    const haddr_t* addresses;
    const std::size_t* sizes;

    template <class Visit>
    bool for_each(const char* function, Visit&& visit) const {
        H5FD_mem_t type = H5FD_MEM_DRAW;
        std::size_t size = 0;
        bool same_type = false, same_size = false;
        for (std::uint32_t i = 0; i < count; ++i) {
            if (!same_type && types[i] == H5FD_MEM_NOLIST)
                same_type = true;
            else if (!same_type)
                type = types[i];
            if (!same_size && i > 0 && sizes[i] == 0)
                same_size = true;
            else if (!same_size)
                size = sizes[i];
            if (!check_region(function, addresses[i], size))
                return false;
            visit(i, type == H5FD_MEM_DRAW ? ByteClass::kRaw : ByteClass::kMetadata, size);
        }
        return true;
    }
    [[nodiscard]] static ByteRange widen(ByteRange hull, haddr_t address, std::size_t size) noexcept {
        return {std::min<std::uint64_t>(hull.begin, address), std::max<std::uint64_t>(hull.end, address + size)};
    }
};

Status read_parts(MpiFile& file, const Vector& vector, void* buffers[]) {
    Status outcome;
    ByteRange hull{kOffsetMax, 0};
    constexpr const char* kFunction = "mpi_driver_read";
    if (!vector.for_each(kFunction, [&](std::uint32_t i, ByteClass, std::size_t size) {
            hull = Vector::widen(hull, vector.addresses[i], size);
        }))
        return {Code::kInvalidArgument, "read " + file.path};
    if (hull.empty())
        return Status::ok();
    const AtomicTransfer atomic(file, F_RDLCK, hull);
    FOREBAY_TRY(atomic.status(file.path));
    vector.for_each(kFunction, [&](std::uint32_t i, ByteClass, std::size_t size) {
        const io::MutableBytes into{static_cast<std::byte*>(buffers[i]), size};
        if (outcome)
            outcome = file.shared != nullptr ? file.shared->read(vector.addresses[i], into)
                                             : file.read_only->read(vector.addresses[i], into);
    });
    return outcome;
}

// HDF5 writes metadata in calls that all ranks are in, each some of it, and a rank whose write fails leaves such a call
// without the others, which wait for it then. So that failure is kept, and told to all ranks by the flush or close that
// comes next; unless the write is `together`, where all learn of it at once.
Status write_parts(MpiFile& file, const Vector& vector, const void* const buffers[], bool together) {
    constexpr const char* kFunction = "mpi_driver_write";
    if (file.shared == nullptr)
        return Status::from_errno(EBADF, "write to " + file.path);
    std::vector<Part> parts;
    parts.reserve(vector.count);
    ByteClass byte_class = ByteClass::kRaw;
    Status outcome;
    ByteRange hull{kOffsetMax, 0};
    bool raw = false;
    const auto hand_over = [&] {
        if (outcome && !parts.empty())
            if (Status written = file.shared->write(parts, byte_class, together || Allocation::is_active());
                !written && (together || byte_class == ByteClass::kRaw))
                outcome = std::move(written);
        parts.clear();
    };
    if (!vector.for_each(kFunction, [&](std::uint32_t i, ByteClass class_of_part, std::size_t size) {
            hull = Vector::widen(hull, vector.addresses[i], size);
            raw = raw || class_of_part == ByteClass::kRaw;
        }))
        return {Code::kInvalidArgument, "write to " + file.path};
    if (hull.empty())
        return Status::ok();
    const AtomicTransfer atomic(file, F_WRLCK, hull);
    if (Status locked = atomic.status(file.path); !locked) {
        if (together || raw)
            return locked;
        file.shared->tell_later(std::move(locked));
        return Status::ok();
    }
    vector.for_each(kFunction, [&](std::uint32_t i, ByteClass class_of_part, std::size_t size) {
        if (size == 0)
            return;
        if (class_of_part != byte_class)
            hand_over();
        byte_class = class_of_part;
        parts.push_back({vector.addresses[i], {static_cast<const std::byte*>(buffers[i]), size}});
    });
    hand_over();
    // As mpio does: the end of file is unknown once anybody has written.
    file.end_of_file = HADDR_UNDEF;
    return outcome;
}

herr_t finish_transfer(const char* function, const hid_t* minor, const Status& outcome) {
    if (outcome)
        return 0;
    push_error(function, host().H5E_IO_g, minor, outcome);
    return -1;
}

herr_t driver_read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size_bytes, void* buffer) {
    return guard("mpi_driver_read", [&] {
        return finish_transfer("mpi_driver_read", host().H5E_READERROR_g,
                               read_parts(*as_file(file), {1, &type, &address, &size_bytes}, &buffer));
    });
}

herr_t driver_write(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size_bytes, const void* buffer) {
    return guard("mpi_driver_write", [&] {
        return finish_transfer("mpi_driver_write", host().H5E_WRITEERROR_g,
                               write_parts(*as_file(file), {1, &type, &address, &size_bytes}, &buffer, false));
    });
}

herr_t driver_read_vector(H5FD_t* file, hid_t, std::uint32_t count, H5FD_mem_t types[], haddr_t addresses[],
                          std::size_t sizes[], void* buffers[]) {
    return guard("mpi_driver_read_vector", [&] {
        return finish_transfer("mpi_driver_read_vector", host().H5E_READERROR_g,
                               read_parts(*as_file(file), {count, types, addresses, sizes}, buffers));
    });
}

herr_t driver_write_vector(H5FD_t* file, hid_t, std::uint32_t count, H5FD_mem_t types[], haddr_t addresses[],
                           std::size_t sizes[], const void* buffers[]) {
    return guard("mpi_driver_write_vector", [&] {
        MpiFile& self = *as_file(file);
        const bool collective = is_collective_now();
        Status outcome = write_parts(self, {count, types, addresses, sizes}, buffers, collective);
        if (collective && self.shared != nullptr)
            outcome = self.shared->agree_on_write(outcome);   // nobody goes on before everybody's pieces count
        return finish_transfer("mpi_driver_write_vector", host().H5E_WRITEERROR_g, outcome);
    });
}

herr_t driver_flush(H5FD_t* file, hid_t, hbool_t closing) {
    return guard("mpi_driver_flush", [&]() -> herr_t {
        MpiFile& self = *as_file(file);
        if (closing || self.shared == nullptr || ObjectFlush::is_active())
            return 0;
        // What would be committed does not have the size that its metadata tell of.
        if (!self.truncated)
            return 0;
        if (Status committed = self.shared->commit(); !committed)
            Session::get().keep_flush_failure(std::move(committed));
        return 0;
    });
}

herr_t driver_truncate(H5FD_t* file, hid_t, hbool_t) {
    return guard("mpi_driver_truncate", [&]() -> herr_t {
        MpiFile& self = *as_file(file);
        if (self.shared == nullptr || self.end_allocated == self.last_end_allocated)
            return 0;
        // HDF5 does this when it flushes or closes the file. It frees a file that it fails to close, and keeps the identifier; so, as
        // in `driver_flush`, the connector reports it.
        Status truncated = self.shared->truncate(self.end_allocated);
        self.truncated = truncated.is_ok();
        if (truncated)
            self.last_end_allocated = self.end_allocated;
        else
            Session::get().keep_flush_failure(std::move(truncated));
        return 0;
    });
}

herr_t driver_control(H5FD_t* file, std::uint64_t operation, std::uint64_t flags, const void*, void** output) {
    MpiFile& self = *as_file(file);
    switch (operation) {
        case H5FD_CTL_GET_MPI_COMMUNICATOR_OPCODE:
            std::memcpy(*output, self.handles.communicator(), self.handles.door().communicator_bytes);
            return 0;
        case H5FD_CTL_GET_MPI_INFO_OPCODE:
            std::memcpy(*output, self.handles.info(), self.handles.door().info_bytes);
            return 0;
        case H5FD_CTL_GET_MPI_RANK_OPCODE: *static_cast<int*>(*output) = self.team->rank(); return 0;
        case H5FD_CTL_GET_MPI_SIZE_OPCODE: *static_cast<int*>(*output) = self.team->size(); return 0;
        case H5FD_CTL_GET_MPI_FILE_SYNC_OPCODE: *static_cast<bool*>(*output) = false; return 0;
        default: break;
    }
    if ((flags & H5FD_CTL_FAIL_IF_UNKNOWN_FLAG) == 0)
        return 0;
    push_error("mpi_driver_control", host().H5E_VFL_g, host().H5E_FCNTL_g, "unknown op_code and fail if unknown flag is set");
    return -1;
}

herr_t driver_terminate() {
    return guard("mpi_driver_terminate", []() -> herr_t {
        Session::get().end_mpi_driver();
        return 0;
    });
}

constexpr H5FD_class_t kDriverClass = [] {
    H5FD_class_t made{};
    made.version = H5FD_CLASS_VERSION;
    made.value = kMpiDriverValue;
    made.name = "forebay_mpi";
    made.maxaddr = kMaxAddress;
    made.fc_degree = H5F_CLOSE_SEMI;
    made.terminate = driver_terminate;
    made.open = driver_open;
    made.close = driver_close;
    made.query = driver_query;
    made.get_eoa = driver_get_end_allocated;
    made.set_eoa = driver_set_end_allocated;
    made.get_eof = driver_get_end_of_file;
    made.get_handle = driver_get_handle;
    made.read = driver_read;
    made.write = driver_write;
    made.read_vector = driver_read_vector;
    made.write_vector = driver_write_vector;
    made.flush = driver_flush;
    made.truncate = driver_truncate;
    made.ctl = driver_control;
    constexpr H5FD_mem_t kDichotomy[] = H5FD_FLMAP_DICHOTOMY;
    for (int type = 0; type < H5FD_MEM_NTYPES; ++type)
        made.fl_map[type] = kDichotomy[type];
    return made;
}();

}   // namespace

hid_t register_mpi_driver() {
    return host().H5FDregister(&kDriverClass);
}

std::shared_ptr<SharedFile> take_opened_file() {
    return std::exchange(opened_file, nullptr);
}

void offer_team(std::optional<OfferedTeam> team) {
    offered_team = std::move(team);
}

bool is_atomic(const SharedFile& file) {
    return OpenFiles::get().is_atomic(file);
}

void set_atomic(const SharedFile& file, bool atomic) {
    OpenFiles::get().set_atomic(file, atomic);
}

}   // namespace forebay::hdf5
