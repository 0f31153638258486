#include "recover/leftovers.h"

#include <algorithm>
#include <string_view>

#include "base/clock.h"
#include "log/process.h"
#include "log/undo_format.h"
#include "recover/trust.h"

namespace forebay::recover {

namespace {

// A change within the same tick of the file system's clock as a listing might not show. Far more than a tick.
constexpr std::uint64_t kTickNs = 50'000'000;

}   // namespace

void Leftovers::note_dead(const std::string& name) {
    std::map<io::Identity, std::string> files;
    dead_[name] = {};
    if (!check_trusted(*area_, name, io::Facts::Kind::kDirectory)) return;   // `forebay recover` tells of it
    const auto directory = area_->open_directory(name);
    if (!directory) return;
    if (const auto pool = open_trusted(*directory.value(), "log", io::OpenMode::kRead)) {
        // What cannot be read is left for `forebay recover` to complain about.
        if (const auto targets = log::scan_targets(*pool.value()))
            for (const log::OpenPayload& target : targets.value()) files[{target.device, target.inode}] = target.path;
    }
    if (const auto names = directory.value()->list())
        for (const std::string& each : names.value()) {
            if (!each.starts_with(log::kUndoPrefix)) continue;
            const auto journal = open_trusted(*directory.value(), each, io::OpenMode::kRead);
            if (!journal) continue;
            if (const auto header = log::read_undo_header(*journal.value())) files[{header.value().device, header.value().inode}] = header.value().path;
        }
    dead_[name] = std::move(files);
}

void Leftovers::look() {
    if (area_ == nullptr) {
        auto area = find_area_();
        if (!area || area.value() == nullptr || !check_trusted(*area.value(), ".", io::Facts::Kind::kDirectory)) return;
        area_ = std::move(area).value();
    }
    const auto facts = area_->facts(".");
    const bool unchanged = facts && seen_change_ns_ != 0 && facts.value().modified_ns == seen_change_ns_;
    if (!unchanged) {
        const std::uint64_t now = realtime_ns();
        const auto names = area_->list();
        if (!facts || !names) return;
        ++listings_;
        // Just changed: it may change again without showing.
        seen_change_ns_ = facts.value().modified_ns + kTickNs < now ? facts.value().modified_ns : 0;
        const std::set<std::string> there(names.value().begin(), names.value().end());
        std::erase_if(dead_, [&](const auto& known) { return !there.contains(known.first); });
        living_.clear();
        for (const std::string& name : there) {
            const auto owner = log::owner_of_directory(name);
            if (!owner || dead_.contains(name)) continue;
            if (log::owner_is_alive(*owner, area_->name() + "/" + name)) living_[name] = *owner;
            else note_dead(name);
        }
    }
    for (auto at = living_.begin(); at != living_.end();) {
        if (log::number_is_taken(at->second) || log::owner_is_alive(at->second, area_->name() + "/" + at->first)) {
            ++at;
            continue;
        }
        note_dead(at->first);
        at = living_.erase(at);
    }
}

bool Leftovers::concern(const io::Identity& identity) {
    look();
    return std::any_of(dead_.begin(), dead_.end(), [&](const auto& dead) { return dead.second.contains(identity); });
}

std::string Leftovers::stranded(const io::Identity& identity, const std::string& path) {
    look();
    const auto name_of = [](const std::string& whole) { return std::string_view(whole).substr(whole.rfind('/') + 1); };
    for (const auto& [directory, files] : dead_)
        for (const auto& [logged, logged_path] : files)
            if (logged != identity && (logged_path == path || (logged.inode == identity.inode && name_of(logged_path) == name_of(path))))
                return area_->name() + "/" + directory;
    return {};
}

Result<std::optional<FileReport>> Leftovers::recover(const Wanted& file) {
    const auto outside = Outside::real();
    if (!outside) return outside.status();
    Request request;
    request.only = {file};
    request.unasked = true;
    request.patience = request.beside = patience_;
    io::Directory* const areas[] = {area_.get()};
    auto report = recover::recover(areas, request, outside.value());
    dead_.clear();   // some of it is gone now
    seen_change_ns_ = 0;
    if (!report) return report.status();
    if (report.value().files.empty()) return std::optional<FileReport>();
    // Nodes that are played on one machine have a report each: what is left undone counts, else all that was done.
    const auto& files = report.value().files;
    const auto undone = std::find_if(files.begin(), files.end(), [](const FileReport& one) {
        return one.outcome == Outcome::kRefused || one.outcome == Outcome::kWaiting || one.outcome == Outcome::kFailed;
    });
    if (undone != files.end()) return std::optional(*undone);
    // The one that has most to tell speaks for all.
    const auto weight = [](const FileReport& one) { return one.outcome == Outcome::kRecovered ? 2 : one.outcome == Outcome::kRolledBack ? 1 : 0; };
    FileReport all = *std::max_element(files.begin(), files.end(), [&](const FileReport& one, const FileReport& other) { return weight(one) < weight(other); });
    all.bytes = 0;
    for (const FileReport& one : files) all.bytes += one.bytes;
    return std::optional(std::move(all));
}

Status Leftovers::void_log(const Wanted& file) {
    const auto outside = Outside::real();
    if (!outside) return outside.status();
    Discarded request;
    request.files = {file};
    request.patience = request.beside = patience_;
    io::Directory* const areas[] = {area_.get()};
    const auto report = discard(areas, request, outside.value());
    dead_.clear();
    seen_change_ns_ = 0;
    if (!report) return report.status();
    for (const FileReport& left : report.value().files)
        if (left.outcome != Outcome::kDiscarded) return left.status;
    return Status::ok();
}

}   // namespace forebay::recover
