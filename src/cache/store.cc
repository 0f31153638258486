#include "cache/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/attempt.h"

namespace forebay::cache {

namespace {

constexpr const char* kAccountFile = "account";
constexpr const char* kPresenceFile = "presence";
constexpr std::string_view kOwnerPrefix = "owner-";
constexpr std::uint64_t kBookBytes = 4096;
constexpr std::uint64_t kBookMagic = 0x31544e4341434246;   // "FBCACNT1" in memory
constexpr std::uint64_t kLookEvery = 64 << 20;             // bytes taken between two looks at the device
constexpr std::chrono::milliseconds kFolderPatience{500};
constexpr std::uint32_t kWritersMax = 4096;

// Whether a process that lives has one of the numbers of owners in a replica's folder, or writes its source.
bool somebody_uses(io::Directory& folder, const std::vector<std::string>& names) {
    return std::ranges::any_of(names, [&](const std::string& name) {
        if (!name.starts_with(kOwnerPrefix) && !name.starts_with(kWriterPrefix)) return false;
        const auto holder = folder.holder_of(name);
        return !holder || holder.value() == io::Holder::kSomebody;
    });
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

}   // namespace

std::string replica_name(const io::Identity& identity) {
    return fmt::format("{:x}-{:x}", identity.device, identity.inode);
}

struct Store::Book {
    std::uint64_t magic;
    std::atomic<std::uint64_t> stored_bytes;
};

// Keeps the store, which may have been closed meanwhile.
class Store::Share final : public Account {
  public:
    explicit Share(std::shared_ptr<Store> store) : store_(std::move(store)) {}
    bool take(std::uint64_t bytes) noexcept override { return store_->take(bytes); }
    void give_back(std::uint64_t bytes) noexcept override { store_->give_back(bytes); }

  private:
    std::shared_ptr<Store> store_;
};

Result<std::shared_ptr<Store>> Store::open(StoreSetup setup) {
    std::shared_ptr<Store> store(new Store(std::move(setup)));
    const auto locked = store->setup_.folder->lock(io::Directory::Patience{kFolderPatience});
    if (!locked) return locked.status();
    FOREBAY_TRY(store->open_book());
    bool in_use = false;
    for (const ReplicaView& view : store->list()) in_use = in_use || view.in_use;
    if (!in_use) store->book_->stored_bytes.store(store->count_anew());
    return store;
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
    book_ = reinterpret_cast<Book*>(mapping_->bytes().data());
    if (book_->magic == 0) book_->magic = kBookMagic;   // under the folder's lock
    if (book_->magic != kBookMagic)
        return {Code::kCorrupt,
                fmt::format("{}/{} is no account of a read cache", setup_.folder->name(), kAccountFile)};
    return Status::ok();
}

std::uint64_t Store::count_anew() {
    std::uint64_t bytes = 0;
    for (const ReplicaView& view : list()) bytes += view.stored_bytes;
    return bytes;
}

std::uint64_t Store::stored_bytes() const noexcept { return book_->stored_bytes.load(std::memory_order_relaxed); }

Result<std::unique_ptr<io::Directory>> Store::make_folder(const std::string& name) {
    auto folder = setup_.folder->create_directory(name);
    return !folder && folder.status().code() == Code::kAlreadyExists ? setup_.folder->open_directory(name)
                                                                     : std::move(folder);
}

Result<std::shared_ptr<Replica>> Store::replica(const Version& source) {
    auto folder = make_folder(replica_name(source.identity));
    if (!folder) return folder.status();
    return Replica::open(std::move(folder).value(), source, setup_.boot_id, setup_.now_ns(),
                         std::make_shared<Share>(shared_from_this()));
}

Result<std::unique_ptr<io::Lock>> Store::begin_writing(const io::Identity& identity) {
    auto folder = make_folder(replica_name(identity));
    if (!folder) return folder.status();
    const auto locked = folder.value()->lock(io::Directory::Patience{kFolderPatience});
    if (const auto file = folder.value()->open_file(kPresenceFile, io::OpenMode::kReadWrite)) make_void(*file.value());
    if (!locked) return locked.status();
    for (std::uint32_t number = 0; number < kWritersMax; ++number) {
        auto lock = folder.value()->hold(fmt::format("{}{}", kWriterPrefix, number));
        if (lock || lock.status().code() != Code::kUnavailable) return lock;
    }
    return Status(Code::kUnavailable, "too many processes write the file");
}

void Store::make_void(io::File& presence) {
    const auto size = presence.size();
    if (!size || size.value() == 0) return;
    const auto mapping = presence.map(0, size.value());
    if (!mapping) return;
    const io::Replaceable guard(mapping.value()->bytes());
    if (const auto map = Presence::open(mapping.value()->bytes())) map.value().make_void();
}

Result<ReplicaView> Store::view(const std::string& name, io::Directory& folder) {
    const auto names = folder.list();
    if (!names) return names.status();
    ReplicaView view;
    view.name = name;
    view.in_use = somebody_uses(folder, names.value());
    auto file = folder.open_file(kPresenceFile, io::OpenMode::kRead);
    if (!file) return file.status().code() == Code::kNotFound ? Result<ReplicaView>(view) : file.status();
    alignas(PresenceHeader) std::array<std::byte, sizeof(PresenceHeader)> bytes{};
    const auto read = file.value()->read_at(0, bytes);
    if (!read) return read.status();
    const auto& header = *reinterpret_cast<const PresenceHeader*>(bytes.data());
    if (read.value() < bytes.size() || header.magic != kPresenceMagic) return view;
    view.source = header.source;
    view.stored_bytes = header.stored_bytes.load();
    view.opens = header.opens.load();
    view.used_ns = header.used_ns.load();
    view.made_ns = header.made_ns;
    view.pinned = (header.flags.load() & kPinned) != 0;
    return view;
}

std::vector<ReplicaView> Store::list() {
    std::vector<ReplicaView> views;
    const auto names = setup_.folder->list();
    if (!names) return views;
    for (const std::string& name : names.value()) {
        if (name == kAccountFile) continue;
        auto folder = setup_.folder->open_directory(name);
        if (!folder) continue;
        if (auto seen = view(name, *folder.value())) views.push_back(std::move(seen).value());
    }
    return views;
}

// Its folder is locked, so nobody opens it meanwhile, and looked at again.
std::uint64_t Store::remove(const std::string& name) {
    auto folder = setup_.folder->open_directory(name);
    if (!folder) return 0;
    std::uint64_t bytes = 0;
    {
        const auto locked = folder.value()->lock(io::Directory::Patience::kTry);
        if (!locked) return 0;
        const auto seen = view(name, *folder.value());
        if (!seen || seen.value().in_use) return 0;
        bytes = seen.value().stored_bytes;
        const auto names = folder.value()->list();
        if (!names) return 0;
        // A forked child may read it still, and is seen by nobody.
        if (auto map = folder.value()->open_file(kPresenceFile, io::OpenMode::kReadWrite)) make_void(*map.value());
        // The map first: without it no byte of the replica counts.
        if (const Status removed = folder.value()->remove_file(kPresenceFile);
            !removed && removed.code() != Code::kNotFound)
            return 0;
        for (const std::string& file : names.value())
            if (file != kPresenceFile) (void)folder.value()->remove_file(file);
    }
    give_back(bytes);
    (void)setup_.folder->remove_directory(name);
    return bytes;
}

std::uint64_t Store::evict(std::uint64_t bytes, bool all) {
    const std::lock_guard lock(evicting_);
    std::vector<ReplicaView> views = list();
    put_in_order(views, setup_.replacement);
    std::uint64_t freed = 0;
    for (const ReplicaView& view : views) {
        if (freed >= bytes) break;
        if (view.in_use || (view.pinned && !all)) continue;
        freed += remove(view.name);
    }
    return freed;
}

bool Store::device_has_room(std::uint64_t bytes) noexcept {
    if (!setup_.free_bytes || taken_since_look_.fetch_add(bytes) + bytes < kLookEvery) return true;
    taken_since_look_.store(0);
    std::uint64_t free_bytes = 0;
    const Status asked = attempt([&] { free_bytes = setup_.free_bytes(); });
    return !asked || free_bytes >= setup_.keep_free_bytes + kLookEvery;
}

bool Store::take(std::uint64_t bytes) noexcept {
    for (bool evicted = false;; evicted = true) {
        std::uint64_t stored = book_->stored_bytes.load(std::memory_order_relaxed);
        while (stored + bytes <= setup_.capacity_bytes && device_has_room(bytes))
            if (book_->stored_bytes.compare_exchange_weak(stored, stored + bytes)) return true;
        if (evicted) return false;
        // A tenth more than is needed, so that not every unit asks for room.
        std::uint64_t freed = 0;
        (void)attempt([&] { freed = evict(std::max(bytes, setup_.capacity_bytes / 10)); });
        if (freed == 0) return false;
    }
}

void Store::give_back(std::uint64_t bytes) noexcept {
    std::uint64_t stored = book_->stored_bytes.load(std::memory_order_relaxed);
    while (!book_->stored_bytes.compare_exchange_weak(stored, stored - std::min(stored, bytes))) {
    }
}

}   // namespace forebay::cache
