#include "cache/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/attempt.h"
#include "cache/replica_files.h"

namespace forebay::cache {

namespace {

constexpr const char* kAccountFile = "account";
constexpr std::uint64_t kBookBytes = 4096;
constexpr std::uint64_t kBookMagic = 0x31544e4341434246;   // "FBCACNT1" in memory
constexpr std::uint64_t kLookEvery = 64 << 20;             // bytes taken between two looks at the device
constexpr std::uint32_t kWritersMax = 4096;
// Of many processes that start together one looks through the cache. One that was killed meanwhile is not waited for.
constexpr std::uint64_t kCountMaxNs = 10'000'000'000;
constexpr std::size_t kReplicasMax = 16'384;      // more are removed, those that go first
constexpr std::uint64_t kTriesApart = 64 << 20;   // bytes refused between two looks for something to remove
// Bytes of the ring of small files: a share of the capacity, within these bounds.
constexpr std::uint64_t kRingShare = 4, kRingMin = 16 << 20, kRingMax = std::uint64_t{64} << 30;
// A folder that somebody removes while it is opened is made anew so often.
constexpr int kFolderTries = 5;

// Whether a process that lives has one of the numbers of owners in a replica's folder, or writes its source.
bool somebody_uses(io::Directory& folder, const std::vector<std::string>& names) {
    return std::ranges::any_of(names, [&](const std::string& name) {
        if (!name.starts_with(kOwnerPrefix) && !name.starts_with(kWriterPrefix)) return false;
        const auto holder = folder.holder_of(name);
        return !holder || holder.value() == io::Holder::kSomebody;
    });
}

Status no_account(const io::Directory& cache) {
    return {Code::kCorrupt, fmt::format("{}/{} is no account of a read cache", cache.name(), kAccountFile)};
}

// What goes first comes first.
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

// Whether a folder may be one of a replica: nothing of anybody else's is ever removed.
bool is_replica_name(std::string_view name) {
    const std::size_t dash = name.find('-');
    const auto is_number = [](std::string_view part) {
        return !part.empty() && part.size() <= 16 &&
               part.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    };
    return dash != std::string_view::npos && is_number(name.substr(0, dash)) && is_number(name.substr(dash + 1));
}

// Whoever has it mapped sees it. Nothing is mapped here, so nothing can fault.
void make_void(io::File& presence) {
    alignas(PresenceHeader) std::array<std::byte, sizeof(PresenceHeader)> bytes{};
    const auto read = presence.read_at(0, bytes);
    if (!read || read.value() < bytes.size()) return;
    if (!Presence::check(*reinterpret_cast<const PresenceHeader*>(bytes.data()))) return;
    const auto state = MapState::kVoid;
    (void)presence.write_at(offsetof(PresenceHeader, state), std::as_bytes(std::span(&state, 1)));
}

// The replica is void, also if the lock cannot be had.
Result<std::unique_ptr<io::Lock>> hold_as_writer(io::Directory& folder) {
    const auto locked = folder.lock(io::Directory::Patience{kFolderPatience});
    if (const auto file = folder.open_file(kPresenceFile, io::OpenMode::kReadWrite)) make_void(*file.value());
    if (!locked) return locked.status();
    for (std::uint32_t number = 0; number < kWritersMax; ++number) {
        auto lock = folder.hold(fmt::format("{}{}", kWriterPrefix, number));
        if (lock || lock.status().code() != Code::kUnavailable) return lock;
    }
    return Status(Code::kUnavailable, "too many processes write the file");
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

// The errors are those of looking; what is no map is told by the state.
Result<ReplicaView> view(const std::string& name, io::Directory& folder) {
    const auto names = folder.list();
    if (!names) return names.status();
    ReplicaView view;
    view.name = name;
    view.in_use = somebody_uses(folder, names.value());
    auto file = folder.open_file(kPresenceFile, io::OpenMode::kRead);
    if (!file && name == kSmallFilesFolder) {
        if (const auto ring = SmallFiles::view(folder)) {
            view.path = "(copies of small files)";
            view.state = ReplicaView::State::kValid;
            view.map_bytes = ring->taken_bytes;
            view.used_ns = ring->used_ns;
            view.made_ns = ring->made_ns;
            view.permanent = ring->permanent;
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
    const std::uint64_t blocks_max = view.map_bytes / sizeof(UnitEntry) * kUnitBlocks;   // more cannot be told there
    view.stored_bytes = std::min(header.stored_bytes.load(), blocks_max * kBlockBytes);
    view.opens = header.opens.load();
    view.used_ns = header.used_ns.load();
    view.made_ns = header.made_ns;
    view.pinned = (header.flags.load() & kPinned) != 0;
    view.permanent = (header.flags.load() & kPermanent) != 0;
    view.path = read_source(folder);
    return view;
}

}   // namespace

std::string replica_name(const io::Identity& identity) {
    return fmt::format("{:x}-{:x}", identity.device, identity.inode);
}

std::vector<ReplicaView> list_replicas(io::Directory& cache) {
    std::vector<ReplicaView> views;
    const auto names = cache.list();
    if (!names) return views;
    for (const std::string& name : names.value()) {
        if (!is_replica_name(name)) continue;
        auto folder = cache.open_directory(name);
        if (!folder) continue;
        if (auto seen = view(name, *folder.value())) views.push_back(std::move(seen).value());
    }
    return views;
}

// docs/cache-format.md.
struct Store::Book {
    std::uint64_t magic;
    std::atomic<std::uint64_t> stored_bytes, capacity_bytes, counting_ns;
};

Result<AccountView> read_account(io::Directory& cache) {
    const auto file = cache.open_file(kAccountFile, io::OpenMode::kRead);
    if (!file) return file.status();
    std::array<std::uint64_t, 3> words{};   // as Store::Book
    const auto read = file.value()->read_at(0, std::as_writable_bytes(std::span(words)));
    if (!read) return read.status();
    if (read.value() < sizeof words || words[0] != kBookMagic) return no_account(cache);
    return AccountView{words[1], words[2]};
}

// Of one replica. Keeps the store, which may have been closed meanwhile.
class Store::Share final : public Account {
  public:
    Share(std::shared_ptr<Store> store, std::string name) : store_(std::move(store)), name_(std::move(name)) {
        ++store_->open_replicas_;
    }
    ~Share() override {
        --store_->open_replicas_;
        store_->refused_bytes_.store(0);   // it may be removed now
    }
    bool take(std::uint64_t bytes) noexcept override { return store_->take(bytes); }
    void give_back(std::uint64_t bytes) noexcept override { store_->give_back(bytes); }
    // The other one that closes it at the same moment may have the lock, and still see this one.
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
        FOREBAY_TRY(store->open_book());
    }
    store->setup_.folder->rest();
    store->count_anew();
    return store;
}

// Without the lock: others may open, store and remove meanwhile. Whoever does changes the account, and then that stays.
void Store::count_anew() {
    const std::uint64_t now_ns = setup_.now_ns != nullptr ? setup_.now_ns() : 1;
    std::uint64_t begun_ns = book_->counting_ns.load();
    if (begun_ns != 0 && now_ns >= begun_ns && now_ns - begun_ns < kCountMaxNs) return;
    if (!book_->counting_ns.compare_exchange_strong(begun_ns, now_ns)) return;   // another process does it
    count_all();
    book_->counting_ns.store(0);
}

void Store::count_all() {
    std::vector<ReplicaView> views = list();
    std::erase_if(views, [&](const ReplicaView& view) {
        return view.is_leftover() && remove(view.name, Which::kLeftover, io::Directory::Patience::kTry);
    });
    put_in_order(views, setup_.replacement);
    std::size_t too_many = views.size() > kReplicasMax ? views.size() - kReplicasMax : 0;
    std::erase_if(views, [&](const ReplicaView& view) {
        if (too_many == 0 || view.in_use || view.pinned) return false;
        --too_many;
        return remove(view.name, Which::kUnused, io::Directory::Patience::kTry).has_value();
    });
    if (std::ranges::any_of(views, &ReplicaView::in_use)) return;
    std::uint64_t stored = book_->stored_bytes.load(), bytes = 0;
    for (const ReplicaView& view : list()) {
        if (view.in_use) return;
        bytes += view.bytes();
    }
    (void)book_->stored_bytes.compare_exchange_strong(stored, bytes);
}

Store::~Store() = default;

Status Store::open_book() {
    auto file = setup_.folder->open_file(kAccountFile, io::OpenMode::kReadWrite);
    const bool fresh = !file && file.status().code() == Code::kNotFound;
    if (fresh) file = setup_.folder->open_file(kAccountFile, io::OpenMode::kCreateNew);
    if (!file) return file.status();
    const auto size = file.value()->size();
    if (!size) return size.status();
    if (size.value() < kBookBytes) FOREBAY_TRY(file.value()->allocate(0, kBookBytes));
    auto mapping = file.value()->map(0, kBookBytes);
    if (!mapping) return mapping.status();
    mapping_ = std::move(mapping).value();
    replaceable_ = std::make_unique<io::Replaceable>(mapping_->bytes());
    if (!replaceable_->protects())
        return {Code::kUnavailable, "the process has too many files mapped that its cache needs", EMFILE};
    book_ = reinterpret_cast<Book*>(mapping_->bytes().data());
    if (book_->magic == 0) book_->magic = kBookMagic;   // under the folder's lock
    if (book_->magic != kBookMagic) return no_account(*setup_.folder);
    if (setup_.capacity_bytes != 0) book_->capacity_bytes.store(setup_.capacity_bytes);   // for people
    return Status::ok();
}

std::uint64_t Store::stored_bytes() const noexcept { return book_->stored_bytes.load(std::memory_order_relaxed); }

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
    const std::uint64_t ring_bytes = std::min(setup_.capacity_bytes / kRingShare, kRingMax) / kBlockBytes * kBlockBytes;
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

// Its folder is locked, so nobody opens it meanwhile, and looked at again.
std::optional<std::uint64_t> Store::remove(const std::string& name, Which which, io::Directory::Patience patience) {
    auto folder = setup_.folder->open_directory(name);
    if (!folder) return std::nullopt;
    std::uint64_t bytes = 0;
    // Its space is given back when this is closed. That may take long, and whoever opens a file waits for the lock.
    const auto open_bytes = folder.value()->open_file(kReplicaFile, io::OpenMode::kRead);
    {
        const auto locked = folder.value()->lock(patience);
        if (!locked) return std::nullopt;
        const auto seen = view(name, *folder.value());
        if (!seen || seen.value().in_use) return std::nullopt;
        if (which == Which::kLeftover && !seen.value().is_leftover()) return std::nullopt;
        bytes = seen.value().bytes();
        const auto names = folder.value()->list();
        if (!names) return std::nullopt;
        // A forked child may read it still, and is seen by nobody.
        if (const auto map = folder.value()->open_file(kPresenceFile, io::OpenMode::kReadWrite))
            make_void(*map.value());
        else if (map.status().code() != Code::kNotFound) return std::nullopt;
        // The map first: without it no byte of the replica counts.
        if (const Status removed = folder.value()->remove_file(kPresenceFile);
            !removed && removed.code() != Code::kNotFound)
            return std::nullopt;
        for (const std::string& file : names.value())
            if (file != kPresenceFile) (void)folder.value()->remove_file(file);
    }
    give_back(bytes);
    (void)setup_.folder->remove_directory(name);
    return bytes;
}

Result<Store::Evicted> Store::evict_one(const std::string& name) {
    Evicted evicted;
    if (const auto bytes = remove(name, Which::kUnused, io::Directory::Patience{kFolderPatience})) {
        evicted.bytes = *bytes;
        evicted.removed = true;
        return evicted;
    }
    const auto replica = existing(name);
    // A void one has no units that anybody needs; it goes with its users.
    if (replica.status().code() == Code::kNotFound) return Status(Code::kUnavailable, "it is void, and still in use");
    if (!replica) return replica.status();
    for (std::uint64_t unit = 0; unit < replica.value()->units(); ++unit) {
        if (!replica.value()->has_any(unit)) continue;
        const auto claim = Replica::claim(replica.value(), unit);
        if (!claim) {
            ++evicted.units_left;
            continue;
        }
        const auto bytes = replica.value()->evict(*claim);
        if (!bytes) return bytes.status();
        evicted.bytes += bytes.value();
    }
    return evicted;
}

std::uint64_t Store::evict(std::uint64_t bytes, bool all, std::uint64_t at_least) {
    const std::lock_guard lock(evicting_);
    std::vector<ReplicaView> views = list();
    put_in_order(views, setup_.replacement);
    const auto stays = [&](const ReplicaView& view) { return view.in_use || (view.pinned && !all); };
    std::uint64_t freed = 0, evictable = 0;
    for (const ReplicaView& view : views) evictable += stays(view) ? 0 : view.bytes();
    if (evictable < at_least) return 0;
    for (const ReplicaView& view : views) {
        if (freed >= bytes) break;
        if (stays(view)) continue;
        freed += remove(view.name, Which::kUnused, io::Directory::Patience::kTry).value_or(0);
    }
    return freed;
}

// Once there was no room, or nobody could tell, it is looked at again for each byte.
bool Store::device_has_room(std::uint64_t bytes) noexcept {
    if (!setup_.free_bytes || taken_since_look_.fetch_add(bytes) + bytes < kLookEvery) return true;
    std::uint64_t free_bytes = 0;
    const Status asked = attempt([&] { free_bytes = setup_.free_bytes(); });
    if (!asked || free_bytes < setup_.keep_free_bytes + kLookEvery) return false;
    taken_since_look_.store(0);
    return true;
}

bool Store::take(std::uint64_t bytes) noexcept {
    for (bool evicted = false;; evicted = true) {
        std::uint64_t stored = book_->stored_bytes.load(std::memory_order_relaxed);
        const bool has_room = device_has_room(bytes);
        while (has_room && stored + bytes <= setup_.capacity_bytes)
            if (book_->stored_bytes.compare_exchange_weak(stored, stored + bytes)) return true;
        if (evicted || bytes > setup_.capacity_bytes) return false;
        // What found nothing to remove is not repeated for each unit.
        if (refused_bytes_.fetch_add(bytes) % kTriesApart >= bytes) return false;
        if (setup_.let_go) setup_.let_go();
        // A tenth more than is needed, so that not every unit asks for room.
        std::uint64_t freed = 0;
        const std::uint64_t room = setup_.capacity_bytes - std::min(stored, setup_.capacity_bytes);
        (void)attempt([&] {
            freed = evict(std::max(bytes, setup_.capacity_bytes / 10), false, bytes - std::min(bytes, room));
        });
        if (freed == 0) return false;
        refused_bytes_.store(0);
    }
}

void Store::give_back(std::uint64_t bytes) noexcept {
    std::uint64_t stored = book_->stored_bytes.load(std::memory_order_relaxed);
    while (!book_->stored_bytes.compare_exchange_weak(stored, stored - std::min(stored, bytes))) {
    }
}

}   // namespace forebay::cache
