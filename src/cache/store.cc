#include "cache/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include "base/attempt.h"
#include "cache/replica_files.h"

namespace forebay::cache {

namespace {

constexpr std::uint32_t kWritersMax = 4096;
constexpr std::size_t kReplicasMax = 16'384;      // more are removed, in the order of the policy
constexpr std::uint64_t kTriesApart = 64 << 20;   // bytes refused between two searches for evictable replicas
// Bytes of the ring of small files: a share of the capacity, within these bounds.
constexpr std::uint64_t kRingShare = 4, kRingMin = 16 << 20, kRingMax = std::uint64_t{64} << 30;
constexpr std::uint64_t kMapShareMax = 8, kMapShareOfAll = 256;   // parts of the first device, and of all, for maps
// How often to make a folder again that another process removes during an open.
constexpr int kFolderTries = 5;

void put_in_order(std::vector<ReplicaView>& views, Replacement replacement) {
    std::ranges::stable_sort(views, [&](const ReplicaView& one, const ReplicaView& other) {
        switch (replacement) {
            case Replacement::kLfu: return one.opens < other.opens;
            case Replacement::kFifo: return one.made_ns < other.made_ns;
            case Replacement::kLifo: return one.made_ns > other.made_ns;
            case Replacement::kLru: break;
        }
        return one.used_ns < other.used_ns;
    });
}

// Processes that have it mapped see that. Maps nothing, so it cannot fault.
void make_void(io::File& presence) {
    alignas(PresenceHeader) std::array<std::byte, sizeof(PresenceHeader)> bytes{};
    const auto read = presence.read_at(0, bytes);
    if (!read || read.value() < bytes.size()) return;
    if (!Presence::check(*reinterpret_cast<const PresenceHeader*>(bytes.data()))) return;
    const auto state = MapState::kVoid;
    (void)presence.write_at(offsetof(PresenceHeader, state), std::as_bytes(std::span(&state, 1)));
}

// The replica is void even without the lock.
Result<std::unique_ptr<io::Lock>> hold_as_writer(io::Directory& folder) {
    const auto locked = folder.lock(io::Directory::Patience{kFolderPatience});
    if (const auto file = folder.open_file(kPresenceFile, io::OpenMode::kReadWrite)) make_void(*file.value());
    if (!locked) return locked.status();
    for (std::uint32_t number = 0; number < kWritersMax; ++number) {
        auto lock = folder.hold(fmt::format("{}{}", kWriterPrefix, number));
        if (lock || !io::has_holder(lock.status())) return lock;
    }
    return Status(Code::kUnavailable, "too many processes write the file");
}

}   // namespace

// Keeps the store alive after its close.
class Store::Share final : public Account {
  public:
    Share(std::shared_ptr<Store> store, std::string name) : store_(std::move(store)), name_(std::move(name)) {
        ++store_->open_replicas_;
    }
    ~Share() override {
        --store_->open_replicas_;
        store_->refused_bytes_.store(0);   // it may be evicted now
    }
    bool take(std::uint64_t bytes) noexcept override { return store_->place(bytes, 1, Kind::kMap).has_value(); }
    void give_back(std::uint64_t bytes) noexcept override { give_back_on(0, bytes); }
    bool take_on(std::uint32_t device, std::uint64_t bytes) noexcept override {
        if (parts().empty()) return store_->place(bytes, 1, Kind::kUnit).has_value();   // there is no other place
        return store_->devices_[device] != nullptr && store_->devices_[device]->take(bytes);
    }
    void give_back_on(std::uint32_t device, std::uint64_t bytes) noexcept override {
        if (store_->devices_[device] != nullptr) store_->devices_[device]->give_back(bytes);
    }
    std::optional<std::uint32_t> place(std::uint64_t bytes, std::uint32_t devices) noexcept override {
        return store_->place(bytes, devices, Kind::kUnit);
    }
    std::span<const PartFolder> parts() const noexcept override { return store_->parts_; }
    // Waits: another process that closes it at this moment may have the lock, and still see this one as a user.
    void temporal_closed() noexcept override {
        (void)attempt([&] { (void)store_->remove(name_, Which::kLeftover, io::Directory::Patience{kFolderPatience}); });
    }

  private:
    std::shared_ptr<Store> store_;
    const std::string name_;
};

Result<std::shared_ptr<Store>> Store::open(StoreSetup setup) {
    std::shared_ptr<Store> store(new Store(std::move(setup)));
    {
        const auto locked = store->setup_.folder->lock(io::Directory::Patience{kFolderPatience});
        if (!locked) return locked.status();
        FOREBAY_TRY(store->open_devices());
    }
    store->count_anew();
    store->setup_.folder->rest();   // the count opens one folder after the other in it
    return store;
}

// Without the lock. If other processes change the account meanwhile, their change stays. A later open finds what
// this one leaves: leftovers and lost bytes only take room.
void Store::count_anew() {
    if (!devices_[0]->count_is_due() || !devices_[0]->begin_count(setup_.now_ns != nullptr ? setup_.now_ns() : 1))
        return;
    devices_[0]->end_count(count_all());
}

// Looks at a replica once if all stay. Returns their number.
std::size_t Store::count_all() {
    std::array<std::uint64_t, kDevicesMax> stored{}, counted{};
    const auto note_stored = [&] {
        for (std::uint32_t device = 0; device < kDevicesMax; ++device)
            if (devices_[device] != nullptr) stored[device] = devices_[device]->stored_bytes();
    };
    note_stored();   // before the look: a later change of the account is kept
    bool unreadable = false;
    std::vector<ReplicaView> views = list_replicas(*setup_.folder, Paths::kLeftOut, &unreadable);
    const bool removed = remove_unneeded(views);
    remove_leftover_parts(views);
    if (std::ranges::any_of(views, &ReplicaView::in_use)) return views.size();
    if (removed) {
        note_stored();
        views = list_replicas(*setup_.folder, Paths::kLeftOut, &unreadable);
    }
    if (unreadable) return views.size();   // the sum would be too small
    for (const ReplicaView& view : views) {
        if (view.in_use) return views.size();
        for (std::uint32_t device = 0; device < kDevicesMax; ++device) counted[device] += view.bytes_on(device);
    }
    for (std::uint32_t device = 0; device < kDevicesMax; ++device)
        if (devices_[device] != nullptr) devices_[device]->set_stored(stored[device], counted[device]);
    return views.size();
}

// Removes leftovers, and replicas that are too many. Returns true if it removed any.
bool Store::remove_unneeded(std::vector<ReplicaView>& views) {
    const std::size_t before = views.size();
    std::erase_if(views, [&](const ReplicaView& view) {
        return view.is_leftover() && remove(view.name, Which::kLeftover, io::Directory::Patience::kTry);
    });
    std::size_t too_many = views.size() > kReplicasMax ? views.size() - kReplicasMax : 0;
    if (too_many > 0) put_in_order(views, setup_.replacement);
    std::erase_if(views, [&](const ReplicaView& view) {
        if (too_many == 0 || view.in_use || view.pinned) return false;
        --too_many;
        return remove(view.name, Which::kUnused, io::Directory::Patience::kTry).has_value();
    });
    return views.size() != before;
}

// Removes parts of removed replicas, and of earlier ones in the same place.
void Store::remove_leftover_parts(const std::vector<ReplicaView>& views) {
    std::set<std::pair<std::string_view, std::uint64_t>> kept;   // names and times of making
    for (const ReplicaView& view : views)
        if (!parts_.empty() && view.state == ReplicaView::State::kValid) kept.emplace(view.name, view.made_ns);
    for (const PartFolder& where : parts_) {
        if (where.folder == nullptr) continue;
        const auto names = where.folder->list();
        if (!names) continue;
        for (const std::string& file : names.value()) {
            const std::size_t dash = file.rfind('-');
            if (dash == std::string::npos || !is_replica_name(std::string_view(file).substr(0, dash))) continue;
            std::uint64_t made_ns = 0;
            const char* const end = file.data() + file.size();
            if (const auto made = std::from_chars(file.data() + dash + 1, end, made_ns, 16);
                made.ec != std::errc{} || made.ptr != end)
                continue;
            const std::string name = file.substr(0, dash);
            if (kept.contains({name, made_ns})) continue;
            if (is_leftover_part(name, made_ns)) (void)where.folder->remove_file(file);
        }
    }
}

// A part is made under the lock of its replica's folder, so a look under that lock is reliable.
bool Store::is_leftover_part(const std::string& name, std::uint64_t made_ns) {
    auto folder = setup_.folder->open_directory(name);
    if (!folder) return folder.status().code() == Code::kNotFound;
    const auto locked = folder.value()->lock(io::Directory::Patience::kTry);
    if (!locked) return false;
    const auto seen = view_replica(name, *folder.value());
    return seen && seen.value().state != ReplicaView::State::kUnknown && seen.value().made_ns != made_ns;
}

Store::~Store() = default;

void Store::add_device(std::uint32_t number, std::unique_ptr<io::Directory> folder, DeviceLimits limits) {
    parts_.push_back({number, nullptr});
    PartFolder& part = parts_.back();
    if (folder == nullptr) return;
    // Other caches have other part folders; processes of this one hold its lock.
    auto device = Device::open(*folder, std::move(limits));
    if (!device) return;
    folder->rest();
    part.folder = std::move(folder);
    devices_[number] = std::move(device).value();
}

// Needs the folder's lock. The cache works without further devices too.
Status Store::open_devices() {
    auto first = Device::open(*setup_.folder,
                              {setup_.capacity_bytes, setup_.keep_free_bytes, std::move(setup_.free_bytes)});
    FOREBAY_TRY(first.status());
    devices_[0] = std::move(first).value();
    std::vector<std::string> paths;
    for (const StoreSetup::Further& one : setup_.further) paths.push_back(one.path);
    const auto noted = note_devices(*setup_.folder, paths);
    const std::vector<std::uint32_t> numbers = noted ? noted.value() : std::vector<std::uint32_t>();
    if (setup_.capacity_bytes != 0) order_.push_back(0);
    if (setup_.filled_first > 0) filled_first_ = 1;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        StoreSetup::Further& one = setup_.further[i];
        const bool fills = one.limits.capacity_bytes != 0;
        add_device(numbers[i], std::move(one.folder), std::move(one.limits));
        if (!fills || devices_[numbers[i]] == nullptr) continue;
        order_.push_back(numbers[i]);
        if (i + 1 < setup_.filled_first) filled_first_ |= std::uint32_t{1} << numbers[i];
    }
    // All maps are on the first device. If units filled it, the others could not be filled.
    if (order_.size() > 1)
        held_for_maps_ = std::min(devices_[0]->capacity_bytes() / kMapShareMax, capacity_bytes() / kMapShareOfAll);
    const std::vector<std::string> known = read_devices(*setup_.folder);
    for (std::uint32_t number = 1; number <= known.size(); ++number) {
        if (std::ranges::find(numbers, number) != numbers.end()) continue;
        auto folder = setup_.open_part ? setup_.open_part(known[number - 1])
                                       : Result<std::unique_ptr<io::Directory>>(Status(Code::kNotFound, {}));
        add_device(number, folder ? std::move(folder).value() : nullptr, {});
    }
    return Status::ok();
}

std::uint64_t Store::stored_bytes() const noexcept {
    std::uint64_t bytes = 0;
    for (const auto& device : devices_) bytes += device != nullptr ? device->stored_bytes() : 0;
    return bytes;
}

std::uint64_t Store::capacity_bytes() const noexcept {
    std::uint64_t bytes = 0;
    for (const std::uint32_t device : order_) bytes += devices_[device]->capacity_bytes();
    return bytes;
}

Result<std::unique_ptr<io::Directory>> Store::make_folder(const std::string& name) {
    auto folder = setup_.folder->create_directory(name);
    return !folder && folder.status().code() == Code::kAlreadyExists ? setup_.folder->open_directory(name)
                                                                     : std::move(folder);
}

Result<std::shared_ptr<Replica>> Store::replica(const Version& source, const Keeping& keeping) {
    const std::string name = replica_name(source.identity);
    const auto share = std::make_shared<Share>(shared_from_this(), name);
    if (open_replicas_.load() > kOpenReplicasMax)
        return Status(Code::kUnavailable, fmt::format("{} files are read through the cache already", kOpenReplicasMax),
                      EMFILE);
    for (int tries = 1;; ++tries) {
        Result<std::shared_ptr<Replica>> opened(Status(Code::kNotFound, {}));
        if (auto folder = make_folder(name))
            opened = Replica::open(std::move(folder).value(), source, setup_.boot_id, setup_.now_ns(), share, keeping);
        else opened = folder.status();
        if (opened || opened.status().code() != Code::kNotFound || tries == kFolderTries) return opened;
    }
}

Result<std::shared_ptr<SmallFiles>> Store::small_files(bool permanent) {
    const std::uint64_t ring_bytes = std::min(devices_[0]->capacity_bytes() / kRingShare, kRingMax) / kBlockBytes *
                                     kBlockBytes;
    if (ring_bytes < kRingMin) return Status(Code::kUnsupported, "the cache is too small for copies of small files");
    for (int tries = 1;; ++tries) {
        Result<std::shared_ptr<SmallFiles>> opened(Status(Code::kNotFound, {}));
        if (auto folder = make_folder(kSmallFilesFolder))
            opened = SmallFiles::open(std::move(folder).value(), ring_bytes, permanent, setup_.now_ns(),
                                      std::make_shared<Share>(shared_from_this(), kSmallFilesFolder));
        else opened = folder.status();
        if (opened || opened.status().code() != Code::kNotFound || tries == kFolderTries) return opened;
    }
}

Result<std::shared_ptr<Replica>> Store::existing(const std::string& name) {
    auto folder = setup_.folder->open_directory(name);
    if (!folder) return folder.status();
    return Replica::open_existing(std::move(folder).value(), setup_.boot_id,
                                  std::make_shared<Share>(shared_from_this(), name));
}

Result<std::unique_ptr<io::Lock>> Store::begin_writing(const io::Identity& identity) {
    const std::string name = replica_name(identity);
    for (int tries = 1;; ++tries) {
        Result<std::unique_ptr<io::Lock>> begun(Status(Code::kNotFound, {}));
        if (auto folder = make_folder(name)) begun = hold_as_writer(*folder.value());
        else begun = folder.status();
        if (begun || begun.status().code() != Code::kNotFound || tries == kFolderTries) return begun;
    }
}

// Locks the folder, so that no process opens the replica, and looks again.
std::optional<ReplicaView> Store::remove(const std::string& name, Which which, io::Directory::Patience patience) {
    auto folder = setup_.folder->open_directory(name);
    if (!folder) return std::nullopt;
    ReplicaView gone;
    // Closing this frees the space. That may take long, and opens wait for the lock, so it happens after.
    const auto open_bytes = folder.value()->open_file(kReplicaFile, io::OpenMode::kRead);
    {
        const auto locked = folder.value()->lock(patience);
        if (!locked) return std::nullopt;
        const auto seen = view_replica(name, *folder.value(), which == Which::kOwn);
        if (!seen || seen.value().in_use) return std::nullopt;
        if (which != Which::kUnused && !seen.value().is_leftover()) return std::nullopt;
        gone = seen.value();
        const auto names = folder.value()->list();
        if (!names) return std::nullopt;
        // A forked child may still read it, without being seen.
        if (const auto map = folder.value()->open_file(kPresenceFile, io::OpenMode::kReadWrite))
            make_void(*map.value());
        else if (map.status().code() != Code::kNotFound) return std::nullopt;
        // Remove the map first: without it no byte of the replica counts.
        if (const Status removed = folder.value()->remove_file(kPresenceFile);
            !removed && removed.code() != Code::kNotFound)
            return std::nullopt;
        for (const std::string& file : names.value())
            if (file != kPresenceFile) (void)folder.value()->remove_file(file);
    }
    give_back(gone);
    (void)setup_.folder->remove_directory(name);
    return gone;
}

// Removes the parts too: no other replica has files of these names.
void Store::give_back(const ReplicaView& view) noexcept {
    for (std::uint32_t device = 0; device < kDevicesMax; ++device)
        if (devices_[device] != nullptr) devices_[device]->give_back(view.bytes_on(device));
    if (view.made_ns == 0) return;
    (void)attempt([&] {
        for (const PartFolder& where : parts_)
            if (where.folder != nullptr) (void)where.folder->remove_file(part_name(view.source.identity, view.made_ns));
    });
}

void Store::leave(const io::Identity& identity) {
    (void)remove(replica_name(identity), Which::kOwn, io::Directory::Patience{kFolderPatience});
}

Result<Store::Evicted> Store::evict_one(const std::string& name) {
    if (const auto gone = remove(name, Which::kUnused, io::Directory::Patience{kFolderPatience}))
        return Evicted{gone->bytes(), 0, true};
    const auto replica = existing(name);
    // The units of a void replica are unneeded; it goes with its users.
    if (replica.status().code() == Code::kNotFound)
        return Status(Code::kUnavailable, "the replica is void, and goes when its last program closes it");
    if (!replica) return replica.status();
    const auto units = evict_units(replica.value());
    if (!units) return units.status();
    return Evicted{units.value().bytes, units.value().units_left, false};
}

std::uint64_t Store::evict(std::uint64_t bytes, bool all, std::uint64_t at_least, std::uint32_t devices) {
    const std::lock_guard lock(evicting_);
    std::vector<ReplicaView> views = list_replicas(*setup_.folder, Paths::kLeftOut);
    put_in_order(views, setup_.replacement);
    const auto stays = [&](const ReplicaView& view) { return view.in_use || (view.pinned && !all); };
    const auto counted = [&](const ReplicaView& view) {
        std::uint64_t sum = 0;
        for (std::uint32_t device = 0; device < kDevicesMax; ++device)
            if ((devices >> device & 1) != 0) sum += view.bytes_on(device);
        return sum;
    };
    std::uint64_t freed = 0, evictable = 0;
    for (const ReplicaView& view : views) evictable += stays(view) ? 0 : counted(view);
    if (evictable < at_least) return 0;
    for (const ReplicaView& view : views) {
        if (freed >= bytes) break;
        // A replica without bytes on these devices stays, unless all may go.
        if (stays(view) || (devices != kAllDevices && counted(view) == 0)) continue;
        if (const auto gone = remove(view.name, Which::kUnused, io::Directory::Patience::kTry)) freed += counted(*gone);
    }
    return freed;
}

// First the devices that are filled first, in order; then the least used one.
std::optional<std::uint32_t> Store::try_place(std::uint64_t bytes, std::uint32_t devices, Kind kind) noexcept {
    std::array<std::uint32_t, kDevicesMax> others{};
    std::size_t count = 0;
    for (const std::uint32_t device : order_) {
        if ((devices >> device & 1) == 0) continue;
        if (device == 0 && kind == Kind::kUnit && held_for_maps_ != 0 &&
            devices_[0]->room_bytes() < bytes + held_for_maps_)
            continue;
        if ((filled_first_ >> device & 1) == 0) others[count++] = device;
        else if (devices_[device]->take(bytes)) return device;
    }
    // An insertion sort is stable and allocates nothing.
    for (std::size_t i = 1; i < count; ++i)
        for (std::size_t j = i; j > 0 && devices_[others[j]]->use() < devices_[others[j - 1]]->use(); --j)
            std::swap(others[j], others[j - 1]);
    for (std::size_t i = 0; i < count; ++i)
        if (devices_[others[i]]->take(bytes)) return others[i];
    return std::nullopt;
}

std::optional<std::uint32_t> Store::place(std::uint64_t bytes, std::uint32_t devices, Kind kind) noexcept {
    const auto device = try_place(bytes, devices, kind);
    if (device || !make_room(bytes, devices)) return device;
    return try_place(bytes, devices, kind);
}

// True if it removed a replica.
bool Store::make_room(std::uint64_t bytes, std::uint32_t devices) noexcept {
    std::uint64_t capacity = 0, room = 0;
    for (const std::uint32_t device : order_) {
        if ((devices >> device & 1) == 0) continue;
        capacity += devices_[device]->capacity_bytes();
        room = std::max(room, devices_[device]->room_bytes());
    }
    if (bytes > capacity) return false;
    // Do not repeat a vain search for each unit.
    if (refused_bytes_.fetch_add(bytes) % kTriesApart >= bytes) return false;
    if (setup_.let_go) setup_.let_go();
    // Free a tenth of the capacity at least, so that not every unit asks for room.
    std::uint64_t freed = 0;
    (void)attempt([&] {
        freed = evict(std::max(bytes, capacity / 10), false, bytes - std::min(bytes, room),
                      parts_.empty() ? kAllDevices : devices);
    });
    if (freed == 0) return false;
    refused_bytes_.store(0);
    return true;
}

}   // namespace forebay::cache
