#include "hdf5/driver/serial_driver.h"

#include <sys/file.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "hdf5/call_scope.h"
#include "hdf5/driver/deferred_descriptor.h"
#include "hdf5/driver/driver_base.h"
#include "hdf5/driver/serial_file.h"
#include "hdf5/driver/serial_lock.h"
#include "hdf5/host/guard.h"
#include "hdf5/open_files.h"
#include "hdf5/other_driver_files.h"
#include "hdf5/pause.h"
#include "hdf5/session.h"
#include "io/made_file.h"
#include "stage/async_requests.h"

namespace forebay::hdf5 {

namespace {

using file::ProgramFile;
using stage::ByteClass;

SerialFile& self_of(H5FD_t* file) noexcept { return *as_file<SerialFile>(file); }

// HDF5_USE_FILE_LOCKING, as sec2 reads it: empty when the access list decides.
std::optional<bool> locks_may_be_missing() {
    const char* const value = std::getenv("HDF5_USE_FILE_LOCKING");
    if (value == nullptr) return std::nullopt;
    if (std::strcmp(value, "BEST_EFFORT") == 0) return true;
    if (std::strcmp(value, "TRUE") == 0 || std::strcmp(value, "1") == 0) return false;
    return std::nullopt;
}

struct ObjectFlush {
    H5F_flush_cb_t function = nullptr;
    void* data = nullptr;
};

void read_access_list(hid_t list, SerialFile& file) {
    if (const std::optional<bool> forced = locks_may_be_missing()) file.ignore_disabled_locks = *forced;
    else host().H5Pget(list, "ignore_disabled_file_locks", &file.ignore_disabled_locks);
    if (list != *host().H5P_LST_FILE_ACCESS_ID_g && host().H5Pexist(list, "family_to_single") > 0)
        host().H5Pget(list, "family_to_single", &file.family_to_single);
    // H5Pset_page_buffer_size; H5Pset_object_flush_cb, whose function a flush by forebay would call.
    std::size_t page_buffer_bytes = 0;
    ObjectFlush flush;
    host().H5Pget(list, "page_buffer_size", &page_buffer_bytes);
    host().H5Pget(list, "object_flush_cb", &flush);
    constexpr std::size_t kNoneSet = SIZE_MAX;   // the default since 2.0 (H5PB_SIZE_DEFAULT_VALUE)
    file.open->holds_raw_data = (page_buffer_bytes > 0 && page_buffer_bytes != kNoneSet) || flush.function != nullptr;
}

void push_open_error(const char* function, const char* name, unsigned flags, int o_flags, int error) {
    // h5py reads the number behind "errno = ".
    char rest[256];
    std::snprintf(rest, sizeof rest, "', errno = %d, error message = '%s', flags = %x, o_flags = %x", error,
                  std::strerror(error), flags, static_cast<unsigned>(o_flags));
    push_error(function, host().H5E_FILE_g, host().H5E_CANTOPENFILE_g,
               (std::string("unable to open file: name = '") + name + rest).c_str());
}

// All that can refuse a file before it is opened. `name` may be made or emptied.
Status admit(stage::Engine& engine, const char* name, unsigned flags, bool paused) {
    const bool writes = (flags & (H5F_ACC_RDWR | H5F_ACC_CREAT | H5F_ACC_TRUNC)) != 0;
    if (writes && !paused && !engine.options().options.forwards()) FOREBAY_TRY(engine.area().admit());
    return (flags & H5F_ACC_TRUNC) != 0 ? engine.leftovers().admit_emptying(name) : Status::ok();
}

// For a small file whose attributes this process keeps (docs/read-cache.md, "Attribute leases"). Null: open the file.
std::shared_ptr<cache::LeasedFile> open_leased(SerialFile& file, const char* name, unsigned flags, hid_t list) {
    constexpr unsigned kOthers = H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_EXCL | H5F_ACC_CREAT | H5F_ACC_SWMR_WRITE |
                                 H5F_ACC_SWMR_READ;
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    auto leased = engine != nullptr && (flags & kOthers) == 0 ? engine->leased(name) : nullptr;
    if (leased == nullptr || !Session::get().wants(list, false)) return nullptr;
    const cache::Version& version = leased->lease.version;
    OpenFile& open = *file.open;
    open.name = name;
    open.path = leased->path;
    open.descriptor = std::make_shared<io::Descriptor>(version.identity, version.born_ns, open.path);
    file.identity = version.identity;
    open.identity = cache::identity_of_lease(version);
    file.end_of_file = file.size = version.size;
    file.modified_ns = version.modified_ns;
    file.changed_ns = version.changed_ns;
    file.by_lease = file.closes_awaited = file.leftovers_seen = true;
    return leased;
}

H5FD_t* driver_open(const char* name, unsigned flags, hid_t list, haddr_t max_address) {
    constexpr const char* kFunction = "driver_open";
    return guard(kFunction, [&]() -> H5FD_t* {
        if (!check_open(kFunction, name, max_address, kMaxAddress)) return nullptr;
        const auto refuse = [&](const Status& why) -> H5FD_t* {
            push_error(kFunction, host().H5E_FILE_g, host().H5E_CANTINIT_g, why.message().c_str());
            return nullptr;
        };
        auto file = std::make_unique<SerialFile>();
        OpenFile& open = *file->open;
        read_access_list(list, *file);
        const std::shared_ptr<stage::Engine> engine = Session::get().engine();
        const bool paused = is_paused();
        if (engine != nullptr)
            if (const Status admitted = admit(*engine, name, flags, paused); !admitted) return refuse(admitted);
        io::MadeFile made;
        const int o_flags = open_flags(flags);
        if (!paused) file->leased = open_leased(*file, name, flags, list);
        const Status opened = file->by_lease ? Status::ok() : open_target(*file, made, name, flags, o_flags);
        if (!opened) {
            if (open.descriptor == nullptr) push_open_error(kFunction, name, flags, o_flags, opened.sys_errno());
            else
                push_errno(kFunction, host().H5E_FILE_g, host().H5E_BADFILE_g, "unable to fstat file",
                           opened.sys_errno());
            return nullptr;
        }
        if (!open.aside && !Session::get().wants(list, open.writable)) open.aside = ledger::AsideReason::kDisabled;
        if (!open.aside && paused) open.aside = ledger::AsideReason::kPaused;
        if (made.made()) OtherDriverFiles::get().note_created(open.identity);
        const bool forwards = engine != nullptr && engine->options().options.forwards();
        if (!open.aside && open.writable && !forwards && OtherDriverFiles::get().contains(open.identity))
            open.aside = ledger::AsideReason::kDriver;
        file->emptied = (flags & H5F_ACC_TRUNC) != 0 || made.made();
        if (file->emptied)
            if (const Status may = may_be_emptied(open); !may) return refuse(may);
        const bool swmr = (flags & (H5F_ACC_SWMR_WRITE | H5F_ACC_SWMR_READ)) != 0;
        if (swmr && !open.aside) open.aside = ledger::AsideReason::kSwmr;
        OpenFiles::get().add(file->library, file->open);
        const auto prepare = [&]() -> Status {
            if ((flags & H5F_ACC_TRUNC) != 0) FOREBAY_TRY(io::empty(*open.descriptor, open.path));
            return engine->leftovers().forget_before(open.identity, name, true);
        };
        if (file->emptied && attached(kFunction, *file, prepare) == nullptr) return nullptr;
        // HDF5 gives this one up, unused, if it has the file open already.
        if (!open.writable && engine != nullptr) engine->files().opened_again(open.identity);
        made.keep();
        return &file.release()->library;
    });
}

herr_t driver_close(H5FD_t* file) {
    return guard("driver_close", [&]() -> herr_t {
        const std::unique_ptr<SerialFile> self(as_file<SerialFile>(file));
        const std::shared_ptr<OpenFile> open = self->open;
        bool left = false;   // bytes of it are still in the log only
        bool done = false;   // all of it is in the file, and no handle of this process has the file open
        if (open->file != nullptr) {
            // HDF5 frees the file even after a failure, and a second close would use freed memory. The connector
            // reports it.
            const bool locked = self->locked != Locked::kNot;
            const auto [closed, deferred] = open->file->close([descriptor = open->descriptor, identity = open->identity,
                                                               locked](stage::Ended ended) {
                return end_deferred_descriptor(descriptor, identity, locked, ended);
            });
            if (!closed) open->keep_failure(OpenFile::During::kClose, closed.with_context("close " + open->path));
            if (deferred) {
                CallScope::note_closed(open);
                return 0;
            }
            left = open->writable && open->file->staged().lifecycle().failed();
            done = open->writable && closed.is_ok() && !left && !open->file->staged().lifecycle().leaves_log() &&
                   open->file->engine().files().find(open->identity) == nullptr;
        }
        open->file.reset();
        // Another handle may hold the descriptor a little longer, and the lock with it. The engine keeps a file that
        // could not be closed: other processes must not write it before they recover its log. A drain thread may still
        // hold the descriptor, unused. Were it to close it, the program could lose a later lock (fcntl(2), F_SETLK).
        if (self->locked != Locked::kNot && !left) (void)open->descriptor->lock(LOCK_UN);
        close_kept_descriptors(open->identity);
        // Without a free descriptor this flushes nothing: the last holder's close does.
        const int error = done || open->descriptor.use_count() == 1 ? open->descriptor->close()
                                                                    : open->descriptor->flush_as_close().value_or(0);
        if (error != 0) open->keep_failure(OpenFile::During::kClose, Status::from_errno(error, "close " + open->path));
        CallScope::note_closed(open);
        return 0;
    });
}

int driver_compare(const H5FD_t* left, const H5FD_t* right) {
    const SerialFile &a = *as_file<SerialFile>(left), &b = *as_file<SerialFile>(right);
    if (a.identity != b.identity) return a.identity < b.identity ? -1 : 1;
    if (!a.by_lease && !b.by_lease) return 0;
    // A leased file is not open: its inode number may belong to another file by now.
    const auto version = [](const SerialFile& file) { return std::tie(file.size, file.modified_ns, file.changed_ns); };
    return version(a) < version(b) ? -1 : version(a) == version(b) ? 0 : 1;
}

herr_t driver_query(const H5FD_t* file, unsigned long* flags) {
    if (flags == nullptr) return 0;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_POSIX_COMPAT_HANDLE | H5FD_FEAT_SUPPORTS_SWMR_IO |
             H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    if (file == nullptr) return 0;
    const SerialFile& self = *as_file<SerialFile>(file);
    if (self.family_to_single) *flags |= H5FD_FEAT_IGNORE_DRVRINFO;
    // With it HDF5 asks the file system whether the name is a symbolic link (H5F__build_actual_name). It is none.
    if (self.by_lease) *flags &= ~static_cast<unsigned long>(H5FD_FEAT_POSIX_COMPAT_HANDLE);
    return 0;
}

haddr_t driver_get_end_of_file(const H5FD_t* file, H5FD_mem_t) {
    return guard("driver_get_end_of_file", [&]() -> haddr_t {
        // Attaching changes nothing that HDF5 sees as the file's state.
        auto& self = const_cast<SerialFile&>(*as_file<SerialFile>(file));
        return attached("driver_get_end_of_file", self) != nullptr ? self.end_of_file : HADDR_UNDEF;
    });
}

herr_t driver_get_handle(H5FD_t* file, hid_t, void** handle) {
    if (handle == nullptr) {
        push_error("driver_get_handle", host().H5E_ARGS_g, host().H5E_BADVALUE_g, "file handle not valid");
        return -1;
    }
    return guard("driver_get_handle", [&]() -> herr_t {
        io::Descriptor& descriptor = *self_of(file).open->descriptor;
        if (self_of(file).by_lease)
            if (const auto opened = descriptor.use(); !opened) {
                push_error("driver_get_handle", host().H5E_FILE_g, host().H5E_CANTOPENFILE_g, opened.status());
                return -1;
            }
        *handle = descriptor.lend();
        return 0;
    });
}

void push_transfer_error(const char* function, const OpenFile& file, const Status& failed, bool reading,
                         haddr_t address, std::size_t size_bytes, const void* buffer) {
    const hid_t* const minor = reading ? host().H5E_READERROR_g : host().H5E_WRITEERROR_g;
    if (failed.sys_errno() == 0 || file.file->staged().staged()) {
        push_error(function, host().H5E_IO_g, minor, failed);
        return;
    }
    const std::time_t now = std::time(nullptr);
    char time[32] = "", place[64] = "";
    (void)::ctime_r(&now, time);
    std::snprintf(place, sizeof place, "%p", buffer);
    const std::string size = std::to_string(size_bytes), verb = reading ? "read" : "write";
    const std::string text = "file " + verb + " failed: time = " + time + ", filename = '" + file.name +
                             "', file descriptor = " + std::to_string(file.descriptor->number()) +
                             ", errno = " + std::to_string(failed.sys_errno()) + ", error message = '" +
                             std::strerror(failed.sys_errno()) + "', buf = " + place + ", total " + verb +
                             " size = " + size + ", bytes this sub-" + verb + " = " + size +
                             ", offset = " + std::to_string(address);
    push_error(function, host().H5E_IO_g, minor, text.c_str());
}

herr_t driver_read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size_bytes, void* buffer) {
    constexpr const char* kFunction = "driver_read";
    return guard(kFunction, [&]() -> herr_t {
        ProgramFile* const target = attached(kFunction, self_of(file));
        if (target == nullptr || !check_region(kFunction, address, size_bytes)) return -1;
        const ProgramFile::ReadPart part{address, {static_cast<std::byte*>(buffer), size_bytes}};
        if (const Status read = target->read({&part, 1}); !read) {
            push_transfer_error(kFunction, *self_of(file).open, read, true, address, size_bytes, buffer);
            return -1;
        }
        return 0;
    });
}

// Call this after each change of `self.refused_changes`. HDF5 goes on after a refused write, and flushes and closes the
// file, so that no call of its own keeps an incomplete state from being committed.
void keep_whole(SerialFile& self, ProgramFile& target, bool was_whole) noexcept {
    if (self.refused_changes.whole() != was_whole) target.withhold(self.refused_changes.why());
}

herr_t driver_write(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size_bytes, const void* buffer) {
    constexpr const char* kFunction = "driver_write";
    return guard(kFunction, [&]() -> herr_t {
        SerialFile& self = self_of(file);
        ProgramFile* const target = attached(kFunction, self);
        if (target == nullptr || !check_region(kFunction, address, size_bytes)) return -1;
        target->engine().async_requests().await_reads(target->staged(), {address, address + size_bytes});
        const ByteClass byte_class = type == H5FD_MEM_DRAW ? ByteClass::kRaw : ByteClass::kMetadata;
        const ProgramFile::Part part{address, {static_cast<const std::byte*>(buffer), size_bytes}};
        const Status written = target->write({&part, 1}, byte_class);
        const bool was_whole = self.refused_changes.whole();
        const ByteRange range{address, address + size_bytes};
        // The program's own call reports refused raw data, and the file's metadata do not depend on them.
        if (written) self.refused_changes.replace(range);
        else if (byte_class == ByteClass::kMetadata) self.refused_changes.refuse_write(range, written);
        keep_whole(self, *target, was_whole);
        if (!written) {
            push_transfer_error(kFunction, *self.open, written, false, address, size_bytes, buffer);
            return -1;
        }
        if (address + size_bytes > self.end_of_file) self.end_of_file = address + size_bytes;
        return 0;
    });
}

herr_t driver_flush(H5FD_t* file, hid_t, hbool_t closing) {
    return guard("driver_flush", [&]() -> herr_t {
        SerialFile& self = self_of(file);
        const OpenFile& open = *self.open;
        if (closing || open.file == nullptr || CallScope::kind() == CallKind::kObjectFlush) return 0;
        // HDF5 also flushes in a close, which a failure would leave half done. So the connector's callback reports it.
        Status committed = open.file->commit();
        if (!committed) CallScope::keep_failure(self.open, OpenFile::During::kFlush, std::move(committed));
        return 0;
    });
}

herr_t driver_truncate(H5FD_t* file, hid_t, hbool_t) {
    constexpr const char* kFunction = "driver_truncate";
    return guard(kFunction, [&]() -> herr_t {
        SerialFile& self = self_of(file);
        ProgramFile* const target = attached(kFunction, self);
        if (target == nullptr) return -1;
        if (self.end_allocated == self.end_of_file && !self.refused_changes.lacks_size()) return 0;
        if (!self.open->writable) {
            push_errno(kFunction, host().H5E_IO_g, host().H5E_SEEKERROR_g, "unable to extend file properly", EINVAL);
            return -1;
        }
        target->engine().async_requests().await_reads(target->staged(), {self.end_allocated, kOffsetMax});
        const Status truncated = target->truncate(self.end_allocated);
        const bool was_whole = self.refused_changes.whole();
        if (truncated) self.refused_changes.resize(self.end_allocated);
        else self.refused_changes.refuse_size(truncated);
        keep_whole(self, *target, was_whole);
        if (!truncated) {
            if (truncated.sys_errno() == 0 || target->staged().staged())
                push_error(kFunction, host().H5E_IO_g, host().H5E_SEEKERROR_g, truncated);
            else
                push_errno(kFunction, host().H5E_IO_g, host().H5E_SEEKERROR_g, "unable to extend file properly",
                           truncated.sys_errno());
            return -1;
        }
        self.end_of_file = self.end_allocated;
        return 0;
    });
}

herr_t driver_delete(const char* name, hid_t) {
    return guard("driver_delete", [&]() -> herr_t {
        if (const std::shared_ptr<stage::Engine> engine = Session::get().engine()) engine->removes(name);
        if (std::remove(name) == 0) return 0;
        push_errno("driver_delete", host().H5E_VFL_g, host().H5E_CANTDELETEFILE_g, "unable to delete file", errno);
        return -1;
    });
}

herr_t driver_control(H5FD_t*, std::uint64_t, std::uint64_t flags, const void*, void**) {
    return refuse_unknown_control("driver_control", flags);
}

herr_t driver_terminate() {
    return guard("driver_terminate", []() -> herr_t {
        Session::get().end();
        return 0;
    });
}

// No vector and selection callbacks: sec2 has none, and with them HDF5 would cut its I/O differently.
constexpr H5FD_class_t kDriverClass = [] {
    H5FD_class_t made = driver_class(kDriverValue, kDriverName);
    made.maxaddr = kMaxAddress;
    made.fc_degree = H5F_CLOSE_WEAK;
    made.terminate = driver_terminate;
    made.open = driver_open;
    made.close = driver_close;
    made.cmp = driver_compare;
    made.query = driver_query;
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
    return made;
}();

}   // namespace

hid_t register_driver() { return host().H5FDregister(&kDriverClass); }

}   // namespace forebay::hdf5
