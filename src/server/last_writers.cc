#include "server/last_writers.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "area/staging_area.h"
#include "base/attempt.h"

namespace forebay::server {

Status LastWriters::may_continue(const wire::Open& request) {
    const auto area = area::enter_staging_area(options_);
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
    const auto area = area::enter_staging_area(options_);
    if (!area) return {Code::kUnavailable, area.status().message()};
    io::Directory& directory = *area.value().directory;
    const std::lock_guard lock(mutex_);
    FOREBAY_TRY(take_earlier(directory));
    const auto is_its = [&](const area::NotedWriter& kept) { return kept.file == request.identity; };
    std::erase_if(kept_, is_its);
    std::erase_if(earlier_, is_its);
    if (request.continues) return Status::ok();   // its note stays
    return area::note_writer(directory, request.identity, request.writer,
                             options_.options.durability == Durability::kNode);
}

Status LastWriters::leaves(const wire::Open& request) {
    const Status noted = opens(request);
    if (noted) return noted;
    const auto area = area::enter_staging_area(options_);
    if (!area) return {Code::kUnavailable, area.status().message()};
    const std::lock_guard lock(mutex_);
    return area::forget_any_writer(*area.value().directory, request.identity) ? Status::ok() : noted;
}

// A client whose note is removed may not continue, and says so.
void LastWriters::ended(const io::Identity& file, std::uint64_t writer) noexcept {
    (void)attempt([&]() -> Status {
        const std::lock_guard lock(mutex_);
        kept_.push_back({file, writer});
        age_earlier();
        if (kept_.size() <= kept_max_) return Status::ok();
        const auto area = area::enter_staging_area(options_);
        if (!area) return area.status();
        for (; kept_.size() > kept_max_; kept_.pop_front())
            (void)area::forget_writer(*area.value().directory, kept_.front().file, kept_.front().writer);
        return Status::ok();
    });
}

Status LastWriters::take_earlier(io::Directory& area) {
    if (began_ns_ != 0) return Status::ok();
    auto noted = area::noted_writers(area);
    if (!noted) return noted.status();
    earlier_ = std::move(noted).value();
    began_ns_ = clock_.now_ns();
    return Status::ok();
}

// After the time in option patience no client waits for this server any more.
void LastWriters::age_earlier() {
    const std::uint64_t patience_s = options_.options.patience;
    if (earlier_.empty() || patience_s == 0 || clock_.now_ns() - began_ns_ < patience_s * 1'000'000'000) return;
    kept_.insert(kept_.begin(), earlier_.begin(), earlier_.end());
    earlier_.clear();
}

}   // namespace forebay::server
