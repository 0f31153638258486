#include "hdf5/connector/file_operations.h"

#include <fmt/format.h>
#include <forebay/operations.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cache/attached_replica.h"
#include "hdf5/connector/addresses.h"
#include "hdf5/connector/dataset_places.h"
#include "hdf5/identity.h"
#include "hdf5/other_driver_files.h"
#include "hdf5/session.h"
#include "hdf5/telling.h"
#include "stage/async_requests.h"

namespace forebay::hdf5 {

namespace {

// Ends the message with the errno, which libforebay.a looks for.
herr_t refuse(const char* function, const Status& why) {
    const Status numbered(why.code(), why.message(), error_number(why));
    push_error(function, host().H5E_FILE_g, host().H5E_CANTOPERATE_g, numbered);
    return -1;
}

herr_t told(const char* function, const Status& outcome) { return outcome ? 0 : refuse(function, outcome); }

Status missing_argument() { return {Code::kInvalidArgument, "the operation lacks an argument"}; }

stage::StagedFile* staged_of(const OpenFile& file) { return file.file != nullptr ? &file.file->staged() : nullptr; }

Status await_drained(const OpenFile& file) { return file.file != nullptr ? file.file->await_drained() : Status::ok(); }

void end_requests(const OpenFile* file) noexcept {
    if (file != nullptr && file->file != nullptr) file->file->engine().async_requests().await(&file->file->staged());
}

std::shared_ptr<cache::CachedFile> cached_of(const OpenFile& file) {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    return engine != nullptr ? engine->files().cached(file.identity) : nullptr;
}

// The result also keeps the cached file.
Result<std::shared_ptr<cache::AttachedReplica>> replica_of(const OpenFile* file) {
    if (file == nullptr) return Status(Code::kUnsupported, "the file is not opened through forebay's driver");
    const auto cached = cached_of(*file);
    cache::AttachedReplica* const attached = cached != nullptr ? cached->attach() : nullptr;
    if (attached == nullptr) return Status(Code::kUnsupported, file->path + " is not read through the read cache");
    return std::shared_ptr<cache::AttachedReplica>(cached, attached);
}

// Starts staging a file that was opened without. If that fails, the error names the setting to use.
herr_t create_cache(const char* function, const OpenFile* file, const CreateArguments* asked) {
    if (asked == nullptr) return refuse(function, missing_argument());
    const auto cannot = [&](std::string_view what) {
        return refuse(function,
                      {Code::kUnsupported, fmt::format("start caching {}, which is open: {}",
                                                       file != nullptr ? file->path : std::string("a file"), what)});
    };
    if (file == nullptr)
        return cannot(
            "it was opened natively; to cache files from their open, set HDF5_CACHE_WR=yes and HDF5_CACHE_RD=yes, "
            "or call H5Pset_fapl_cache, before the open");
    if (!file->writable)
        return replica_of(file)
                   ? 0
                   : cannot("it is open for reading without the cache; to cache it, set HDF5_CACHE_RD=yes, or "
                            "call H5Pset_fapl_cache, before the open");
    if (asked->purpose == CreateArguments::kRead) return 0;   // a written file is read from the log anyway
    stage::StagedFile* const staged = staged_of(*file);
    if (staged != nullptr && staged->staged()) return 0;
    if (file->shared != nullptr)
        return cannot(
            "several ranks have it open, and staging is decided at the open. Set HDF5_CACHE_WR=yes, or call "
            "H5Pset_fapl_cache, before that. If you did, it has stepped aside since, and the statistics say why");
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if (OtherDriverFiles::get().contains(file->identity))
        return cannot("another of HDF5's drivers has it open as well, and would not see staged bytes");
    if (staged != nullptr && file->shared == nullptr && engine != nullptr && !engine->area().obstacle()) {
        const auto begun = staged->lifecycle().begin_staging();
        if (!begun) return refuse(function, begun.status());
        if (begun.value()) return 0;
    }
    return cannot("it has stepped aside, or the staging area is unusable; the statistics say why");
}

herr_t remove_cache(const char* function, OpenFile* file) {
    if (file == nullptr) return 0;
    if (file->writable && staged_of(*file) != nullptr)
        return told(function, file->file->step_aside(ledger::AsideReason::kDisabled));
    const auto cached = cached_of(*file);
    const cache::AttachedReplica* const attached = cached != nullptr ? cached->attached() : nullptr;
    return attached != nullptr ? told(function, cache::evict_units(attached->replica()).status()) : 0;
}

herr_t wait_durable(const char* function, const OpenFile* file) {
    if (file == nullptr) return refuse(function, replica_of(file).status());
    if (!file->writable) return 0;
    if (const Status drained = await_drained(*file); !drained) return refuse(function, drained);
    stage::StagedFile* const staged = staged_of(*file);
    return staged != nullptr ? told(function, staged->sync_drained()) : 0;
}

// A program that asks the cache of an uncached file wonders why nothing changes.
void hint_at_missing_cache() {
    const std::shared_ptr<stage::Engine> engine = Session::get().engine();
    if (engine == nullptr) return;
    const std::string how = identity().names_configuration ? "HDF5_CACHE_RD=yes" : "option read_cache=on";
    tell(engine->options().options,
         "the program asks the cache for data of a file without a cache, so forebay keeps nothing: " + how +
             " caches files that are opened for reading, unless they are on a local disk",
         Audience::kJob);
}

herr_t prefetch_places(const char* function, const Result<std::shared_ptr<cache::AttachedReplica>>& attached,
                       const std::optional<std::vector<ByteRange>>& places, bool advice) {
    if (!places) return -1;
    if (!attached) {
        if (!advice) return refuse(function, attached.status());
        hint_at_missing_cache();
        return 0;
    }
    const Status asked = places->empty() ? Status::ok() : attached.value()->prefetcher().prefetch(*places);
    return advice ? 0 : told(function, asked);
}

herr_t prefetch_ranges(const char* function, const OpenFile* file, const forebay_ranges* asked) {
    if (asked == nullptr || (asked->count > 0 && (asked->offsets == nullptr || asked->lengths == nullptr)))
        return refuse(function, missing_argument());
    std::vector<ByteRange> ranges;
    if (asked->count == 0) ranges.push_back({0, kOffsetMax});
    ranges.reserve(asked->count);
    for (std::uint64_t i = 0; i < asked->count; ++i)
        ranges.push_back({asked->offsets[i],
                          asked->offsets[i] + std::min(asked->lengths[i], kOffsetMax - asked->offsets[i])});
    return prefetch_places(function, replica_of(file), std::move(ranges), false);
}

herr_t answer(const char* function, const void* arguments, std::uint64_t bytes) {
    const auto* const into = static_cast<const forebay_bytes*>(arguments);
    if (into == nullptr || into->bytes == nullptr) return refuse(function, missing_argument());
    *into->bytes = bytes;
    return 0;
}

herr_t evict(const char* function, const OpenFile* file, const void* arguments) {
    const auto attached = replica_of(file);
    if (!attached) return refuse(function, attached.status());
    const auto evicted = cache::evict_units(attached.value()->replica());
    return evicted ? answer(function, arguments, evicted.value().bytes) : refuse(function, evicted.status());
}

herr_t query(const char* function, const OpenFile* file, const void* arguments) {
    std::uint64_t bytes = 0;
    if (file != nullptr) {
        if (stage::StagedFile* const staged = staged_of(*file)) bytes += staged->counters().pending;
        if (const auto cached = cached_of(*file)) bytes += cached->counters().stored_bytes.load();
    }
    return answer(function, arguments, bytes);
}

herr_t statistics(const char* function, const OpenFile* file, const forebay_text* asked) {
    if (asked == nullptr || asked->length == nullptr || (asked->into == nullptr && asked->size > 0))
        return refuse(function, missing_argument());
    if (file == nullptr) return refuse(function, replica_of(file).status());
    std::string text = "{}";
    if (stage::StagedFile* const staged = staged_of(*file)) text = ledger::to_json(staged->counters());
    if (const auto cached = cached_of(*file)) {
        const cache::CacheCounters& counted = cached->counters();
        text.pop_back();
        text += fmt::format(R"({}"cache":{{"hit_bytes":{},"missed_bytes":{},"fetched_bytes":{},"stored_bytes":{}}}}})",
                            text.size() > 1 ? "," : "", counted.hit_bytes.load(), counted.missed_bytes.load(),
                            counted.fetched_bytes.load(), counted.stored_bytes.load());
    }
    *asked->length = text.size();
    if (asked->size > 0) {
        const std::size_t copied = std::min<std::size_t>(text.size(), asked->size - 1);
        std::memcpy(asked->into, text.data(), copied);
        asked->into[copied] = '\0';
    }
    return 0;
}

}   // namespace

herr_t carry_out(const char* function, Operation operation, OpenFile* file, const void* arguments) {
    stage::StagedFile* const staged = file != nullptr ? staged_of(*file) : nullptr;
    switch (operation) {
        case Operation::kPauseDrain:
            if (staged != nullptr) staged->log().pause_drain();
            return 0;
        case Operation::kResumeDrain:
            if (staged != nullptr) staged->log().resume_drain();
            return 0;
        case Operation::kCloseAtOnce:
            if (file != nullptr) file->closes_at_once = true;
            return 0;
        case Operation::kWait: end_requests(file); return file != nullptr ? told(function, await_drained(*file)) : 0;
        case Operation::kEndRequests: end_requests(file); return 0;
        case Operation::kWaitDurable: return wait_durable(function, file);
        case Operation::kCacheRemove: return remove_cache(function, file);
        case Operation::kCacheCreate:
            return create_cache(function, file, static_cast<const CreateArguments*>(arguments));
        case Operation::kQuery: return query(function, file, arguments);
        case Operation::kPrefetchRanges:
            return prefetch_ranges(function, file, static_cast<const forebay_ranges*>(arguments));
        case Operation::kEvict: return evict(function, file, arguments);
        case Operation::kStatistics: return statistics(function, file, static_cast<const forebay_text*>(arguments));
        case Operation::kPrefetchLeft:
        case Operation::kPrefetchCancel:
        case Operation::kPin: break;
        default: return 0;
    }
    const auto attached = replica_of(file);
    if (!attached) return refuse(function, attached.status());
    cache::Prefetcher& prefetcher = attached.value()->prefetcher();
    if (operation == Operation::kPrefetchLeft) return answer(function, arguments, prefetcher.left());
    if (operation == Operation::kPrefetchCancel) prefetcher.cancel();
    if (operation == Operation::kPin) {
        if (arguments == nullptr) return refuse(function, missing_argument());
        attached.value()->replica()->use().set_pinned(static_cast<const forebay_switch*>(arguments)->on != 0);
    }
    return 0;
}

void hint_if_not_cached(const Object& dataset) {
    const std::shared_ptr<OpenFile>& file = dataset.origin->file;   // asking HDF5 for the dataset's own file costs time
    if (file == nullptr || (!file->writable && cached_of(*file) == nullptr)) hint_at_missing_cache();
}

herr_t carry_out(const char* function, Operation operation, const Object& dataset, const void* arguments) {
    switch (operation) {
        // A dataset's cache is a part of its file's, which others may use.
        case Operation::kCacheCreate:
        case Operation::kCacheRemove: return 0;
        case Operation::kPrefetch:
        case Operation::kPrefetchDataset:
        case Operation::kFollow: break;
        default: return carry_out(function, operation, home_of(dataset).get(), arguments);
    }
    if (arguments == nullptr) return refuse(function, missing_argument());
    const auto attached = replica_of(home_of(dataset).get());
    if (operation == Operation::kFollow) {
        const auto* const asked = static_cast<const forebay_rows*>(arguments);
        if (asked->count > 0 && asked->rows == nullptr) return refuse(function, missing_argument());
        return prefetch_places(function, attached,
                               places_of_rows(function, dataset, {asked->rows, asked->count}, attached.is_ok()), false);
    }
    const hid_t file_space = static_cast<const PrefetchArguments*>(arguments)->file_space;
    return prefetch_places(function, attached, places_of(function, dataset, file_space, attached.is_ok()),
                           operation == Operation::kPrefetch);
}

}   // namespace forebay::hdf5
