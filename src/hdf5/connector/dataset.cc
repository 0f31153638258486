#include <algorithm>
#include <optional>
#include <vector>

#include "base/attempt.h"
#include "hdf5/connector/addresses.h"
#include "hdf5/connector/async_calls.h"
#include "hdf5/connector/callbacks.h"
#include "hdf5/connector/file_operations.h"
#include "hdf5/connector/freed_space.h"
#include "hdf5/connector/transfer.h"
#include "hdf5/host/library_context.h"
#include "hdf5/identity.h"
#include "hdf5/open_files.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

// Other ranks may next write space that some ranks have filled. nodes=consistent needs the order, so all ranks meet.
// Throws nothing, as HDF5 may have opened an object by now that its caller has to return.
void meet_after_filling(const char* function) noexcept {
    const std::shared_ptr<OpenFile> file = CallScope::collective_step();
    if (file == nullptr || file->shared == nullptr || !file->shared->keeps_journal()) return;
    Status met = attempt([&] { return file->shared->meet().with_context(function); });
    if (!met) file->keep_failure(OpenFile::During::kClose, std::move(met));
}

void* dataset_create(void* object, const H5VL_loc_params_t* location, const char* name, hid_t link_creation, hid_t type,
                     hid_t space, hid_t creation, hid_t access, hid_t transfer, void** request) {
    return forward_new("dataset_create", object, {location, access}, request, [&](void* under, hid_t connector) {
        void* const made = host().H5VLdataset_create(under, location, connector, name, link_creation, type, space,
                                                     creation, access, transfer, request);
        meet_after_filling("dataset_create");
        if (name == nullptr) note_unlinked();
        return made;
    });
}

void prefetch_whole(void* under, const std::shared_ptr<Origin>& origin) noexcept {
    const QuietErrors quiet;
    const PrefetchArguments everything{H5S_ALL};
    const auto prefetch = [&] {
        return carry_out("dataset_open", Operation::kPrefetch, Object{under, origin}, &everything);
    };
    if (guard("dataset_open", prefetch) < 0) host().H5Eclear2(H5E_DEFAULT);
}

void* dataset_open(void* object, const H5VL_loc_params_t* location, const char* name, hid_t access, hid_t transfer,
                   void** request) {
    return forward_new("dataset_open", object, {location, access}, request, [&](void* under, hid_t connector) {
        void* const opened = host().H5VLdataset_open(under, location, connector, name, access, transfer, request);
        meet_after_filling("dataset_open");   // a serially made dataset may be allocated and filled now
        if (opened != nullptr && prefetches_at_open()) prefetch_whole(opened, as_object(object)->origin);
        return opened;
    });
}

// The part of a transfer that is made in one way. Copies arguments only if there are two parts.
template <class Buffer>
class TransferPart {
  public:
    TransferPart(const Transfer<Buffer>& whole, const TransferWay& way, TransferWay::Part part) {
        for (std::size_t i = 0; i < whole.count; ++i) {
            if (!way.parts.empty() && way.parts[i] != part) continue;
            under_.push_back(as_object(whole.datasets[i])->under);
            if (!way.any(part == TransferWay::Part::kProgramsList ? TransferWay::Part::kIndependently
                                                                  : TransferWay::Part::kProgramsList))
                continue;
            memory_types_.push_back(whole.memory_types[i]);
            memory_spaces_.push_back(whole.memory_spaces[i]);
            file_spaces_.push_back(whole.file_spaces[i]);
            buffers_.push_back(whole.buffers[i]);
        }
        if (memory_types_.empty())
            part_ = {whole.count,       under_.data(), whole.memory_types, whole.memory_spaces,
                     whole.file_spaces, whole.list,    whole.buffers};
        else
            part_ = {under_.size(),       under_.data(), memory_types_.data(), memory_spaces_.data(),
                     file_spaces_.data(), whole.list,    buffers_.data()};
    }
    [[nodiscard]] const Transfer<Buffer>& with(hid_t list) noexcept {
        part_.list = list;
        return part_;
    }

  private:
    std::vector<void*> under_;
    std::vector<hid_t> memory_types_, memory_spaces_, file_spaces_;
    std::vector<Buffer> buffers_;
    Transfer<Buffer> part_{};
};

template <class Buffer, class Call>
herr_t transfer_independently(TransferPart<Buffer> part, hid_t list, hid_t connector, Call&& call) {
    const hid_t copy = independent_copy(list);
    if (copy < 0) return -1;
    herr_t result = -1;
    {
        const LibraryContext context;
        const CallScope scope(CallKind::kOwnData);
        if (context.is_open()) result = call(part.with(copy), connector);
    }
    std::optional<ErrorStackKeeper> keeper;
    if (result < 0) keeper.emplace();
    host().H5Pclose(copy);
    return result;
}

template <class Buffer, class Call>
herr_t transfer_parts(const Transfer<Buffer>& whole, const TransferWay& way, Call&& call) {
    const hid_t connector = as_object(whole.datasets[0])->origin->under_connector;
    herr_t result = 0;
    if (way.any(TransferWay::Part::kIndependently))
        result = transfer_independently<Buffer>({whole, way, TransferWay::Part::kIndependently}, whole.list, connector,
                                                call);
    if (!way.parts.empty() && !way.any(TransferWay::Part::kProgramsList)) return result;
    // The other ranks wait here even if the other part failed on this rank.
    std::optional<ErrorStackKeeper> keeper;
    if (result < 0) keeper.emplace();
    const CallScope scope(way.kind);
    TransferPart<Buffer> part(whole, way, TransferWay::Part::kProgramsList);
    return call(part.with(whole.list), connector) < 0 ? -1 : result;
}

herr_t met_afterwards(const char* function, const TransferWay& way, herr_t result) {
    if (way.together == nullptr) return result;
    std::optional<ErrorStackKeeper> keeper;
    if (result < 0) keeper.emplace();
    const Status outcome = way.together->meet();
    if (outcome) return result;
    if (result >= 0) push_error(function, host().H5E_IO_g, host().H5E_CANTINIT_g, outcome);
    return -1;
}

template <class Buffer, class Call>
herr_t transfer_datasets(const char* function, const Transfer<Buffer>& whole, void** request, Call&& call) noexcept {
    return guard(function, [&]() -> herr_t {
        if (whole.count == 0) return call(whole, H5I_INVALID_HID);
        const CallScope around(CallKind::kOther);
        const std::shared_ptr<Origin> origin = as_object(whole.datasets[0])->origin;
        for (std::size_t i = 0; i < whole.count; ++i)
            if (!have_same_connector(function, *as_object(whole.datasets[0]), *as_object(whole.datasets[i]))) return -1;
        std::optional<NewRequest> beneath;
        const TransferWay way = way_of(whole.count, whole.datasets, whole.memory_types, whole.list);
        // The other ranks wait for this rank afterwards in any case. HDF5 1.14 does not check the first dataset.
        const bool usable = std::all_of(whole.datasets, whole.datasets + whole.count,
                                        [&](void* dataset) { return is_usable(function, dataset); });
        herr_t result = way.failed || !usable ? -1 : guard(function, [&] {
            beneath.emplace(request);
            return transfer_parts<Buffer>(whole, way, call);
        });
        result = met_afterwards(function, way, result);
        if (beneath) beneath->wrap(origin);
        return brought_home(function) ? result : -1;
    });
}

// Returns true if `begin` has begun an own request, which is then the call's. Without memory there is none. All memory
// is taken before a transfer begins: it writes to the program's buffer, and only a request waits for its end.
template <class Begin>
bool begun(void** request, void* dataset, Begin&& begin) noexcept {
    try {
        auto made = std::make_unique<Request>();
        auto own = std::make_unique<BackgroundTransfer>();
        auto transfer = begin();
        if (transfer == nullptr) return false;
        own->follow(std::move(transfer));
        made->origin = as_object(dataset)->origin;
        made->own = std::move(own);
        *request = static_cast<Object*>(made.release());
        return true;
    } catch (...) {   // HDF5 makes the read, without an error on its stack
        return false;
    }
}

herr_t dataset_read(std::size_t count, void* datasets[], hid_t memory_types[], hid_t memory_spaces[],
                    hid_t file_spaces[], hid_t transfer, void* buffers[], void** request) {
    const Transfer<void*> whole{count, datasets, memory_types, memory_spaces, file_spaces, transfer, buffers};
    if (request != nullptr && count > 0 && begun(request, datasets[0], [&] { return begin_read(whole); })) return 0;
    const auto read = [&](const Transfer<void*>& part, hid_t connector) {
        return host().H5VLdataset_read(part.count, part.datasets, connector, part.memory_types, part.memory_spaces,
                                       part.file_spaces, part.list, part.buffers, request);
    };
    if (count == 0) return transfer_datasets("dataset_read", whole, request, read);
    const CallReport report(*as_object(datasets[0])->origin, request);
    return report.of(transfer_datasets("dataset_read", whole, request, read));
}

herr_t dataset_write(std::size_t count, void* datasets[], hid_t memory_types[], hid_t memory_spaces[],
                     hid_t file_spaces[], hid_t transfer, const void* buffers[], void** request) {
    const Transfer<const void*> whole{count, datasets, memory_types, memory_spaces, file_spaces, transfer, buffers};
    const auto write = [&](const Transfer<const void*>& part, hid_t connector) {
        return host().H5VLdataset_write(part.count, part.datasets, connector, part.memory_types, part.memory_spaces,
                                        part.file_spaces, part.list, part.buffers, request);
    };
    if (count == 0) return transfer_datasets("dataset_write", whole, request, write);
    const CallReport report(*as_object(datasets[0])->origin, request);
    return report.of(transfer_datasets("dataset_write", whole, request, write));
}

herr_t dataset_get(void* dataset, H5VL_dataset_get_args_t* args, hid_t transfer, void** request) {
    // The results are identifiers, which HDF5 takes for valid after a success.
    return forward(
        "dataset_get", dataset, {}, request,
        [&](void* under, hid_t connector) { return host().H5VLdataset_get(under, connector, args, transfer, request); },
        CallKind::kOther, Failure::kAtOnce);
}

herr_t dataset_specific(void* dataset, H5VL_dataset_specific_args_t* args, hid_t transfer, void** request) {
    const bool resizes = args->op_type == H5VL_DATASET_SET_EXTENT;
    if (!resizes && request == nullptr) end_reads_of(*as_object(dataset));
    return forward(
        "dataset_specific", dataset, {}, request,
        [&](void* under, hid_t connector) -> herr_t {
            if (resizes && !ready_to_resize("dataset_set_extent", *as_object(dataset), args->args.set_extent.size))
                return -1;
            if (args->op_type == H5VL_DATASET_REFRESH) Session::get().note_refresh();
            const herr_t result = host().H5VLdataset_specific(under, connector, args, transfer, request);
            meet_after_filling("dataset_specific");
            return result;
        },
        resizes ? CallKind::kOther : CallKind::kObjectFlush);
}

// H5Dread_to_cache and H5Dread_from_cache return the bytes of H5Dread.
herr_t read_as_operation(void* dataset, const H5VL_optional_args_t& args, hid_t transfer) {
    const auto* const asked = static_cast<const ReadArguments*>(args.args);
    const hid_t list = transfer != H5P_DEFAULT ? transfer : *host().H5P_LST_DATASET_XFER_ID_g;
    if (asked == nullptr || host().H5Pisa_class(list, *host().H5P_CLS_DATASET_XFER_ID_g) <= 0) {
        push_error("dataset_optional", host().H5E_ARGS_g, host().H5E_BADVALUE_g,
                   asked == nullptr ? "the operation has no arguments" : "not a dataset transfer property list");
        return -1;
    }
    hint_if_not_cached(*as_object(dataset));
    ReadArguments own = *asked;
    // Ends before it returns, also with an event set (cache_new_h5api.h).
    return dataset_read(1, &dataset, &own.memory_type, &own.memory_space, &own.file_space, list, &own.buffer, nullptr);
}

herr_t dataset_optional(void* dataset, H5VL_optional_args_t* args, hid_t transfer, void** request) {
    if (const auto operation = operation_of(H5VL_SUBCLS_DATASET, args->op_type)) {
        if (*operation == Operation::kRead) return read_as_operation(dataset, *args, transfer);
        return forward("dataset_optional", dataset, {}, nullptr, [&](void* under, hid_t connector) {
            if (is_known_beneath(under, connector, H5VL_SUBCLS_DATASET, args->op_type))
                return host().H5VLdataset_optional(under, connector, args, transfer, nullptr);
            return carry_out("dataset_optional", *operation, *as_object(dataset), args->args);
        });
    }
    return forward("dataset_optional", dataset, {}, request, [&](void*, hid_t) {
        // H5Dwrite_chunk moves filtered chunks that change their size; other chunks stay in place.
        const bool own = args->op_type == H5VL_NATIVE_DATASET_CHUNK_WRITE && OpenFiles::get().any_with_mpi() &&
                         !facts_of(*as_object(dataset)).filtered;
        const CallScope scope(own ? CallKind::kOwnData : CallKind::kOther);
        return dataset_optional_giving(*as_object(dataset), args, transfer, request);
    });
}

herr_t dataset_close(void* dataset, hid_t transfer, void** request) {
    return forward_close("dataset_close", dataset, request, [&](void* under, hid_t connector) -> herr_t {
        if (request == nullptr) end_reads_before_closing(*as_object(dataset));
        if (!ready_to_close("dataset_close", *as_object(dataset), H5I_DATASET)) return -1;
        return host().H5VLdataset_close(under, connector, transfer, request);
    });
}

}   // namespace

H5VL_dataset_class_t dataset_callbacks() {
    return {dataset_create, dataset_open,     dataset_read,     dataset_write,
            dataset_get,    dataset_specific, dataset_optional, dataset_close};
}

}   // namespace forebay::hdf5
