#include <dlfcn.h>
#include <forebay/forebay.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/attempt.h"
#include "cache/attached_replica.h"
#include "cache/small_copy.h"
#include "hdf5/host/copies.h"
#include "hdf5/host/guard.h"
#include "hdf5/pause.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

// A file that was opened by a lease has another key in the table.
std::shared_ptr<cache::CachedFile> find_leased(stage::FileTable& files, const io::Identity& identity) {
    for (const auto& open : files.all()) {
        if (!cache::is_of_lease(open->identity())) continue;
        auto cached = files.cached(open->identity());
        if (cached == nullptr) continue;
        if (const auto own = cached->identity(); own && own.value() == identity) return cached;
    }
    return nullptr;
}

std::shared_ptr<cache::CachedFile> find_cached(const char* path, int& problem) {
    struct stat seen{};
    if (path == nullptr || ::stat(path, &seen) != 0) {
        problem = path == nullptr ? EINVAL : errno;
        return nullptr;
    }
    const auto engine = Session::get().engine();
    const io::Identity identity{seen.st_dev, seen.st_ino};
    problem = ENOENT;
    if (engine == nullptr) return nullptr;
    std::shared_ptr<cache::CachedFile> file = engine->files().cached(identity);
    const bool open = file != nullptr || engine->files().find(identity) != nullptr;
    if (!open) file = find_leased(engine->files(), identity);
    if (file != nullptr) problem = 0;
    else if (open) problem = ENOTSUP;
    return file;
}

int prefetch(const char* path, std::uint64_t count, const std::uint64_t* offsets, const std::uint64_t* lengths) {
    if (count > 0 && (offsets == nullptr || lengths == nullptr)) return EINVAL;
    int problem = 0;
    const auto file = find_cached(path, problem);
    if (file == nullptr) return problem;
    std::vector<ByteRange> ranges;
    ranges.reserve(std::max<std::uint64_t>(count, 1));
    if (count == 0) ranges.push_back({0, kOffsetMax});
    for (std::uint64_t i = 0; i < count; ++i)
        ranges.push_back({offsets[i], offsets[i] + std::min(lengths[i], kOffsetMax - offsets[i])});
    cache::AttachedReplica* const attached = file->attach();
    return attached != nullptr ? error_number(attached->prefetcher().prefetch(ranges)) : ENOTSUP;
}

// Calls the other copies until one knows the file. Returns an error number.
template <class Function, class Ask>
int ask_copies(const char* name, Ask&& ask) {
    for (void* const copy : loaded_copies()) {
        auto* const call = reinterpret_cast<Function*>(::dlsym(copy, name));
        if (call == nullptr) continue;
        if (ask(call) == 0) return 0;
        if (errno != ENOENT) return errno;
    }
    return ENOENT;
}

// Sets errno and returns 0 or -1, like all functions of forebay.h. `act` returns an error number.
template <class Act>
int outcome_of(Act&& act) noexcept {
    int number = 0;
    if (const Status acted = attempt([&] { number = act(); }); !acted) number = error_number(acted);
    if (number == 0) return 0;
    errno = number;
    return -1;
}

}   // namespace

}   // namespace forebay::hdf5

#define FOREBAY_EXPORT extern "C" __attribute__((visibility("default")))

FOREBAY_EXPORT int forebay_version(unsigned* major, unsigned* minor, unsigned* patch) {
    return forebay::hdf5::outcome_of([&] {
        if (major == nullptr || minor == nullptr || patch == nullptr) return EINVAL;
        *major = FOREBAY_VERSION_MAJOR;
        *minor = FOREBAY_VERSION_MINOR;
        *patch = FOREBAY_VERSION_PATCH;
        return 0;
    });
}

FOREBAY_EXPORT int forebay_pause(void) {
    return forebay::hdf5::outcome_of([] {
        forebay::hdf5::pause();
        return 0;
    });
}

FOREBAY_EXPORT int forebay_resume(void) {
    return forebay::hdf5::outcome_of([] { return forebay::hdf5::resume() ? 0 : EINVAL; });
}

FOREBAY_EXPORT int forebay_path_prefetch(const char* path, std::uint64_t count, const std::uint64_t* offsets,
                                         const std::uint64_t* lengths) {
    return forebay::hdf5::outcome_of([&] {
        const int problem = forebay::hdf5::prefetch(path, count, offsets, lengths);
        if (problem != ENOENT) return problem;
        return forebay::hdf5::ask_copies<decltype(forebay_path_prefetch)>("forebay_path_prefetch", [&](auto* call) {
            return call(path, count, offsets, lengths);
        });
    });
}

FOREBAY_EXPORT int forebay_path_prefetch_left(const char* path, std::uint64_t* bytes) {
    return forebay::hdf5::outcome_of([&] {
        if (bytes == nullptr) return EINVAL;
        int problem = 0;
        if (const auto file = forebay::hdf5::find_cached(path, problem))
            *bytes = file->attached() != nullptr ? file->attached()->prefetcher().left() : 0;
        if (problem != ENOENT) return problem;
        return forebay::hdf5::ask_copies<decltype(forebay_path_prefetch_left)>(
            "forebay_path_prefetch_left", [&](auto* call) { return call(path, bytes); });
    });
}

FOREBAY_EXPORT int forebay_path_prefetch_cancel(const char* path) {
    return forebay::hdf5::outcome_of([&] {
        int problem = 0;
        if (const auto file = forebay::hdf5::find_cached(path, problem); file != nullptr && file->attached() != nullptr)
            file->attached()->prefetcher().cancel();
        if (problem != ENOENT) return problem;
        return forebay::hdf5::ask_copies<decltype(forebay_path_prefetch_cancel)>(
            "forebay_path_prefetch_cancel", [&](auto* call) { return call(path); });
    });
}

FOREBAY_EXPORT int forebay_statistics(char* into, std::uint64_t size, std::uint64_t* length) {
    return forebay::hdf5::outcome_of([&] {
        if (into == nullptr && size > 0) return EINVAL;
        const auto engine = forebay::hdf5::Session::get().engine();
        const std::string line = engine == nullptr ? std::string() : engine->statistics();
        if (size > 0) {
            const std::size_t copied = std::min<std::size_t>(line.size(), size - 1);
            std::memcpy(into, line.data(), copied);
            into[copied] = '\0';
        }
        if (length != nullptr) *length = line.size();
        return 0;
    });
}
