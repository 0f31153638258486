#include "cache/small_files.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>

#include "base/attempt.h"
#include "cache/replica_files.h"

namespace forebay::cache {

namespace {

constexpr std::uint64_t kMagic = 0x314c4c4d53424600;   // "\0FBSMLL1" in memory
constexpr std::uint64_t kHeaderBytes = 4096;
constexpr std::size_t kWays = 8, kBuckets = std::size_t{1} << 15;
constexpr std::uint64_t kAlign = 64;               // of a copy's place in the ring
constexpr std::uint64_t kTakenAtOnce = 16 << 20;   // of the account
constexpr int kReserveTries = 3;

std::array<std::uint64_t, 7> words_of(const Version& version) noexcept {
    return {version.identity.device, version.identity.inode, version.born_ns, version.generation, version.size,
            version.modified_ns,     version.changed_ns};
}

}   // namespace

// docs/cache-format.md. Processes that map the index share it.
struct SmallFiles::Slot {
    std::atomic<std::uint64_t> key;        // of the version; 0: free
    std::atomic<std::uint64_t> position;   // in the ring; grows without end
    std::atomic<std::uint64_t> checksum;   // of the content, seeded with the version
    std::atomic<std::uint64_t> bytes;
};

struct SmallFiles::Header {
    std::uint64_t magic;
    std::uint64_t ring_bytes;
    std::uint64_t made_ns;
    std::uint64_t permanent;
    std::atomic<std::uint64_t> used_ns;
    std::atomic<std::uint64_t> head;    // begin of the next copy
    std::atomic<std::uint64_t> taken;   // bytes of the ring that the account has counted
};

namespace {

constexpr std::uint64_t kIndexBytes = kHeaderBytes + kBuckets * kWays * 4 * sizeof(std::uint64_t);

// Two versions with one key have different seeds; two contents of a version have different checksums.
std::uint64_t checksum_of(const Version& version, io::Bytes content) noexcept {
    const auto words = words_of(version);
    const std::uint64_t seed = XXH3_64bits_withSeed(words.data(), sizeof words, kMagic);
    return XXH3_64bits_withSeed(content.data(), content.size(), seed);
}

}   // namespace

std::uint64_t small_file_key(const Version& version) noexcept {
    const auto words = words_of(version);
    return std::max<std::uint64_t>(1, XXH3_64bits(words.data(), sizeof words));
}

SmallFiles::SmallFiles(std::unique_ptr<io::Directory> folder, std::unique_ptr<io::File> data,
                       std::unique_ptr<io::Mapping> mapping, std::uint64_t ring_bytes, std::shared_ptr<Account> account)
    : folder_(std::move(folder)),
      data_(*folder_, kSmallDataFile, std::move(data)),
      mapping_(std::move(mapping)),
      replaceable_(mapping_->bytes()),
      account_(std::move(account)),
      ring_bytes_(ring_bytes),
      header_(*reinterpret_cast<Header*>(mapping_->bytes().data())),
      forks_(io::forks_so_far()) {}

SmallFiles::~SmallFiles() {
    if (number_lock_ == nullptr || io::forks_so_far() != forks_) return;
    const bool temporal = !replaceable_.replaced() && header_.permanent == 0;
    (void)attempt([&] {
        const auto locked = folder_->lock(io::Directory::Patience::kTry);
        if (locked) (void)folder_->remove_file(number_file_);
        number_lock_.reset();
    });
    number_lock_.reset();
    if (temporal) account_->temporal_closed();
}

namespace {

struct RingFiles {
    std::unique_ptr<io::File> data, index;
};

void remove_ring(io::Directory& folder) {
    (void)folder.remove_file(kSmallIndexFile);
    (void)folder.remove_file(kSmallDataFile);
}

Result<RingFiles> open_ring(io::Directory& folder) {
    auto index = folder.open_file(kSmallIndexFile, io::OpenMode::kReadWrite);
    FOREBAY_TRY(index.status());
    auto data = folder.open_file(kSmallDataFile, io::OpenMode::kReadWrite);
    FOREBAY_TRY(data.status());
    return RingFiles{std::move(data).value(), std::move(index).value()};
}

Result<RingFiles> make_ring(io::Directory& folder, std::uint64_t ring_bytes) {
    auto data = folder.open_file(kSmallDataFile, io::OpenMode::kCreateNew);
    FOREBAY_TRY(data.status());
    FOREBAY_TRY(data.value()->resize(ring_bytes));
    auto index = folder.open_file(kSmallIndexFile, io::OpenMode::kCreateNew);
    FOREBAY_TRY(index.status());
    FOREBAY_TRY(index.value()->allocate(0, kIndexBytes));
    return RingFiles{std::move(data).value(), std::move(index).value()};
}

// The bytes that the account counts for a ring whose index cannot be read: at least those of the index itself.
std::uint64_t bytes_of_index(io::Directory& folder) {
    const auto index = folder.open_file(kSmallIndexFile, io::OpenMode::kRead);
    const auto size = index ? index.value()->size() : Result<std::uint64_t>(index.status());
    return size ? std::min(size.value(), kIndexBytes) : 0;
}

}   // namespace

Result<std::shared_ptr<SmallFiles>> SmallFiles::open(std::unique_ptr<io::Directory> folder, std::uint64_t ring_bytes,
                                                     bool permanent, std::uint64_t now_ns,
                                                     std::shared_ptr<Account> account) {
    const auto locked = folder->lock(io::Directory::Patience{kFolderPatience});
    if (!locked) return locked.status();
    const auto known = view(*folder);
    auto ring = known ? open_ring(*folder) : Result<RingFiles>(known.status());
    const bool fresh = !ring;
    if (fresh) {
        if (says_nothing(ring.status())) return ring.status();   // other processes may use it
        account->give_back(known ? known.value().taken_bytes : bytes_of_index(*folder));
        remove_ring(*folder);
        if (!account->take(kIndexBytes)) return cache_is_full();
        ring = make_ring(*folder, ring_bytes);
        if (!ring) {
            account->give_back(kIndexBytes);
            remove_ring(*folder);
            return ring.status();
        }
    }
    auto mapping = ring.value().index->map(0, kIndexBytes);
    if (!mapping) return mapping.status();
    std::shared_ptr<SmallFiles> files(
        new SmallFiles(std::move(folder), std::move(ring.value().data), std::move(mapping).value(),
                       fresh ? ring_bytes : known.value().ring_bytes, std::move(account)));
    if (!files->replaceable_.protects()) return too_many_maps();
    Header& header = files->header_;
    if (fresh) {
        header.ring_bytes = ring_bytes;
        header.made_ns = now_ns;
        header.permanent = permanent ? 1 : 0;
        header.magic = kMagic;
    }
    header.used_ns.store(now_ns);
    FOREBAY_TRY(files->take_number());
    files->folder_->rest();
    return files;
}

// The name tells other processes that this one uses the ring, as in the folder of a replica.
Status SmallFiles::take_number() {
    const auto first = static_cast<std::uint32_t>(::getpid());
    for (std::uint32_t i = 0; i < kOwnersMax; ++i) {
        number_file_ = fmt::format("{}{}", kOwnerPrefix, 1 + (first + i) % kOwnersMax);
        auto lock = folder_->hold(number_file_);
        if (lock) {
            number_lock_ = std::move(lock).value();
            return Status::ok();
        }
        if (!io::has_holder(lock.status())) return lock.status();
    }
    return {Code::kUnavailable, "too many processes use the cache of small files"};
}

Result<SmallFiles::View> SmallFiles::view(io::Directory& folder) {
    const auto file = folder.open_file(kSmallIndexFile, io::OpenMode::kRead);
    FOREBAY_TRY(file.status());
    alignas(Header) std::array<std::byte, sizeof(Header)> bytes{};
    const auto read = file.value()->read_at(0, bytes);
    FOREBAY_TRY(read.status());
    const auto size = file.value()->size();
    FOREBAY_TRY(size.status());
    const auto& header = *reinterpret_cast<const Header*>(bytes.data());
    if (read.value() < bytes.size() || header.magic != kMagic || size.value() != kIndexBytes ||
        header.ring_bytes < kSmallFileBytes)
        return Status(Code::kCorrupt, file.value()->name() + " is no index of small files");
    const std::uint64_t taken = std::min(header.taken.load(), header.ring_bytes);
    return View{kIndexBytes + taken, header.used_ns.load(), header.made_ns, header.ring_bytes, header.permanent != 0};
}

SmallFiles::Slot* SmallFiles::bucket_of(const Version& version) const noexcept {
    static_assert(sizeof(Slot) == 4 * sizeof(std::uint64_t));
    auto* const slots = reinterpret_cast<Slot*>(mapping_->bytes().data() + kHeaderBytes);
    return slots + small_file_key(version) % kBuckets * kWays;
}

// False if the ring has overwritten the position.
bool SmallFiles::is_there(std::uint64_t position) const noexcept {
    const std::uint64_t head = header_.head.load(std::memory_order_relaxed);
    return position <= head && head - position <= ring_bytes_;
}

std::optional<std::vector<std::byte>> SmallFiles::load(const Version& version) {
    if (unusable() || version.size > kSmallFileBytes) return std::nullopt;
    const std::uint64_t key = small_file_key(version);
    const Slot* const bucket = bucket_of(version);
    for (std::size_t way = 0; way < kWays; ++way) {
        const Slot& slot = bucket[way];
        if (slot.key.load(std::memory_order_acquire) != key) continue;
        const std::uint64_t position = slot.position.load(), expected = slot.checksum.load();
        if (slot.bytes.load() != version.size || !is_there(position)) continue;
        std::vector<std::byte> content(version.size);
        const auto got = data_.read_at(position % ring_bytes_, content);
        if (!got || got.value() != content.size() || checksum_of(version, content) != expected) continue;
        if (replaceable_.replaced()) return std::nullopt;
        return content;
    }
    return std::nullopt;
}

// A copy is contiguous; a rest at the end of the ring stays empty.
std::optional<std::uint64_t> SmallFiles::reserve(std::uint64_t bytes) noexcept {
    const std::uint64_t length = (bytes + kAlign - 1) / kAlign * kAlign;
    for (int i = 0; i < kReserveTries; ++i) {
        const std::uint64_t position = header_.head.fetch_add(length), at = position % ring_bytes_;
        if (at + length > ring_bytes_) continue;
        if (!take_up_to(at + length)) return std::nullopt;
        return position;
    }
    return std::nullopt;
}

bool SmallFiles::take_up_to(std::uint64_t end) noexcept {
    std::uint64_t taken = header_.taken.load();
    while (taken < end) {
        const std::uint64_t more = std::min(kTakenAtOnce, ring_bytes_ - taken);
        if (more == 0 || !account_->take(more)) return false;
        if (header_.taken.compare_exchange_strong(taken, taken + more)) taken += more;
        else account_->give_back(more);
    }
    return true;
}

bool SmallFiles::store(const Version& version, io::Bytes content) noexcept {
    if (unusable() || content.size() != version.size || content.size() > kSmallFileBytes) return false;
    const std::uint64_t key = small_file_key(version);
    Slot* const bucket = bucket_of(version);
    const auto position = reserve(content.size());
    if (!position) return false;
    const Status written = attempt([&]() -> Status {
        const auto data = data_.open();
        return data ? data.value()->write_at(*position % ring_bytes_, content) : data.status();
    });
    if (!written) return false;
    // The slot of the same version, a free one, or the one that is overwritten first.
    Slot* chosen = bucket;
    for (std::size_t way = 0; way < kWays; ++way) {
        Slot& slot = bucket[way];
        const std::uint64_t found = slot.key.load();
        if (found == key) {
            chosen = &slot;
            break;
        }
        if (chosen->key.load() == 0) continue;
        if (found == 0 || slot.position.load() < chosen->position.load()) chosen = &slot;
    }
    chosen->key.store(0);
    chosen->position.store(*position);
    chosen->checksum.store(checksum_of(version, content));
    chosen->bytes.store(content.size());
    chosen->key.store(key, std::memory_order_release);
    return !replaceable_.replaced();
}

}   // namespace forebay::cache
