#include "hdf5/connector/file_operations.h"

#include <memory>

#include "hdf5/connector/addresses.h"
#include "hdf5/connector/dataset_places.h"
#include "hdf5/session.h"
#include "hdf5/warning.h"

namespace forebay::hdf5 {

namespace {

herr_t told(const char* function, const Status& outcome) {
    if (!outcome) push_error(function, host().H5E_FILE_g, host().H5E_CANTOPERATE_g, outcome);
    return outcome ? 0 : -1;
}

stage::StagedFile* staged_of(OpenFile& file) {
    return file.shared != nullptr ? &file.shared->staged() : file.staged.get();
}

Status await_drained(OpenFile& file) {
    if (file.shared == nullptr) return file.staged != nullptr ? file.staged->drain_ready() : Status::ok();
    return file.shared->on_several_nodes() ? file.shared->await_drained() : file.shared->staged().drain_present();
}

std::shared_ptr<cache::CachedFile> cached_of(const OpenFile& file) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    return engine != nullptr ? engine->cached(file.identity) : nullptr;
}

// Bytes of the selection that are not in the cache are fetched in the background. What cannot be noted is left to the
// program's own reads.
herr_t prefetch(const char* function, const Object& dataset, hid_t file_space) {
    const std::shared_ptr<OpenFile> file = home_of(dataset);
    const std::shared_ptr<cache::CachedFile> cached = file != nullptr ? cached_of(*file) : nullptr;
    const auto places = places_of(function, dataset, file_space, cached != nullptr);
    if (!places) return -1;
    if (cached != nullptr && !places->empty()) (void)cached->prefetch(*places);
    return 0;
}

herr_t query(const char* function, OpenFile* file, const QueryArguments* arguments) {
    if (arguments == nullptr || arguments->size == nullptr) {
        push_error(function, host().H5E_ARGS_g, host().H5E_BADVALUE_g, "no place for the size");
        return -1;
    }
    *arguments->size = 0;
    if (file == nullptr) return 0;
    if (stage::StagedFile* const staged = staged_of(*file)) *arguments->size += staged->counters().pending;
    if (const auto cached = cached_of(*file)) *arguments->size += cached->counters().stored_bytes.load();
    return 0;
}

}   // namespace

herr_t carry_out(const char* function, Operation operation, OpenFile* file, const void* arguments) {
    stage::StagedFile* const staged = file != nullptr ? staged_of(*file) : nullptr;
    switch (operation) {
        case Operation::kPause:
            if (staged != nullptr) staged->hold_back();
            return 0;
        case Operation::kStart:
            if (staged != nullptr) staged->let_go();
            return 0;
        case Operation::kWait: return file != nullptr ? told(function, await_drained(*file)) : 0;
        case Operation::kCacheRemove:
            return staged != nullptr && file->writable
                       ? told(function, file->step_aside(ledger::AsideReason::kDisabled))
                       : 0;
        case Operation::kCacheCreate:
            if (file != nullptr && file->writable && (staged == nullptr || !staged->staged()))
                warn_once("a cache is asked for while the file is open, which then was opened without; it is written "
                          "as it is. HDF5_CACHE_WR=yes, or the file access list, has files staged");
            return 0;
        case Operation::kQuery: return query(function, file, static_cast<const QueryArguments*>(arguments));
        case Operation::kNothing:
        case Operation::kPrefetch:
        case Operation::kRead: return 0;
    }
    return 0;
}

herr_t carry_out(const char* function, Operation operation, const Object& dataset, const void* arguments) {
    switch (operation) {
        case Operation::kPrefetch:
            if (arguments != nullptr)
                return prefetch(function, dataset, static_cast<const PrefetchArguments*>(arguments)->file_space);
            push_error(function, host().H5E_ARGS_g, host().H5E_BADVALUE_g, "the operation has no arguments");
            return -1;
        // What a dataset caches is a part of its file's, which others may use.
        case Operation::kCacheCreate:
        case Operation::kCacheRemove:
        case Operation::kNothing: return 0;
        default: return carry_out(function, operation, home_of(dataset).get(), arguments);
    }
}

}   // namespace forebay::hdf5
