#include "hdf5/driver.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "hdf5/call_scope.h"
#include "hdf5/guard.h"
#include "hdf5/session.h"
#include "hdf5/warning.h"

namespace forebay::hdf5 {

namespace {

using stage::ByteClass;
using stage::StagedFile;

constexpr haddr_t kMaxAddress = static_cast<haddr_t>(std::numeric_limits<off_t>::max());

struct DriverFile {
    H5FD_t library{};                  // HDF5's part; must be first
    unsigned char reserve[64] = {};    // for members that a newer HDF5 has added to it

    std::string path;                  // absolute, as it was at open
    int descriptor = -1;
    dev_t device = 0;
    ino_t inode = 0;
    bool writable = false;
    bool swmr = false;                 // opened for SWMR: never staged
    bool locked = false;
    bool ignore_disabled_locks = false;
    bool family_to_single = false;     // set by h5repart
    haddr_t end_allocated = 0, end_of_file = 0;
    std::shared_ptr<stage::Engine> engine;   // that `staged` belongs to
    std::shared_ptr<StagedFile> staged;

    ~DriverFile() {
        if (descriptor >= 0)
            ::close(descriptor);
    }
};

DriverFile* as_file(H5FD_t* file) noexcept {
    return reinterpret_cast<DriverFile*>(file);
}
const DriverFile* as_file(const H5FD_t* file) noexcept {
    return reinterpret_cast<const DriverFile*>(file);
}

bool overflows(haddr_t address) noexcept {
    return address == HADDR_UNDEF || address > kMaxAddress;
}
bool region_overflows(haddr_t address, std::size_t size_bytes) noexcept {
    return overflows(address) || size_bytes > kMaxAddress || address + size_bytes > kMaxAddress;
}

// Undefined or too large an address: an error as sec2 words it.
bool check_region(const char* function, haddr_t address, std::size_t size_bytes) {
    if (address != HADDR_UNDEF && !region_overflows(address, size_bytes))
        return true;
    const std::string text = std::string(address == HADDR_UNDEF ? "addr undefined" : "addr overflow") +
                             ", addr = " + std::to_string(address) + ", size = " + std::to_string(size_bytes);
    push_error(function, host().H5E_ARGS_g, address == HADDR_UNDEF ? host().H5E_BADVALUE_g : host().H5E_OVERFLOW_g,
               text.c_str());
    return false;
}

// HDF5_USE_FILE_LOCKING, as sec2 reads it: empty when the access list decides.
std::optional<bool> locks_may_be_missing() {
    const char* const value = std::getenv("HDF5_USE_FILE_LOCKING");
    if (value == nullptr)
        return std::nullopt;
    if (std::strcmp(value, "BEST_EFFORT") == 0)
        return true;
    if (std::strcmp(value, "TRUE") == 0 || std::strcmp(value, "1") == 0)
        return false;
    return std::nullopt;
}

void read_access_list(hid_t list, DriverFile& file) {
    if (const std::optional<bool> forced = locks_may_be_missing())
        file.ignore_disabled_locks = *forced;
    else
        host().H5Pget(list, "ignore_disabled_file_locks", &file.ignore_disabled_locks);
    if (list != *host().H5P_LST_FILE_ACCESS_ID_g && host().H5Pexist(list, "family_to_single") > 0)
        host().H5Pget(list, "family_to_single", &file.family_to_single);
}

// Attaches the file to the engine, once. The failure is on the error stack.
StagedFile* attached(const char* function, DriverFile& file) {
    if (file.staged != nullptr)
        return file.staged.get();
    std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if (engine == nullptr) {
        push_error(function, host().H5E_VFL_g, host().H5E_CANTINIT_g, "the staging engine has ended");
        return nullptr;
    }
    Result<stage::Engine::Attached> attached =
        engine->attach({file.path, file.descriptor, file.writable,
                        file.swmr ? std::optional(log::AsideReason::kSwmr) : std::nullopt});
    if (!attached) {
        // Without its errno, which callers would take for that of the file: what failed is the staging.
        push_error(function, host().H5E_FILE_g, host().H5E_CANTINIT_g, attached.status().message().c_str());
        return nullptr;
    }
    if (!attached.value().warning.empty())
        warn_once(attached.value().warning);
    file.staged = std::move(attached.value().file);
    file.engine = std::move(engine);
    file.end_of_file = file.staged->size();
    return file.staged.get();
}

int open_flags(unsigned flags) noexcept {
    int o_flags = (flags & H5F_ACC_RDWR) != 0 ? O_RDWR : O_RDONLY;
    if ((flags & H5F_ACC_TRUNC) != 0)
        o_flags |= O_TRUNC;
    if ((flags & H5F_ACC_CREAT) != 0)
        o_flags |= O_CREAT;
    if ((flags & H5F_ACC_EXCL) != 0)
        o_flags |= O_EXCL;
    return o_flags;
}

void push_open_error(const char* function, const char* name, unsigned flags, int o_flags, int error) {
    // h5py reads the number behind "errno = ".
    char rest[256];
    std::snprintf(rest, sizeof rest, "', errno = %d, error message = '%s', flags = %x, o_flags = %x", error,
                  std::strerror(error), flags, static_cast<unsigned>(o_flags));
    push_error(function, host().H5E_FILE_g, host().H5E_CANTOPENFILE_g,
               (std::string("unable to open file: name = '") + name + rest).c_str());
}

H5FD_t* driver_open(const char* name, unsigned flags, hid_t list, haddr_t max_address) {
    constexpr const char* kFunction = "driver_open";
    return guard(kFunction, [&]() -> H5FD_t* {
        if (name == nullptr || *name == '\0') {
            push_error(kFunction, host().H5E_ARGS_g, host().H5E_BADVALUE_g, "invalid file name");
            return nullptr;
        }
        if (max_address == 0 || overflows(max_address)) {
            push_error(kFunction, host().H5E_ARGS_g, host().H5E_BADRANGE_g, "bogus maxaddr");
            return nullptr;
        }
        auto file = std::make_unique<DriverFile>();
        read_access_list(list, *file);
        const int o_flags = open_flags(flags);
        const std::shared_ptr<stage::Engine> engine = Session::get().engine();
        if ((o_flags & (O_RDWR | O_CREAT | O_TRUNC)) != 0 && engine != nullptr)
            if (const Status admitted = engine->admit(); !admitted) {
                push_error(kFunction, host().H5E_FILE_g, host().H5E_CANTINIT_g, admitted.message().c_str());
                return nullptr;
            }
        if (engine != nullptr && (flags & H5F_ACC_TRUNC) == 0) {
            const Result<std::string> recovered = engine->recover_before_open(name, (o_flags & O_RDWR) != 0);
            if (!recovered) {
                push_error(kFunction, host().H5E_FILE_g, host().H5E_CANTINIT_g, recovered.status().message().c_str());
                return nullptr;
            }
            if (!recovered.value().empty())
                warn_once(recovered.value());
        }
        file->descriptor = ::open(name, o_flags | O_CLOEXEC, 0666);
        if (file->descriptor < 0) {
            push_open_error(kFunction, name, flags, o_flags, errno);
            return nullptr;
        }
        struct stat status {};
        if (::fstat(file->descriptor, &status) != 0) {
            push_errno(kFunction, host().H5E_FILE_g, host().H5E_BADFILE_g, "unable to fstat file", errno);
            return nullptr;
        }
        if (engine != nullptr && (flags & H5F_ACC_TRUNC) != 0)
            if (const Status forgotten = engine->forget_before({status.st_dev, status.st_ino}, name); !forgotten) {
                push_error(kFunction, host().H5E_FILE_g, host().H5E_CANTINIT_g, forgotten.message().c_str());
                return nullptr;
            }
        file->path = *name == '/' ? name : std::filesystem::absolute(name).string();
        file->device = status.st_dev;
        file->inode = status.st_ino;
        file->end_of_file = static_cast<haddr_t>(status.st_size);
        file->writable = (flags & H5F_ACC_RDWR) != 0;
        file->swmr = (flags & (H5F_ACC_SWMR_WRITE | H5F_ACC_SWMR_READ)) != 0;
        if ((flags & (H5F_ACC_TRUNC | H5F_ACC_CREAT)) != 0 && attached(kFunction, *file) == nullptr)
            return nullptr;
        return &file.release()->library;
    });
}

herr_t driver_close(H5FD_t* file) {
    return guard("driver_close", [&]() -> herr_t {
        const std::unique_ptr<DriverFile> self(as_file(file));
        Session& session = Session::get();
        if (self->staged != nullptr) {
            // HDF5 frees the file even if this fails, and a second close of the identifier would then use
            // freed memory. So the failure is kept, and reported by the close callback that led here.
            if (Status detached = self->engine->detach(self->staged, self->writable); !detached)
                session.keep_failure(detached.with_context("close " + self->path));
        }
        // The engine may hold a duplicate of the descriptor a little longer, and the lock with it.
        if (self->locked)
            ::flock(self->descriptor, LOCK_UN);
        const int closed = ::close(std::exchange(self->descriptor, -1));
        if (closed != 0)
            session.keep_failure(Status::from_errno(errno, "close " + self->path));
        return 0;
    });
}

int driver_compare(const H5FD_t* left, const H5FD_t* right) {
    const DriverFile& a = *as_file(left);
    const DriverFile& b = *as_file(right);
    if (a.device != b.device)
        return a.device < b.device ? -1 : 1;
    if (a.inode != b.inode)
        return a.inode < b.inode ? -1 : 1;
    return 0;
}

herr_t driver_query(const H5FD_t* file, unsigned long* flags) {
    if (flags == nullptr)
        return 0;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_POSIX_COMPAT_HANDLE | H5FD_FEAT_SUPPORTS_SWMR_IO |
             H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    if (file != nullptr && as_file(file)->family_to_single)
        *flags |= H5FD_FEAT_IGNORE_DRVRINFO;
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
    return guard("driver_get_end_of_file", [&]() -> haddr_t {
        // Attaching changes nothing that HDF5 sees as the file's state.
        auto& self = const_cast<DriverFile&>(*as_file(file));
        return attached("driver_get_end_of_file", self) != nullptr ? self.end_of_file : HADDR_UNDEF;
    });
}

herr_t driver_get_handle(H5FD_t* file, hid_t, void** handle) {
    if (handle == nullptr) {
        push_error("driver_get_handle", host().H5E_ARGS_g, host().H5E_BADVALUE_g, "file handle not valid");
        return -1;
    }
    *handle = &as_file(file)->descriptor;
    return 0;
}

herr_t driver_read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size_bytes, void* buffer) {
    constexpr const char* kFunction = "driver_read";
    return guard(kFunction, [&]() -> herr_t {
        StagedFile* const staged = attached(kFunction, *as_file(file));
        if (staged == nullptr || !check_region(kFunction, address, size_bytes))
            return -1;
        if (const Status read = staged->read(address, {static_cast<std::byte*>(buffer), size_bytes}); !read) {
            push_error(kFunction, host().H5E_IO_g, host().H5E_READERROR_g, read);
            return -1;
        }
        return 0;
    });
}

herr_t driver_write(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size_bytes, const void* buffer) {
    constexpr const char* kFunction = "driver_write";
    return guard(kFunction, [&]() -> herr_t {
        DriverFile& self = *as_file(file);
        StagedFile* const staged = attached(kFunction, self);
        if (staged == nullptr || !check_region(kFunction, address, size_bytes))
            return -1;
        const ByteClass byte_class = type == H5FD_MEM_DRAW ? ByteClass::kRaw : ByteClass::kMetadata;
        if (const Status written = staged->write(address, {static_cast<const std::byte*>(buffer), size_bytes}, byte_class);
            !written) {
            push_error(kFunction, host().H5E_IO_g, host().H5E_WRITEERROR_g, written);
            return -1;
        }
        if (address + size_bytes > self.end_of_file)
            self.end_of_file = address + size_bytes;
        return 0;
    });
}

herr_t driver_flush(H5FD_t* file, hid_t, hbool_t closing) {
    return guard("driver_flush", [&]() -> herr_t {
        DriverFile& self = *as_file(file);
        if (closing || !self.writable || self.staged == nullptr || ObjectFlush::is_active())
            return 0;
        // HDF5 also flushes in the middle of closing, and a failure there leaves the file half closed. So it
        // is kept, and reported by the callback of the connector, flush or close, that led here.
        if (Status committed = self.staged->commit(); !committed)
            Session::get().keep_flush_failure(std::move(committed));
        return 0;
    });
}

herr_t driver_truncate(H5FD_t* file, hid_t, hbool_t) {
    constexpr const char* kFunction = "driver_truncate";
    return guard(kFunction, [&]() -> herr_t {
        DriverFile& self = *as_file(file);
        StagedFile* const staged = attached(kFunction, self);
        if (staged == nullptr)
            return -1;
        if (self.end_allocated == self.end_of_file)
            return 0;
        if (!self.writable) {
            push_errno(kFunction, host().H5E_IO_g, host().H5E_SEEKERROR_g, "unable to extend file properly", EINVAL);
            return -1;
        }
        if (const Status truncated = staged->truncate(self.end_allocated); !truncated) {
            push_error(kFunction, host().H5E_IO_g, host().H5E_SEEKERROR_g, truncated);
            return -1;
        }
        self.end_of_file = self.end_allocated;
        return 0;
    });
}

// flock as sec2 does it; a file system without locks is no error when the user said so.
herr_t lock_file(const char* function, DriverFile& file, int operation, const hid_t* minor, const char* doing) {
    if (::flock(file.descriptor, operation) == 0) {
        file.locked = operation != LOCK_UN;
        return 0;
    }
    if (errno == ENOSYS && file.ignore_disabled_locks) {
        errno = 0;
        return 0;
    }
    push_errno(function, host().H5E_VFL_g, minor, doing, errno);
    return -1;
}

herr_t driver_lock(H5FD_t* file, hbool_t exclusive) {
    return lock_file("driver_lock", *as_file(file), (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB,
                     host().H5E_CANTLOCKFILE_g, "unable to lock file");
}

herr_t driver_unlock(H5FD_t* file) {
    return lock_file("driver_unlock", *as_file(file), LOCK_UN, host().H5E_CANTUNLOCKFILE_g, "unable to unlock file");
}

herr_t driver_delete(const char* name, hid_t) {
    if (std::remove(name) == 0)
        return 0;
    push_errno("driver_delete", host().H5E_VFL_g, host().H5E_CANTDELETEFILE_g, "unable to delete file", errno);
    return -1;
}

herr_t driver_control(H5FD_t*, std::uint64_t, std::uint64_t flags, const void*, void**) {
    if ((flags & H5FD_CTL_FAIL_IF_UNKNOWN_FLAG) == 0)
        return 0;
    push_error("driver_control", host().H5E_VFL_g, host().H5E_FCNTL_g,
               "unknown op_code and fail if unknown flag is set");
    return -1;
}

herr_t driver_terminate() {
    return guard("driver_terminate", []() -> herr_t {
        Session::get().end();
        return 0;
    });
}

// No vector and selection callbacks: sec2 has none, and with them HDF5 would cut its I/O differently.
constexpr H5FD_class_t kDriverClass = [] {
    H5FD_class_t made{};
    made.version = H5FD_CLASS_VERSION;
    made.value = kDriverValue;
    made.name = kDriverName;
    made.maxaddr = kMaxAddress;
    made.fc_degree = H5F_CLOSE_WEAK;
    made.terminate = driver_terminate;
    made.open = driver_open;
    made.close = driver_close;
    made.cmp = driver_compare;
    made.query = driver_query;
    made.get_eoa = driver_get_end_allocated;
    made.set_eoa = driver_set_end_allocated;
    made.get_eof = driver_get_end_of_file;
    made.get_handle = driver_get_handle;
    made.read = driver_read;
    made.write = driver_write;
    made.flush = driver_flush;
    made.truncate = driver_truncate;
    made.lock = driver_lock;
    made.unlock = driver_unlock;
    made.del = driver_delete;
    made.ctl = driver_control;
    constexpr H5FD_mem_t kDichotomy[] = H5FD_FLMAP_DICHOTOMY;
    for (int type = 0; type < H5FD_MEM_NTYPES; ++type)
        made.fl_map[type] = kDichotomy[type];
    return made;
}();

}   // namespace

hid_t register_driver() {
    return host().H5FDregister(&kDriverClass);
}

}   // namespace forebay::hdf5
