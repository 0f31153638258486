#include "server/cached_files.h"

#include <fmt/format.h>

#include <chrono>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "area/staging_area.h"
#include "cache/attached_replica.h"
#include "io/open_existing.h"
#include "io/posix_file.h"

namespace forebay::server {

namespace {

constexpr std::chrono::seconds kEnding{10};

LoadedOptions with_read_cache(LoadedOptions loaded) {
    loaded.options.read_cache = ReadCacheMode::kOn;
    loaded.options.prefetch = Prefetch::kOff;
    return loaded;
}

bool is_same_file(const wire::Open& request, const io::Identity& here, const io::FileState& state, bool from_afar) {
    if (!from_afar) return here == request.identity;
    const bool births = request.seen.born_ns != 0 && state.born_ns != 0;
    return here.inode == request.identity.inode && (!births || state.born_ns == request.seen.born_ns);
}

bool is_same_version(const wire::Open::Seen& seen, const io::FileState& state) {
    return seen.size == state.size && seen.modified_ns == state.modified_ns && seen.changed_ns == state.changed_ns;
}

}   // namespace

struct CachedFiles::Cache {
    explicit Cache(LoadedOptions loaded) : options(with_read_cache(std::move(loaded))) {}
    const LoadedOptions options;
    cache::ReadCache files{options.options,
                           [this]() -> Result<std::unique_ptr<io::Directory>> {
                               auto area = area::open_staging_area(options);
                               if (!area) return area.status();
                               return std::move(area.value().directory);
                           },
                           {.for_others = true}};
};

CachedFiles::CachedFiles(LoadedOptions options) : cache_(std::make_unique<Cache>(std::move(options))) {}

CachedFiles::~CachedFiles() {
    close(std::move(open_));
    // A thread that hangs in its file system still uses the cache, so it is not freed.
    if (!cache_->files.stop(std::chrono::steady_clock::now() + kEnding)) (void)cache_.release();
}

std::unique_ptr<CachedFiles::Reader> CachedFiles::admit() {
    {
        const std::lock_guard lock(mutex_);
        if (readers_ == kReadersMax) return nullptr;
        ++readers_;
    }
    std::unique_ptr<Reader> reader(new (std::nothrow) Reader(*this));   // its destructor decrements the count
    if (reader == nullptr) leave();
    return reader;
}

// Only `find` gives a file to a second session, under the lock. So a file with one reference has no session.
void CachedFiles::leave() noexcept {
    std::list<std::shared_ptr<cache::CachedFile>> ended;
    {
        const std::lock_guard lock(mutex_);
        --readers_;
        for (auto one = open_.begin(); one != open_.end();) {
            const auto next = std::next(one);
            if (one->use_count() == 1) ended.splice(ended.end(), open_, one);
            one = next;
        }
    }
    close(std::move(ended));
}

Result<std::shared_ptr<cache::CachedFile>> CachedFiles::open(const wire::Open& request, bool from_afar) {
    const auto opened = io::open_existing(request.path, io::Access::kRead);
    if (!opened) return Status(Code::kUnsupported, opened.status().message(), opened.status().sys_errno());
    std::shared_ptr<io::File> source = io::make_posix_file(opened.value().descriptor, request.path);
    const auto state = source->state(io::File::Ask::kOfServer);
    if (!state) return state.status();
    const io::Identity& here = opened.value().identity;
    const bool local = from_afar && source->traits().local;
    if (local || !is_same_file(request, here, state.value(), from_afar))
        return Status(Code::kUnsupported, fmt::format("{}: the server finds another file there", request.path));
    if (!is_same_version(request.seen, state.value()))
        return Status(Code::kUnavailable,
                      fmt::format("{}: size or times differ from those that the client sees", request.path));
    const cache::Version version = cache::version_of(here, state.value());
    if (auto known = find(version)) return known;
    std::string warning;
    auto file = cache_->files.open(source, warning);
    if (file == nullptr || file->attached() == nullptr)
        return Status(Code::kUnsupported, fmt::format("{}: this server does not read it through its cache{}{}",
                                                      request.path, warning.empty() ? "" : ": ", warning));
    if (file->attached()->replica()->source() != version)
        return Status(Code::kUnavailable, fmt::format("{}: it changed during the open", request.path));
    keep(file);
    return file;
}

Status CachedFiles::read(cache::CachedFile& file, std::uint64_t offset, io::MutableBytes into) {
    const auto got = file.attached()->reader().read_version(offset, into);
    if (!got) return got.status();
    if (got.value() < into.size())
        return {Code::kUnavailable, fmt::format("{}: it ends before the requested bytes", file.name())};
    return Status::ok();
}

// The last returned buffer may still be in the processor's cache.
wire::Payload CachedFiles::take_buffer() {
    const std::lock_guard lock(mutex_);
    return buffers_kept_ > 0 ? std::move(buffers_[--buffers_kept_]) : wire::Payload();
}

void CachedFiles::give_back(wire::Payload&& buffer) noexcept {
    const std::lock_guard lock(mutex_);
    if (buffers_kept_ < kBuffersKept) buffers_[buffers_kept_++] = std::move(buffer);
}

std::shared_ptr<cache::CachedFile> CachedFiles::find(const cache::Version& version) {
    const std::lock_guard lock(mutex_);
    for (auto file = open_.begin(); file != open_.end(); ++file) {
        const cache::Replica& replica = *(*file)->attached()->replica();
        if (replica.source() != version || replica.unusable()) continue;
        open_.splice(open_.begin(), open_, file);
        return *file;
    }
    return nullptr;
}

// Files of another version leave the list at once; their current readers keep them.
void CachedFiles::keep(const std::shared_ptr<cache::CachedFile>& file) {
    std::list<std::shared_ptr<cache::CachedFile>> ended;
    {
        const std::lock_guard lock(mutex_);
        for (auto one = open_.begin(); one != open_.end();) {
            const auto next = std::next(one);
            if ((*one)->attached()->replica()->unusable()) ended.splice(ended.end(), open_, one);
            one = next;
        }
        open_.push_front(file);
        if (open_.size() > kIdleMax) ended.splice(ended.end(), open_, std::prev(open_.end()));
    }
    close(std::move(ended));
}

void CachedFiles::close(std::list<std::shared_ptr<cache::CachedFile>>&& files) noexcept {
    for (const auto& file : files) cache_->files.note_closed(*file);
    files.clear();
}

cache::CacheTotals CachedFiles::totals() {
    const std::lock_guard lock(mutex_);
    const std::vector<std::shared_ptr<cache::CachedFile>> open(open_.begin(), open_.end());
    return cache_->files.totals(open);
}

}   // namespace forebay::server
