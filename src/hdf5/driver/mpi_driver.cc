#include "hdf5/driver/mpi_driver.h"

#include <cstring>
#include <optional>
#include <utility>

#include "base/attempt.h"
#include "hdf5/call_scope.h"
#include "hdf5/connector/transfer.h"
#include "hdf5/driver/deferred_descriptor.h"
#include "hdf5/driver/mpi_open.h"
#include "hdf5/driver/mpi_transfer.h"
#include "hdf5/host/guard.h"
#include "hdf5/host/mpi_library.h"
#include "hdf5/open_files.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

thread_local TeamOffer* innermost_offer = nullptr;

MpiFile& self_of(H5FD_t* file) noexcept { return *as_file<MpiFile>(file); }

H5FD_t* driver_open(const char* name, unsigned flags, hid_t list, haddr_t max_address) {
    constexpr const char* kFunction = "mpi_driver_open";
    return guard(kFunction, [&]() -> H5FD_t* {
        if (!check_open(kFunction, name, max_address, HADDR_MAX)) return nullptr;
        remember_plain_types();
        const auto fail = [&](const Status& status) -> H5FD_t* {
            push_error(kFunction, host().H5E_FILE_g, host().H5E_CANTOPENFILE_g, status);
            return nullptr;
        };
        std::optional<OfferedTeam> offered = TeamOffer::take(name);
        const auto adapter = mpi_adapter();
        if (!adapter) return fail(adapter.status());
        if (!offered) {
            auto made = offer_from(list, *adapter.value());
            if (!made) return fail(made.status());
            offered = std::move(made).value();
        }
        std::unique_ptr<MpiFile> file;
        const Status prepared = offered->team->agree(attempt([&]() -> Status {
            auto handles = MpiHandles::of(list, *adapter.value(), offered->communicator);
            if (!handles) return handles.status();
            file = std::make_unique<MpiFile>(std::move(handles).value());
            OpenFiles::get().add(file->library, file->open);
            return Status::ok();
        }));
        if (!prepared) return fail(prepared);
        file->team = std::move(offered->team);
        file->leads = offered->leads;
        file->several_nodes = offered->several_nodes;
        if (const Status opened = open_file(*file, name, flags); !opened) return fail(opened);
        join_peers(*file);
        return &file.release()->library;
    });
}

Status close_file(OpenFile& file) {
    if (file.shared == nullptr) return file.file->close({}).outcome;
    // Another handle of the same ranks still writes: they all have it, so they all come this way.
    if (OpenFiles::get().shared(file.identity) != nullptr) return file.shared->commit();
    // The close is collective: without memory for this function it is not deferred, and no rank waits in vain.
    stage::AfterClose afterwards;
    (void)attempt([&] {
        afterwards = [descriptor = file.descriptor, identity = file.identity](stage::Ended ended) {
            return end_deferred_descriptor(descriptor, identity, false, ended);
        };
    });
    return file.shared->close(std::move(afterwards)).outcome;
}

herr_t driver_close(H5FD_t* file) {
    return guard("mpi_driver_close", [&]() -> herr_t {
        const std::unique_ptr<MpiFile> self(as_file<MpiFile>(file));
        const std::shared_ptr<OpenFile> open = self->open;
        OpenFiles::get().remove(self->library);
        leave_peers(*self);
        if (const Status closed = attempt([&] { return close_file(*open); }); !closed)
            open->keep_failure(OpenFile::During::kClose, closed.with_context("close " + open->path));
        close_kept_descriptors(open->identity);
        CallScope::note_closed(open);
        return 0;
    });
}

herr_t driver_query(const H5FD_t*, unsigned long* flags) {
    if (flags != nullptr)
        *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_HAS_MPI |
                 H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

haddr_t driver_get_end_of_file(const H5FD_t* file, H5FD_mem_t) { return as_file<DriverFile>(file)->end_of_file; }

herr_t driver_get_handle(H5FD_t*, hid_t, void**) {
    push_error("mpi_driver_get_handle", host().H5E_VFL_g, host().H5E_UNSUPPORTED_g,
               "a file that forebay stages has no MPI_File; open it with stage=off to get one");
    return -1;
}

herr_t finish_transfer(const char* function, const hid_t* minor, const Status& outcome) {
    if (outcome) return 0;
    push_error(function, host().H5E_IO_g, minor, outcome);
    return -1;
}

// Returns true if HDF5 hands over MPI types, not bytes at an address.
bool refuse_types(const char* function, const hid_t* minor, std::size_t size_bytes) {
    if (!is_described_by_types(size_bytes)) return false;
    push_error(function, host().H5E_IO_g, minor,
               "HDF5 describes this collective transfer by MPI types, which only its own mpio driver understands");
    return true;
}

herr_t driver_read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size_bytes, void* buffer) {
    return guard("mpi_driver_read", [&]() -> herr_t {
        if (type == H5FD_MEM_DRAW && refuse_types("mpi_driver_read", host().H5E_READERROR_g, size_bytes)) return -1;
        return finish_transfer("mpi_driver_read", host().H5E_READERROR_g,
                               read_pieces(self_of(file), {1, &type, &address, &size_bytes}, &buffer));
    });
}

herr_t driver_write(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size_bytes, const void* buffer) {
    return guard("mpi_driver_write", [&]() -> herr_t {
        if (refuse_types("mpi_driver_write", host().H5E_WRITEERROR_g, size_bytes)) return -1;
        return finish_transfer("mpi_driver_write", host().H5E_WRITEERROR_g,
                               write_pieces(self_of(file), {1, &type, &address, &size_bytes}, &buffer, false));
    });
}

herr_t driver_read_vector(H5FD_t* file, hid_t, std::uint32_t count, H5FD_mem_t types[], haddr_t addresses[],
                          std::size_t sizes[], void* buffers[]) {
    return guard("mpi_driver_read_vector", [&] {
        return finish_transfer("mpi_driver_read_vector", host().H5E_READERROR_g,
                               read_pieces(self_of(file), {count, types, addresses, sizes}, buffers));
    });
}

herr_t driver_write_vector(H5FD_t* file, hid_t, std::uint32_t count, H5FD_mem_t types[], haddr_t addresses[],
                           std::size_t sizes[], const void* buffers[]) {
    return guard("mpi_driver_write_vector", [&] {
        MpiFile& self = self_of(file);
        const bool collective = is_collective_now();
        const auto write = [&] { return write_pieces(self, {count, types, addresses, sizes}, buffers, collective); };
        // No rank goes on before all pieces count.
        const Status outcome = collective && self.open->shared != nullptr ? self.open->shared->write_collectively(write)
                                                                          : attempt(write);
        return finish_transfer("mpi_driver_write_vector", host().H5E_WRITEERROR_g, outcome);
    });
}

herr_t driver_flush(H5FD_t* file, hid_t, hbool_t closing) {
    return guard("mpi_driver_flush", [&]() -> herr_t {
        MpiFile& self = self_of(file);
        if (closing || self.open->shared == nullptr || CallScope::kind() == CallKind::kObjectFlush) return 0;
        // A commit would not have the size that its metadata name.
        if (!self.truncated) return 0;
        if (Status committed = attempt([&] { return self.open->shared->commit(); }); !committed)
            CallScope::keep_failure(self.open, OpenFile::During::kFlush, std::move(committed));
        return 0;
    });
}

herr_t driver_truncate(H5FD_t* file, hid_t, hbool_t) {
    return guard("mpi_driver_truncate", [&]() -> herr_t {
        MpiFile& self = self_of(file);
        if (self.open->shared == nullptr || self.end_allocated == self.last_end_allocated) return 0;
        // HDF5 truncates when it flushes or closes the file. It frees a file that it fails to close, and keeps the
        // identifier. So the connector reports the failure, as in `driver_flush`.
        Status truncated = attempt([&] { return self.open->shared->truncate(self.end_allocated); });
        self.truncated = truncated.is_ok();
        if (truncated) self.last_end_allocated = self.end_allocated;
        else CallScope::keep_failure(self.open, OpenFile::During::kFlush, std::move(truncated));
        return 0;
    });
}

herr_t driver_control(H5FD_t* file, std::uint64_t operation, std::uint64_t flags, const void*, void** output) {
    MpiFile& self = self_of(file);
    switch (operation) {
        case H5FD_CTL_GET_MPI_COMMUNICATOR_OPCODE:
            CallScope::note_collective_step(self.open);
            std::memcpy(*output, self.handles.communicator(), self.handles.adapter().communicator_bytes);
            return 0;
        case H5FD_CTL_GET_MPI_INFO_OPCODE:
            std::memcpy(*output, self.handles.info(), self.handles.adapter().info_bytes);
            return 0;
        case H5FD_CTL_GET_MPI_RANK_OPCODE: *static_cast<int*>(*output) = self.team->rank(); return 0;
        case H5FD_CTL_GET_MPI_SIZE_OPCODE: *static_cast<int*>(*output) = self.team->size(); return 0;
        case H5FD_CTL_GET_MPI_FILE_SYNC_OPCODE: *static_cast<bool*>(*output) = false; return 0;
        default: break;
    }
    return refuse_unknown_control("mpi_driver_control", flags);
}

herr_t driver_terminate() {
    return guard("mpi_driver_terminate", []() -> herr_t {
        Session::get().end_mpi_driver();
        return 0;
    });
}

constexpr H5FD_class_t kDriverClass = [] {
    H5FD_class_t made = driver_class(kMpiDriverValue, "forebay_mpi");
    made.maxaddr = HADDR_MAX;   // as mpio's: free-space managers store addresses in as many bytes as this takes
    made.fc_degree = H5F_CLOSE_SEMI;
    made.terminate = driver_terminate;
    made.open = driver_open;
    made.close = driver_close;
    made.query = driver_query;
    made.get_eof = driver_get_end_of_file;
    made.get_handle = driver_get_handle;
    made.read = driver_read;
    made.write = driver_write;
    made.read_vector = driver_read_vector;
    made.write_vector = driver_write_vector;
    made.flush = driver_flush;
    made.truncate = driver_truncate;
    made.ctl = driver_control;
    return made;
}();

}   // namespace

hid_t register_mpi_driver() { return host().H5FDregister(&kDriverClass); }

TeamOffer::TeamOffer(const char* name, OfferedTeam team)
    : name_(name), team_(std::move(team)), outer_(innermost_offer) {
    innermost_offer = this;
}

TeamOffer::~TeamOffer() { innermost_offer = outer_; }

std::optional<OfferedTeam> TeamOffer::take(std::string_view name) {
    if (innermost_offer == nullptr || innermost_offer->name_ != name) return std::nullopt;
    return std::exchange(innermost_offer->team_, std::nullopt);
}

}   // namespace forebay::hdf5
