#include "server/last_writers.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>

#include "area/staging_area.h"
#include "base/attempt.h"

namespace forebay::server {

Status LastWriters::may_continue(const wire::Open& request) {
    const auto area = area::open_staging_area(options_);
    if (!area) return {Code::kUnavailable, area.status().message()};
    const std::lock_guard lock(mutex_);
    const auto last = area::last_writer(*area.value().directory, request.identity);
    if (!last) return {Code::kUnavailable, last.status().message()};
    if (last.value() == request.writer) return Status::ok();
    if (last.value() != 0)
        return {Code::kUnsupported,
                fmt::format("{}: another program has opened it for writing at this server since", request.path),
                ESTALE};
    return {Code::kUnsupported,
            fmt::format("{}: the staging area of this server, {}, has no note that this program wrote it last, so what "
                        "it has flushed may be elsewhere",
                        request.path, area.value().root)};
}

Status LastWriters::opens(const wire::Open& request) {
    const auto area = area::open_staging_area(options_);
    if (!area) return {Code::kUnavailable, area.status().message()};
    io::Directory& directory = *area.value().directory;
    const std::lock_guard lock(mutex_);
    FOREBAY_TRY(take_earlier(directory));
    std::erase_if(kept_, [&](const area::NotedWriter& kept) { return kept.file == request.identity; });
    if (request.continues) return Status::ok();   // its note stays
    return area::note_writer(directory, request.identity, request.writer,
                             options_.options.durability == Durability::kNode);
}

void LastWriters::ended(const io::Identity& file, std::uint64_t writer) noexcept {
    (void)attempt([&]() -> Status {
        const std::lock_guard lock(mutex_);
        kept_.push_back({file, writer});
        if (kept_.size() <= kept_max_) return Status::ok();
        const auto area = area::open_staging_area(options_);
        if (!area) return area.status();
        forget_oldest(*area.value().directory);
        return Status::ok();
    });
}

Status LastWriters::take_earlier(io::Directory& area) {
    if (earlier_taken_) return Status::ok();
    const auto noted = area::noted_writers(area);
    if (!noted) return noted.status();
    kept_.insert(kept_.begin(), noted.value().begin(), noted.value().end());
    earlier_taken_ = true;
    forget_oldest(area);
    return Status::ok();
}

// A client whose note is removed may not continue, and says so.
void LastWriters::forget_oldest(io::Directory& area) {
    for (; kept_.size() > kept_max_; kept_.pop_front())
        (void)area::forget_writer(area, kept_.front().file, kept_.front().writer);
}

}   // namespace forebay::server
