#include "hdf5/connector/async_calls.h"
#include "hdf5/connector/callbacks.h"
#include "hdf5/connector/driver_swap.h"
#include "hdf5/connector/file_operations.h"
#include "hdf5/connector/freed_space.h"
#include "hdf5/connector/object_file.h"
#include "hdf5/connector/operations.h"
#include "hdf5/host/wheel_filters.h"
#include "hdf5/identity.h"

// File callbacks. Operations that need the plain file make it step aside.

namespace forebay::hdf5 {

namespace {

template <class Open>
void* open_file(const char* function, const char* path, unsigned flags, hid_t list, void** request, Open&& open) {
    std::shared_ptr<Origin> origin;   // null if memory was short
    std::optional<CallReport> report;
    void* const opened = guard(function, [&]() -> void* {
        const CallScope scope(CallKind::kOther);
        if (!register_operations()) return nullptr;
        add_wheel_filters();
        NewObject made;   // before the ranks vote to open the file
        NewRequest beneath(request);
        UnderList under_list(function, path, flags, list);
        origin = under_list.origin();
        report.emplace(*origin, request);
        if (under_list.refused()) return nullptr;
        void* const under = open(under_list.id());
        if (under == nullptr) {
            (void)brought_home(function);   // HDF5 has closed the file that it rejects
            return nullptr;
        }
        if (!under_list.opened(function, under, path)) return nullptr;
        if (origin->file != nullptr) {
            CallScope::leave_failures_to(*origin->file);
            if (closes_at_once()) origin->file->closes_at_once = true;
        }
        beneath.wrap(origin);
        return made.around(under, origin);
    });
    return report ? report->of_new(opened, origin) : opened;
}

void* file_create(const char* name, unsigned flags, hid_t creation, hid_t access, hid_t transfer, void** request) {
    return open_file("file_create", name, flags, access, request, [&](hid_t list) {
        return host().H5VLfile_create(name, flags, creation, list, transfer, request);
    });
}

void* file_open(const char* name, unsigned flags, hid_t access, hid_t transfer, void** request) {
    return open_file("file_open", name, flags, access, request,
                     [&](hid_t list) { return host().H5VLfile_open(name, flags, list, transfer, request); });
}

herr_t file_get(void* object, H5VL_file_get_args_t* args, hid_t transfer, void** request) {
    return forward("file_get", object, {}, request, [&](void* under, hid_t connector) -> herr_t {
        const std::shared_ptr<Origin> origin = as_object(object)->origin;
        const herr_t result = host().H5VLfile_get(under, connector, args, transfer, request);
        if (result < 0 || args->op_type != H5VL_FILE_GET_FAPL) return result;
        return restore_list(args->args.get_fapl.fapl_id, *origin);
    });
}

herr_t query_file(const char* function, const char* path, hid_t list, void** request, auto&& query) {
    const CallScope scope(CallKind::kOther);
    UnderList under_list(function, path, H5F_ACC_RDONLY, list, UnderList::For::kQuery);
    if (under_list.refused()) return -1;
    NewRequest beneath(request);
    const herr_t result = query(under_list.id(), under_list.origin()->under_connector);
    beneath.wrap(under_list.origin());
    return brought_home(function) ? result : -1;
}

// If HDF5 cannot open a file natively, and the program named no connector, it asks all on its plugin path. forebay adds
// only files that it stages in this process, which HDF5 2.0 would take for native and crash. Else the native error
// stays.
herr_t answer_search(H5VL_file_specific_args_t& args, hid_t transfer, void** request) {
    auto& query = args.args.is_accessible;
    *query.accessible = false;
    if (host().major_version >= 2 || Session::get().engine() == nullptr) return 0;
    const ErrorStackKeeper keeper;
    const QuietErrors quiet;
    const CallScope scope(CallKind::kOther);
    UnderList under_list("file_is_accessible", query.filename, H5F_ACC_RDONLY, query.fapl_id, UnderList::For::kQuery);
    if (under_list.refused()) return 0;
    query.fapl_id = under_list.id();
    NewRequest beneath(request);
    const hid_t connector = under_list.origin()->under_connector;
    if (host().H5VLfile_specific(nullptr, connector, &args, transfer, request) < 0) *query.accessible = false;
    beneath.wrap(under_list.origin());
    return 0;
}

herr_t file_specific(void* object, H5VL_file_specific_args_t* args, hid_t transfer, void** request) {
    H5VL_file_specific_args_t under_args = *args;
    const auto call = [&](void* under, hid_t connector) {
        return host().H5VLfile_specific(under, connector, &under_args, transfer, request);
    };
    switch (args->op_type) {
        case H5VL_FILE_IS_ACCESSIBLE:
            return guard("file_is_accessible", [&] {
                if (is_search_after_failure()) return answer_search(under_args, transfer, request);
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
            return forward(
                "file_reopen", object, {}, request,
                [&](void* under, hid_t connector) {
                    NewObject made;
                    const herr_t result = call(under, connector);
                    if (result >= 0)
                        *args->args.reopen.file = made.around(*args->args.reopen.file, as_object(object)->origin);
                    return result;
                },
                CallKind::kOther, Failure::kAtOnce);
        case H5VL_FILE_FLUSH:
            return forward("file_flush", object, {}, request, [&](void* under, hid_t connector) -> herr_t {
                if (request == nullptr) end_reads_of_file(*as_object(object));
                const herr_t result = call(under, connector);
                Status lost = CallScope::take_failure(OpenFile::During::kFlush);
                // The file also keeps failures that the call had no memory to note, or that no call could report.
                const std::shared_ptr<OpenFile>& own = as_object(object)->origin->file;
                if (own != nullptr)
                    for (const auto during : {OpenFile::During::kFlush, OpenFile::During::kClose})
                        if (Status failure = own->take_failure(during); lost) lost = std::move(failure);
                // Reports a failure after an earlier close here already. Ranks do not, because not all would report it.
                if (lost && own != nullptr && own->shared == nullptr && own->file != nullptr)
                    lost = own->file->engine().closes().take_failure();
                if (lost) return result;
                push_error("file_flush", host().H5E_FILE_g, host().H5E_CANTFLUSH_g, lost);
                return -1;
            });
        case H5VL_FILE_IS_EQUAL:   // HDF5 has unwrapped the second file already
        default: return forward("file_specific", object, {}, request, call);
    }
}

herr_t step_aside(const char* function, OpenFile& file, ledger::AsideReason reason) {
    const Status stepped = file.file != nullptr ? file.file->step_aside(reason) : Status::ok();
    if (!stepped) push_error(function, host().H5E_FILE_g, host().H5E_WRITEERROR_g, stepped);
    return stepped ? 0 : -1;
}

// From H5VLnative.h (HDF5 1.14), which defines them for a parallel HDF5 only. The plugin may serve one anyway.
constexpr int kGetMpiAtomicity = 26;   // its arguments: hbool_t* flag
constexpr int kSetMpiAtomicity = 27;   // its arguments: hbool_t flag

// MPI's atomic mode needs written bytes in the file at once, so staging ends. A read-only file needs no change.
herr_t set_mpi_atomicity(OpenFile& file, bool atomic) {
    if (atomic && file.shared != nullptr &&
        step_aside("file_set_mpi_atomicity", file, ledger::AsideReason::kAtomicity) < 0)
        return -1;
    file.atomic = atomic;
    return 0;
}

// Handles MPI's atomic mode of a file that ranks have open together, which HDF5 takes for mpio's; false: another call.
bool answers_for_ranks(OpenFile& file, H5VL_optional_args_t& args, herr_t& result) {
    if (!file.with_mpi) return false;
    result = 0;
    if (args.op_type == kSetMpiAtomicity) result = set_mpi_atomicity(file, *static_cast<const hbool_t*>(args.args));
    else if (args.op_type == kGetMpiAtomicity) **static_cast<hbool_t* const*>(args.args) = file.atomic;
    else return false;
    return true;
}

herr_t file_optional(void* object, H5VL_optional_args_t* args, hid_t transfer, void** request) {
    return forward("file_optional", object, {}, request, [&](void* under, hid_t connector) -> herr_t {
        const auto call = [&] { return host().H5VLfile_optional(under, connector, args, transfer, request); };
        // H5Fget_info2 asks any object. All other native calls ask a file, and HDF5 casts it without a look.
        if (args->op_type == H5VL_NATIVE_FILE_GET_INFO) return call();
        // Finds the file by HDF5's number: the object may lie in another file than its origin.
        const auto file = file_at(*as_object(object));
        if (const auto operation = operation_of(H5VL_SUBCLS_FILE, args->op_type))
            return is_known_beneath(under, connector, H5VL_SUBCLS_FILE, args->op_type)
                       ? call()
                       : carry_out("file_optional", *operation, file.get(), args->args);
        if (file == nullptr) return call();
        herr_t result = 0;
        if (answers_for_ranks(*file, *args, result)) return result;
        if (file->with_mpi) return call();
        if (args->op_type == H5VL_NATIVE_FILE_START_SWMR_WRITE &&
            step_aside("file_start_swmr_write", *file, ledger::AsideReason::kSwmr) < 0)
            return -1;
        result = call();
        if (result < 0 || args->op_type != H5VL_NATIVE_FILE_GET_VFD_HANDLE) return result;
        return step_aside("file_get_vfd_handle", *file, ledger::AsideReason::kHandleTaken);
    });
}

// HDF5 flushes before it closes a file. The close drains that commit, so the drain pauses until then: waking another
// thread for a few bytes costs more than the drain.
class HeldWhileClosing {
  public:
    explicit HeldWhileClosing(const std::shared_ptr<OpenFile>& file) {
        // A reader's close does not drain the bytes that another open has staged.
        if (file == nullptr || file->closed() || !file->writable || file->file == nullptr || file->shared != nullptr ||
            file->file->staged().log().drain_paused())
            return;
        staged_ = file->file->staged().shared_from_this();
        staged_->log().pause_drain();
    }
    // The file may still be open, through another identifier or open, or because the close failed.
    ~HeldWhileClosing() {
        if (staged_ != nullptr) staged_->log().resume_drain();
    }
    HeldWhileClosing(const HeldWhileClosing&) = delete;
    HeldWhileClosing& operator=(const HeldWhileClosing&) = delete;

  private:
    std::shared_ptr<stage::StagedFile> staged_;
};

herr_t file_close(void* object, hid_t transfer, void** request) {
    return forward_close("file_close", object, request, [&](void* under, hid_t connector) -> herr_t {
        if (request == nullptr) end_reads_of_file(*as_object(object));
        if (!ready_to_close("file_close", *as_object(object), H5I_FILE)) return -1;
        const HeldWhileClosing held(as_object(object)->origin->file);
        const herr_t result = host().H5VLfile_close(under, connector, transfer, request);
        // A failure of the flush before the close belongs to this call too.
        const std::shared_ptr<OpenFile>& own = as_object(object)->origin->file;
        if (Status lost = CallScope::take_failure(OpenFile::During::kFlush); !lost && own != nullptr)
            CallScope::keep_failure(own, OpenFile::During::kClose, std::move(lost));
        return result;
    });
}

}   // namespace

H5VL_file_class_t file_callbacks() {
    return {file_create, file_open, file_get, file_specific, file_optional, file_close};
}

}   // namespace forebay::hdf5
