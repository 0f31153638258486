#include "hdf5/mpi_driver.h"

#include <cstring>
#include <optional>
#include <utility>

#include "base/attempt.h"
#include "hdf5/call_scope.h"
#include "hdf5/guard.h"
#include "hdf5/mpi_library.h"
#include "hdf5/mpi_open.h"
#include "hdf5/mpi_transfer.h"
#include "hdf5/open_files.h"
#include "hdf5/session.h"
#include "hdf5/transfer.h"

namespace forebay::hdf5 {

namespace {

using node::SharedFile;

thread_local std::shared_ptr<SharedFile> opened_file;
thread_local std::optional<OfferedTeam> offered_team;

MpiFile* as_file(H5FD_t* file) noexcept {
    return reinterpret_cast<MpiFile*>(file);
}
const MpiFile* as_file(const H5FD_t* file) noexcept {
    return reinterpret_cast<const MpiFile*>(file);
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
        if (!offered) {
            auto made = offer_from(list, *door.value());
            if (!made)
                return fail(made.status());
            offered = std::move(made).value();
        }
        std::unique_ptr<MpiFile> file;
        const Status prepared = offered->team->agree(attempt([&]() -> Status {
            auto handles = MpiHandles::of(list, *door.value(), offered->communicator);
            if (!handles)
                return handles.status();
            file = std::make_unique<MpiFile>(std::move(handles).value());
            return Status::ok();
        }));
        if (!prepared)
            return fail(prepared);
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
        if (const Status closed = attempt([&] { return close_file(*self); }); !closed)
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

herr_t finish_transfer(const char* function, const hid_t* minor, const Status& outcome) {
    if (outcome)
        return 0;
    push_error(function, host().H5E_IO_g, minor, outcome);
    return -1;
}

herr_t driver_read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size_bytes, void* buffer) {
    return guard("mpi_driver_read", [&] {
        return finish_transfer("mpi_driver_read", host().H5E_READERROR_g,
                               read_pieces(*as_file(file), {1, &type, &address, &size_bytes}, &buffer));
    });
}

herr_t driver_write(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size_bytes, const void* buffer) {
    return guard("mpi_driver_write", [&] {
        return finish_transfer("mpi_driver_write", host().H5E_WRITEERROR_g,
                               write_pieces(*as_file(file), {1, &type, &address, &size_bytes}, &buffer, false));
    });
}

herr_t driver_read_vector(H5FD_t* file, hid_t, std::uint32_t count, H5FD_mem_t types[], haddr_t addresses[],
                          std::size_t sizes[], void* buffers[]) {
    return guard("mpi_driver_read_vector", [&] {
        return finish_transfer("mpi_driver_read_vector", host().H5E_READERROR_g,
                               read_pieces(*as_file(file), {count, types, addresses, sizes}, buffers));
    });
}

herr_t driver_write_vector(H5FD_t* file, hid_t, std::uint32_t count, H5FD_mem_t types[], haddr_t addresses[],
                           std::size_t sizes[], const void* buffers[]) {
    return guard("mpi_driver_write_vector", [&] {
        MpiFile& self = *as_file(file);
        const bool collective = is_collective_now();
        Status outcome = attempt([&] { return write_pieces(self, {count, types, addresses, sizes}, buffers, collective); });
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
        if (Status committed = attempt([&] { return self.shared->commit(); }); !committed)
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
        Status truncated = attempt([&] { return self.shared->truncate(self.end_allocated); });
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
    made.maxaddr = kMpiMaxAddress;
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
