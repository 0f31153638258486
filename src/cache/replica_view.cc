#include "cache/replica_view.h"

#include <algorithm>
#include <span>
#include <utility>

#include "area/process.h"
#include "cache/replica.h"
#include "cache/replica_files.h"
#include "cache/small_files.h"

namespace forebay::cache {

namespace {

// True if a process has the replica open or writes its source. `names`: the files of the replica's folder.
bool somebody_uses(io::Directory& folder, const std::vector<std::string>& names) {
    return std::ranges::any_of(names, [&](const std::string& name) {
        if (!name.starts_with(kOwnerPrefix) && !name.starts_with(kWriterPrefix)) return false;
        const auto holder = folder.holder_of(name);
        return !holder || holder.value() == io::Holder::kSomebody;
    });
}

// True if a process runs whose workers used the replica. `without_own` ignores this process.
bool has_parent(const std::vector<std::string>& names, bool without_own) {
    return std::ranges::any_of(names, [&](const std::string& name) {
        if (!name.starts_with(kParentPrefix)) return false;
        const auto parent = area::process_of_name(std::string_view(name).substr(kParentPrefix.size()));
        return parent && area::is_seen_running(*parent) && !(without_own && area::is_this_process(*parent));
    });
}

std::string read_source(io::Directory& folder) {
    std::string path;
    const auto file = folder.open_file(kSourceFile, io::OpenMode::kRead);
    if (!file) return path;
    path.resize(kSourcePathMax);
    const auto read = file.value()->read_at(0, std::as_writable_bytes(std::span(path)));
    path.resize(read ? read.value() : 0);
    return path;
}

}   // namespace

bool is_replica_name(std::string_view name) {
    const std::size_t dash = name.find('-');
    const auto is_number = [](std::string_view part) {
        return !part.empty() && part.size() <= 16 &&
               part.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    };
    return dash != std::string_view::npos && is_number(name.substr(0, dash)) && is_number(name.substr(dash + 1));
}

Result<ReplicaView> view_replica(const std::string& name, io::Directory& folder, bool without_own) {
    const auto names = folder.list();
    if (!names) return names.status();
    ReplicaView view;
    view.name = name;
    view.in_use = somebody_uses(folder, names.value());
    view.has_parent = has_parent(names.value(), without_own);
    auto file = folder.open_file(kPresenceFile, io::OpenMode::kRead);
    if (!file && name == kSmallFilesFolder) {
        const auto ring = SmallFiles::view(folder);
        if (!ring && says_nothing(ring.status())) return ring.status();   // no leftover
        if (ring) {
            view.path = "(copies of small files)";
            view.state = ReplicaView::State::kValid;
            view.map_bytes = ring.value().taken_bytes;
            view.used_ns = ring.value().used_ns;
            view.made_ns = ring.value().made_ns;
            view.permanent = ring.value().permanent;
            return view;
        }
    }
    if (!file) return file.status().code() == Code::kNotFound ? Result<ReplicaView>(view) : file.status();
    const auto size = file.value()->size();
    if (!size) return size.status();
    view.map_bytes = size.value();
    view.state = ReplicaView::State::kUnknown;
    alignas(PresenceHeader) std::array<std::byte, sizeof(PresenceHeader)> bytes{};
    const auto read = file.value()->read_at(0, bytes);
    if (!read) return read.status();
    const auto& header = *reinterpret_cast<const PresenceHeader*>(bytes.data());
    if (read.value() < bytes.size() || !Presence::check(header)) return view;
    const bool valid = header.state.load() == MapState::kValid;
    view.state = valid ? ReplicaView::State::kValid : ReplicaView::State::kVoid;
    view.source = header.source;
    const std::uint64_t blocks_max = view.map_bytes / sizeof(UnitEntry) * kUnitBlocks;   // as many as the map can hold
    for (std::uint32_t device = 0; device < kDevicesMax; ++device) {
        const std::uint64_t bytes = device == 0 ? header.stored_bytes.load() : header.device_bytes[device].load();
        view.device_bytes[device] = std::min(bytes, blocks_max * kBlockBytes);
        view.stored_bytes += view.device_bytes[device];
    }
    view.opens = header.opens.load();
    view.used_ns = header.used_ns.load();
    view.made_ns = header.made_ns;
    view.pinned = (header.flags.load() & kPinned) != 0;
    view.permanent = (header.flags.load() & kPermanent) != 0;
    return view;
}

std::vector<ReplicaView> list_replicas(io::Directory& cache, Paths paths, bool* unreadable) {
    std::vector<ReplicaView> views;
    const auto note = [&](const Status& why) {
        if (unreadable != nullptr && why.code() != Code::kNotFound) *unreadable = true;   // kNotFound: just removed
    };
    const auto names = cache.list();
    if (!names) note(names.status());
    if (!names) return views;
    for (const std::string& name : names.value()) {
        if (!is_replica_name(name)) continue;
        auto folder = cache.open_directory(name);
        auto seen = folder ? view_replica(name, *folder.value()) : Result<ReplicaView>(folder.status());
        if (!seen) {
            note(seen.status());
            continue;
        }
        views.push_back(std::move(seen).value());
        const bool has_map = views.back().state == ReplicaView::State::kVoid ||
                             views.back().state == ReplicaView::State::kValid;
        if (paths == Paths::kRead && has_map && views.back().path.empty())
            views.back().path = read_source(*folder.value());
    }
    return views;
}

}   // namespace forebay::cache
