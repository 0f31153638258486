// The functions of forebay/forebay.h: what a program asks forebay for, beside HDF5.
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
#include "hdf5/host/copies.h"
#include "hdf5/session.h"

namespace forebay::hdf5 {

namespace {

// Nothing: `problem` says why, as an error number.
std::shared_ptr<cache::CachedFile> find_cached(const char* path, int& problem) {
    struct stat seen{};
    if (path == nullptr || ::stat(path, &seen) != 0) {
        problem = path == nullptr ? EINVAL : errno;
        return nullptr;
    }
    const auto engine = Session::get().engine();
    const io::Identity identity{seen.st_dev, seen.st_ino};
    std::shared_ptr<cache::CachedFile> file = engine == nullptr ? nullptr : engine->cached(identity);
    problem = 0;
    if (file == nullptr)
        problem = engine == nullptr || engine->find(identity.device, identity.inode) == nullptr ? ENOENT : ENOTSUP;
    return file;
}

int error_number(const Status& outcome) {
    if (outcome) return 0;
    return outcome.code() == Code::kNoSpace || outcome.code() == Code::kUnavailable ? EAGAIN : EIO;
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
        ranges.push_back({std::min(offsets[i], kOffsetMax),
                          offsets[i] + std::min(lengths[i], kOffsetMax - offsets[i])});
    return error_number(file->prefetch(ranges));
}

// What the first of the other copies says that knows the file; `unknown`: none does.
template <class Function, class Answer, class Ask>
Answer ask_copies(const char* name, Answer unknown, Ask&& ask) {
    for (void* const copy : loaded_copies()) {
        auto* const call = reinterpret_cast<Function*>(::dlsym(copy, name));
        const Answer answer = call != nullptr ? ask(call) : unknown;
        if (answer != unknown) return answer;
    }
    return unknown;
}

}   // namespace

}   // namespace forebay::hdf5

#define FOREBAY_EXPORT extern "C" __attribute__((visibility("default")))

FOREBAY_EXPORT int forebay_prefetch(const char* path, std::uint64_t count, const std::uint64_t* offsets,
                                    const std::uint64_t* lengths) {
    int outcome = ENOMEM;
    (void)forebay::attempt([&] {
        outcome = forebay::hdf5::prefetch(path, count, offsets, lengths);
        if (outcome == ENOENT)
            outcome = forebay::hdf5::ask_copies<decltype(forebay_prefetch)>(
                "forebay_prefetch", ENOENT, [&](auto* call) { return call(path, count, offsets, lengths); });
    });
    return outcome;
}

FOREBAY_EXPORT std::int64_t forebay_prefetch_left(const char* path) {
    std::int64_t left = -1;
    (void)forebay::attempt([&] {
        int problem = 0;
        const auto file = forebay::hdf5::find_cached(path, problem);
        if (file != nullptr) left = static_cast<std::int64_t>(file->prefetch_left());
        else
            left = forebay::hdf5::ask_copies<decltype(forebay_prefetch_left)>("forebay_prefetch_left", std::int64_t{-1},
                                                                              [&](auto* call) { return call(path); });
    });
    return left;
}

FOREBAY_EXPORT int forebay_prefetch_cancel(const char* path) {
    int problem = ENOMEM;
    (void)forebay::attempt([&] {
        if (const auto file = forebay::hdf5::find_cached(path, problem)) file->cancel_prefetch();
        else if (problem == ENOENT)
            problem = forebay::hdf5::ask_copies<decltype(forebay_prefetch_cancel)>(
                "forebay_prefetch_cancel", ENOENT, [&](auto* call) { return call(path); });
    });
    return problem;
}

FOREBAY_EXPORT std::int64_t forebay_statistics(char* into, std::uint64_t size) {
    std::int64_t length = -1;
    (void)forebay::attempt([&] {
        const auto engine = forebay::hdf5::Session::get().engine();
        const std::string line = engine == nullptr ? std::string() : engine->statistics();
        if (size > 0) {
            const std::size_t copied = std::min<std::size_t>(line.size(), size - 1);
            std::memcpy(into, line.data(), copied);
            into[copied] = '\0';
        }
        length = static_cast<std::int64_t>(line.size());
    });
    return length;
}
