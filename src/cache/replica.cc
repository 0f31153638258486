#include "cache/replica.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <vector>

namespace forebay::cache {

namespace {

constexpr const char* kReplicaFile = "replica";
constexpr const char* kPresenceFile = "presence";
constexpr std::chrono::milliseconds kFolderPatience{500};
// Of one look at the map: the generations of so many units are compared after the replica was read.
constexpr std::size_t kLookUnits = 64;

std::string owner_file(std::uint32_t number) { return "owner-" + std::to_string(number); }

// Removes what is there; what cannot be removed is told by making it anew.
void remove_both(io::Directory& folder) {
    (void)folder.remove_file(kPresenceFile);
    (void)folder.remove_file(kReplicaFile);
}

// The folder is locked.
Status see_no_writer(io::Directory& folder) {
    const auto names = folder.list();
    FOREBAY_TRY(names.status());
    for (const std::string& name : names.value()) {
        if (!name.starts_with(kWriterPrefix)) continue;
        const auto holder = folder.holder_of(name);
        if (!holder || holder.value() != io::Holder::kNobody)
            return {Code::kUnavailable, "a process writes the file", EBUSY};
        (void)folder.remove_file(name);
    }
    return Status::ok();
}

struct Opened {
    std::unique_ptr<io::File> bytes;
    std::unique_ptr<io::Mapping> mapping;
};

Result<Opened> open_both(io::Directory& folder, io::OpenMode mode, std::uint64_t source_bytes) {
    Opened opened;
    const bool fresh = mode == io::OpenMode::kCreateNew;
    auto bytes = folder.open_file(kReplicaFile, mode);
    if (!bytes) return bytes.status();
    opened.bytes = std::move(bytes).value();
    if (fresh) FOREBAY_TRY(opened.bytes->resize(source_bytes));
    auto map = folder.open_file(kPresenceFile, mode);
    if (!map) return map.status();
    // Its pages exist: a store to one cannot run out of space.
    if (fresh) FOREBAY_TRY(map.value()->allocate(0, Presence::bytes_for(source_bytes)));
    const auto size = map.value()->size();
    if (!size) return size.status();
    if (size.value() == 0) return Status(Code::kCorrupt, "a presence map is empty");
    auto mapping = map.value()->map(0, size.value());
    if (!mapping) return mapping.status();
    opened.mapping = std::move(mapping).value();
    return opened;
}

}   // namespace

Replica::Replica(std::unique_ptr<io::Directory> folder, std::unique_ptr<io::File> bytes,
                 std::unique_ptr<io::Mapping> mapping, Presence map, std::shared_ptr<Account> account)
    : folder_(std::move(folder)),
      bytes_(std::move(bytes)),
      mapping_(std::move(mapping)),
      replaceable_(mapping_->bytes()),
      map_(map),
      source_(map.header().source),
      account_(std::move(account)) {}

Result<std::shared_ptr<Replica>> Replica::open(std::unique_ptr<io::Directory> folder, const Version& source,
                                               const area::BootId& boot_id, std::uint64_t now_ns,
                                               std::shared_ptr<Account> account) {
    const auto locked = folder->lock(io::Directory::Patience{kFolderPatience});
    if (!locked) return locked.status();
    FOREBAY_TRY(see_no_writer(*folder));
    std::shared_ptr<Replica> replica;
    if (auto there = open_both(*folder, io::OpenMode::kReadWrite, source.size)) {
        const auto map = Presence::open(there.value().mapping->bytes());
        if (map && !map.value().is_void() && map.value().header().source == source &&
            map.value().header().boot_id == boot_id)
            replica.reset(new Replica(std::move(folder), std::move(there.value().bytes),
                                      std::move(there.value().mapping), map.value(), std::move(account)));
        else if (map) {
            // Whoever reads it still learns that it is not the file's any more.
            account->give_back(map.value().header().stored_bytes.exchange(0));
            map.value().make_void();
        }
    }
    if (replica == nullptr) {
        remove_both(*folder);
        auto made = open_both(*folder, io::OpenMode::kCreateNew, source.size);
        if (!made) return made.status();
        Presence::make(made.value().mapping->bytes(), source, boot_id, now_ns);
        const auto map = Presence::open(made.value().mapping->bytes());
        if (!map) return map.status();
        replica.reset(new Replica(std::move(folder), std::move(made.value().bytes), std::move(made.value().mapping),
                                  map.value(), std::move(account)));
    }
    FOREBAY_TRY(replica->take_number());
    replica->map_.header().opens.fetch_add(1, std::memory_order_relaxed);
    replica->map_.header().used_ns.store(now_ns, std::memory_order_relaxed);
    return replica;
}

// Processes begin to look at different places, so that many of them do not ask for the same numbers in turn.
Status Replica::take_number() {
    const auto first = static_cast<std::uint32_t>(::getpid());
    for (std::uint32_t i = 0; i < kOwnersMax; ++i) {
        const std::uint32_t number = 1 + (first + i) % kOwnersMax;
        auto lock = folder_->hold(owner_file(number));
        if (lock) {
            number_lock_ = std::move(lock).value();
            number_ = number;
            return Status::ok();
        }
        if (lock.status().code() != Code::kUnavailable) return lock.status();
    }
    return {Code::kUnavailable, "every number of an owner of cached units is taken"};
}

std::size_t Replica::read(std::uint64_t offset, io::MutableBytes into) noexcept {
    if (unusable() || offset >= source_.size) return 0;
    const std::uint64_t end = std::min<std::uint64_t>(source_.size, offset + into.size());
    std::uint64_t at = offset;
    while (at < end) {
        const std::uint64_t first = at / kUnitBytes;
        std::array<Presence::Seen, kLookUnits> seen;
        std::size_t count = 0;
        std::uint64_t to = at;
        while (to < end && count < kLookUnits) {
            const std::uint64_t unit = first + count;
            const std::uint64_t unit_end = std::min((unit + 1) * kUnitBytes, end);
            seen[count] = map_.look(unit, touched_blocks(unit, {to, unit_end}));
            if (!seen[count].whole) break;
            to = unit_end;
            ++count;
        }
        if (count == 0) {
            // Its first blocks may be there all the same.
            to = std::min(end, end_of_presence(first, at));
            if (to <= at) break;
            seen[0] = map_.look(first, touched_blocks(first, {at, to}));
            if (!seen[0].whole) break;
            count = 1;
        }
        const auto done = bytes_->read_at(at, into.subspan(at - offset, to - at));
        if (!done || done.value() != to - at) {
            failed_.store(true, std::memory_order_relaxed);
            break;
        }
        bool same = !lost();
        for (std::size_t i = 0; i < count; ++i) same = map_.still(first + i, seen[i]) && same;
        if (!same) break;
        at = to;
    }
    return at - offset;
}

std::uint64_t Replica::end_of_presence(std::uint64_t unit, std::uint64_t at) const noexcept {
    const std::uint64_t begin = unit * kUnitBytes, present = map_.present(unit);
    std::uint64_t block = (at - begin) / kBlockBytes;
    while (block < kUnitBlocks && (present >> block & 1) != 0) ++block;
    return begin + block * kBlockBytes;
}

std::uint64_t Replica::end_of_gap(std::uint64_t offset, std::uint64_t end) const noexcept {
    std::uint64_t at = offset;
    while (at < end) {
        const std::uint64_t unit = at / kUnitBytes, block = at % kUnitBytes / kBlockBytes;
        const std::uint64_t present = map_.present(unit) >> block;
        if ((present & 1) != 0) break;
        if (present != 0) {
            at = unit * kUnitBytes + (block + static_cast<std::uint64_t>(std::countr_zero(present))) * kBlockBytes;
            break;
        }
        at = (unit + 1) * kUnitBytes;
    }
    return std::clamp(at, offset, end);
}

std::optional<Replica::Claim> Replica::claim(const std::shared_ptr<Replica>& replica, std::uint64_t unit) {
    Replica& self = *replica;
    std::uint32_t owner = 0;
    if (self.map_.claim(unit, self.number_, owner)) return Claim(replica, unit);
    if (owner == self.number_) return std::nullopt;   // another thread
    const auto holder = self.folder_->holder_of(owner_file(owner));
    if (holder && holder.value() == io::Holder::kNobody && self.map_.take_over(unit, owner, self.number_))
        return Claim(replica, unit);
    return std::nullopt;
}

Status Replica::store(const Claim& claim, std::uint64_t offset, io::Bytes bytes) {
    if (unusable()) return {Code::kUnavailable, "the replica is not used any more"};
    const std::uint64_t unit = claim.unit(), unit_begin = unit * kUnitBytes;
    const std::uint64_t unit_end = std::min(unit_begin + kUnitBytes, source_.size);
    const std::uint64_t bytes_end = offset + bytes.size();
    // Whole blocks only, but for the last one of the file.
    std::uint64_t from = std::max(unit_begin, (offset + kBlockBytes - 1) / kBlockBytes * kBlockBytes);
    std::uint64_t to = std::min(unit_end, bytes_end);
    if (to != source_.size) to = to / kBlockBytes * kBlockBytes;
    if (from >= to) return Status::ok();
    const std::uint64_t first = (from - unit_begin) / kBlockBytes;
    const std::uint64_t end = (to - unit_begin + kBlockBytes - 1) / kBlockBytes;
    const std::uint64_t missing = block_mask(first, end) & ~map_.present(unit);
    if (missing == 0) return Status::ok();
    const std::uint64_t taken = static_cast<std::uint64_t>(std::popcount(missing)) * kBlockBytes;
    if (!account_->take(taken)) return {Code::kNoSpace, "the cache is full"};
    const io::Bytes stored = bytes.subspan(from - offset, to - from);
    if (const Status written = bytes_->write_at(from, stored); !written) {
        account_->give_back(taken);
        return fail(written);
    }
    for (std::uint64_t block = first; block < end; ++block) {
        const std::uint64_t at = (block - first) * kBlockBytes;
        map_.set_checksum(unit, block, block_checksum(stored.subspan(at, std::min(kBlockBytes, stored.size() - at))));
    }
    map_.publish(unit, block_mask(first, end));
    map_.header().stored_bytes.fetch_add(taken, std::memory_order_relaxed);
    return lost() ? fail({Code::kIo, "the presence map cannot be reached"}) : Status::ok();
}

Result<std::uint64_t> Replica::evict(const Claim& claim) {
    const std::uint64_t unit = claim.unit();
    const std::uint64_t withdrawn = map_.withdraw(unit, ~std::uint64_t{0});
    const auto bytes = static_cast<std::uint64_t>(std::popcount(withdrawn)) * kBlockBytes;
    if (bytes == 0) return bytes;
    map_.header().stored_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    account_->give_back(bytes);
    const std::uint64_t begin = unit * kUnitBytes;
    if (const Status punched = bytes_->punch(begin, std::min(kUnitBytes, source_.size - begin)); !punched)
        return fail(punched);
    return bytes;
}

Status Replica::verify(const Claim& claim) {
    const std::uint64_t unit = claim.unit(), begin = unit * kUnitBytes;
    std::vector<std::byte> block(kBlockBytes);
    const std::uint64_t present = map_.present(unit);
    for (std::uint64_t i = 0; i < kUnitBlocks; ++i) {
        if ((present >> i & 1) == 0) continue;
        const std::uint64_t at = begin + i * kBlockBytes;
        const io::MutableBytes part(block.data(), std::min(kBlockBytes, source_.size - std::min(source_.size, at)));
        const auto read = bytes_->read_at(at, part);
        if (read && read.value() == part.size() && block_checksum(part) == map_.checksum_of(unit, i)) continue;
        map_.withdraw(unit, std::uint64_t{1} << i);
        map_.header().stored_bytes.fetch_sub(kBlockBytes, std::memory_order_relaxed);
        account_->give_back(kBlockBytes);
    }
    return Status::ok();
}

}   // namespace forebay::cache
