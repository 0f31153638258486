#include <sys/stat.h>

#include "hdf5/callbacks.h"
#include "hdf5/driver_swap.h"
#include "hdf5/mpi_driver.h"

// File callbacks: create and open exchange the driver (driver_swap.h), lists that are handed out get
// the user's back, and operations that need the plain file step aside.

namespace forebay::hdf5 {

namespace {

template <class Open>
void* open_file(const char* function, const char* path, unsigned flags, hid_t list, void** request, Open&& open) {
    return guard(function, [&]() -> void* {
        UnderList under_list(function, path, flags, list);
        if (under_list.refused())
            return nullptr;
        const std::shared_ptr<Origin>& origin = under_list.origin();
        void* const under = open(under_list.id());
        if (under == nullptr)
            return nullptr;
        under_list.opened(path);
        wrap_request(request, origin);
        return wrap(under, origin);
    });
}

void* file_create(const char* name, unsigned flags, hid_t creation, hid_t access, hid_t transfer, void** request) {
    return open_file("file_create", name, flags, access, request, [&](hid_t list) {
        return host().H5VLfile_create(name, flags, creation, list, transfer, request);
    });
}

void* file_open(const char* name, unsigned flags, hid_t access, hid_t transfer, void** request) {
    return open_file("file_open", name, flags, access, request, [&](hid_t list) {
        return host().H5VLfile_open(name, flags, list, transfer, request);
    });
}

herr_t file_get(void* object, H5VL_file_get_args_t* args, hid_t transfer, void** request) {
    return forward("file_get", object, {}, request, [&](void* under, hid_t connector) -> herr_t {
        const std::shared_ptr<Origin> origin = as_object(object)->origin;
        const herr_t result = host().H5VLfile_get(under, connector, args, transfer, request);
        if (result < 0 || args->op_type != H5VL_FILE_GET_FAPL)
            return result;
        return restore_list(args->args.get_fapl.fapl_id, *origin);
    });
}

// Queries about a file that is not open: like an open, without an object.
herr_t query_file(const char* function, const char* path, hid_t list, void** request, auto&& query) {
    UnderList under_list(function, path, H5F_ACC_RDONLY, list);
    if (under_list.refused())
        return -1;
    const herr_t result = query(under_list.id(), under_list.origin()->under_connector);
    wrap_request(request, under_list.origin());
    return result;
}

herr_t file_specific(void* object, H5VL_file_specific_args_t* args, hid_t transfer, void** request) {
    H5VL_file_specific_args_t under_args = *args;
    const auto call = [&](void* under, hid_t connector) {
        return host().H5VLfile_specific(under, connector, &under_args, transfer, request);
    };
    switch (args->op_type) {
        case H5VL_FILE_IS_ACCESSIBLE:
            return guard("file_is_accessible", [&] {
                auto& query = under_args.args.is_accessible;
                return query_file("file_is_accessible", query.filename, query.fapl_id, request,
                                  [&](hid_t list, hid_t connector) {
                                      query.fapl_id = list;
                                      return call(nullptr, connector);
                                  });
            });
        case H5VL_FILE_DELETE:
            return guard("file_delete", [&] {
                auto& query = under_args.args.del;
                return query_file("file_delete", query.filename, query.fapl_id, request,
                                  [&](hid_t list, hid_t connector) {
                                      query.fapl_id = list;
                                      return call(nullptr, connector);
                                  });
            });
        case H5VL_FILE_REOPEN:
            return forward("file_reopen", object, {}, request, [&](void* under, hid_t connector) {
                const herr_t result = call(under, connector);
                if (result >= 0)
                    *args->args.reopen.file = wrap(*args->args.reopen.file, as_object(object)->origin);
                return result;
            });
        case H5VL_FILE_FLUSH:
            return forward("file_flush", object, {}, request, [&](void* under, hid_t connector) -> herr_t {
                (void)Session::get().take_flush_failure();   // of some other file, which keeps it
                const herr_t result = call(under, connector);
                Status lost = Session::get().take_flush_failure();
                if (lost)
                    lost = Session::get().take_failure();
                if (lost)
                    return result;
                push_error("file_flush", host().H5E_FILE_g, host().H5E_CANTFLUSH_g, lost);
                return -1;
            });
        case H5VL_FILE_IS_EQUAL:   // HDF5 has unwrapped the second file already
        default:
            return forward("file_specific", object, {}, request, call);
    }
}

// The staged state of an open file, found through the descriptor that our driver reports.
std::shared_ptr<stage::StagedFile> staged_of_descriptor(int descriptor) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    struct stat status {};
    if (engine == nullptr || ::fstat(descriptor, &status) != 0)
        return nullptr;
    return engine->find(status.st_dev, status.st_ino);
}

herr_t step_aside(const char* function, int descriptor, log::AsideReason reason) {
    const std::shared_ptr<stage::StagedFile> file = staged_of_descriptor(descriptor);
    if (file == nullptr)
        return 0;
    if (const Status stepped = file->step_aside(reason); !stepped) {
        push_error(function, host().H5E_FILE_g, host().H5E_WRITEERROR_g, stepped);
        return -1;
    }
    return 0;
}

herr_t start_swmr_write(void* under, hid_t connector, hid_t transfer) {
    void* handle = nullptr;
    H5VL_native_file_optional_args_t native{};
    native.get_vfd_handle.fapl_id = *host().H5P_LST_FILE_ACCESS_ID_g;
    native.get_vfd_handle.file_handle = &handle;
    H5VL_optional_args_t ask{H5VL_NATIVE_FILE_GET_VFD_HANDLE, &native};
    if (host().H5VLfile_optional(under, connector, &ask, transfer, nullptr) < 0 || handle == nullptr)
        return -1;
    return step_aside("file_start_swmr_write", *static_cast<int*>(handle), log::AsideReason::kSwmr);
}

#ifdef H5_HAVE_PARALLEL

// MPI's atomic mode needs what is written to be in the file at once: staging ends for this file.
herr_t set_mpi_atomicity(const Origin& origin, bool atomic) {
    if (atomic)
        if (const Status stepped = origin.shared->step_aside(log::AsideReason::kAtomicity); !stepped) {
            push_error("file_set_mpi_atomicity", host().H5E_FILE_g, host().H5E_WRITEERROR_g, stepped);
            return -1;
        }
    set_atomic(*origin.shared, atomic);
    return 0;
}

#endif

herr_t file_optional(void* object, H5VL_optional_args_t* args, hid_t transfer, void** request) {
    const Origin& origin = *as_object(object)->origin;
#ifdef H5_HAVE_PARALLEL
    if (origin.shared != nullptr && args->op_type == H5VL_NATIVE_FILE_SET_MPI_ATOMICITY)
        return guard("file_set_mpi_atomicity", [&] {
            return set_mpi_atomicity(origin, static_cast<H5VL_native_file_optional_args_t*>(args->args)->set_mpi_atomicity.flag);
        });
    if (origin.shared != nullptr && args->op_type == H5VL_NATIVE_FILE_GET_MPI_ATOMICITY) {
        *static_cast<H5VL_native_file_optional_args_t*>(args->args)->get_mpi_atomicity.flag = is_atomic(*origin.shared);
        return 0;
    }
#endif
    const bool staged = origin.staged && !origin.mpi;
    return forward("file_optional", object, {}, request, [&](void* under, hid_t connector) -> herr_t {
        if (staged && args->op_type == H5VL_NATIVE_FILE_START_SWMR_WRITE &&
            start_swmr_write(under, connector, transfer) < 0)
            return -1;
        const herr_t result = host().H5VLfile_optional(under, connector, args, transfer, request);
        if (result < 0 || !staged || args->op_type != H5VL_NATIVE_FILE_GET_VFD_HANDLE)
            return result;
        const auto* native = static_cast<const H5VL_native_file_optional_args_t*>(args->args);
        return step_aside("file_get_vfd_handle", **reinterpret_cast<int**>(native->get_vfd_handle.file_handle),
                          log::AsideReason::kHandleTaken);
    });
}

herr_t file_close(void* object, hid_t transfer, void** request) {
    return forward_close("file_close", object, request, [&](void* under, hid_t connector) {
        Session& session = Session::get();
        (void)session.take_flush_failure();
        const herr_t result = host().H5VLfile_close(under, connector, transfer, request);
        if (Status lost = session.take_flush_failure(); !lost)
            session.keep_failure(std::move(lost));
        return result;
    });
}

}   // namespace

H5VL_file_class_t file_callbacks() {
    return {file_create, file_open, file_get, file_specific, file_optional, file_close};
}

}   // namespace forebay::hdf5
