#include "cache/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "base/attempt.h"
#include "cache/compared_read.h"
#include "cache/replica_files.h"

namespace forebay::cache {

namespace {

// Units per look at the map, whose generations are compared after the read.
constexpr std::size_t kLookUnits = 64;

}   // namespace

Replica::Replica(std::unique_ptr<io::Directory> folder, ReplicaFiles files, Presence map,
                 std::shared_ptr<Account> account)
    : folder_(std::move(folder)),
      files_(std::move(files)),
      parts_(*folder_, kReplicaFile, std::move(files_.bytes)),
      map_(map),
      source_(map.header().source),
      account_(std::move(account)),
      use_(*folder_, map_) {
    if (const io::Identity& own = parts_.first_identity(); own != io::Identity{})
        label_ = fmt::format("/{}/{:x}-{:x}", area::to_text(map_.header().boot_id), own.device, own.inode);
}

Replica::~Replica() {
    if (use_.end() && !lost() && (map_.header().flags.load() & kPermanent) == 0) account_->temporal_closed();
}

Result<std::unique_ptr<io::File>> Replica::open_bytes(std::uint32_t device) const {
    if (!parts_.usable(device)) return Status(Code::kIo, "a device of the read cache has failed");
    auto file = parts_.open(device);
    if (file && map_.is_void()) return Status(Code::kUnavailable, "the replica is void");
    return file;
}

Result<std::unique_ptr<io::Mapping>> Replica::map_bytes() const {
    if (map_.spreads()) return Status(Code::kUnsupported, "the replica lies on several devices");
    const auto file = open_bytes(0);
    return file ? file.value()->map(0, source_.size) : file.status();
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
        std::uint32_t device = 0;
        while (to < end && count < kLookUnits) {
            const std::uint64_t unit = first + count;
            const std::uint64_t unit_end = std::min((unit + 1) * kUnitBytes, end);
            seen[count] = map_.look(unit, touched_blocks(unit, {to, unit_end}));
            if (!seen[count].whole) break;
            const std::uint32_t its = map_.device_of(unit);   // after the bits
            if (count > 0 && its != device) break;
            device = its;
            to = unit_end;
            ++count;
        }
        if (count == 0) {
            // Its first blocks may be present.
            to = std::min(end, end_of_presence(first, at));
            if (to <= at) break;
            seen[0] = map_.look(first, touched_blocks(first, {at, to}));
            if (!seen[0].whole) break;
            device = map_.device_of(first);
            count = 1;
        }
        if (!parts_.usable(device)) break;
        ComparedBytes got;
        // The text of an error takes memory.
        Status done = attempt([&]() -> Status {
            const auto read = ComparedRead(parts_.bytes_on(device), map_).read(at, into.subspan(at - offset, to - at));
            if (read) got = read.value();
            return read.status();
        });
        if (!done || (got.bytes != to - at && !got.differs)) {
            (void)fail(std::move(done), device);
            break;
        }
        bool same = !lost() && !map_.is_void();   // void: the bytes may be another replica's
        for (std::size_t i = 0; i < count; ++i) same = map_.still(first + i, seen[i]) && same;
        if (!same) break;
        at += got.bytes;
        if (got.differs) {
            drop_lost(at / kUnitBytes, device);
            break;
        }
    }
    return at - offset;
}

// Drops the unit's blocks that the device has lost. If the unit has another owner, a later read drops them.
void Replica::drop_lost(std::uint64_t unit, std::uint32_t device) noexcept {
    (void)attempt([&] {
        if (const auto claimed = claim(shared_from_this(), unit)) (void)verify(*claimed);
    });
    if (parts_.note_loss(device)) (void)fail(Status(Code::kIo, {}), device);
}

std::uint64_t Replica::end_of_presence(std::uint64_t unit, std::uint64_t at) const noexcept {
    const std::uint64_t begin = unit * kUnitBytes, present = readable(unit);
    std::uint64_t block = (at - begin) / kBlockBytes;
    while (block < kUnitBlocks && (present >> block & 1) != 0) ++block;
    return begin + block * kBlockBytes;
}

std::uint64_t Replica::end_of_gap(std::uint64_t offset, std::uint64_t end) const noexcept {
    std::uint64_t at = offset;
    while (at < end) {
        const std::uint64_t unit = at / kUnitBytes, block = at % kUnitBytes / kBlockBytes;
        const std::uint64_t present = readable(unit) >> block;
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
    return replica->use_.claim(unit) ? std::optional<Claim>(std::in_place, replica, unit) : std::nullopt;
}

void Replica::uncount(std::uint64_t bytes, std::uint32_t device) noexcept {
    if (device >= kDevicesMax) return;   // a damaged map
    std::atomic<std::uint64_t>& stored = map_.header().bytes_on(device);
    std::uint64_t now = stored.load(), less = 0;
    do less = std::min(now, bytes);
    while (!stored.compare_exchange_weak(now, now - less));
    account_->give_back_on(device, less);
}

Status Replica::store(const Claim& claim, std::uint64_t offset, io::Bytes bytes) {
    if (unusable()) return {Code::kUnavailable, "the replica is not used any more"};
    const std::uint64_t unit = claim.unit(), unit_begin = unit * kUnitBytes;
    const std::uint64_t unit_end = std::min(unit_begin + kUnitBytes, source_.size);
    const std::uint64_t bytes_end = offset + bytes.size();
    // Whole blocks only; the last one ends with the file.
    std::uint64_t from = std::max(unit_begin, (offset + kBlockBytes - 1) / kBlockBytes * kBlockBytes);
    std::uint64_t to = std::min(unit_end, bytes_end);
    if (to != source_.size) to = to / kBlockBytes * kBlockBytes;
    if (from >= to) return Status::ok();
    const std::uint64_t first = (from - unit_begin) / kBlockBytes;
    const std::uint64_t end = (to - unit_begin + kBlockBytes - 1) / kBlockBytes;
    // Doubtful blocks are compared, or dropped, before others are stored beside them.
    if (const std::uint64_t dropped = map_.end_doubt(unit); dropped != 0)
        uncount(bytes_of_blocks(dropped), map_.device_of(unit));
    return store_piece({unit, first, end, from, bytes.subspan(from - offset, to - from)});
}

Status Replica::store_piece(const Piece& piece) {
    const std::uint32_t before = map_.device_of(piece.unit);
    std::uint32_t devices = parts_.usable();
    Status last = cache_is_full();
    const std::uint64_t present = map_.present(piece.unit);
    if (present != 0) {
        // A unit on a device that only other processes can read stays theirs.
        if (!parts_.has(before)) return Status::ok();
        if (parts_.usable(before)) {
            const std::uint64_t taken = bytes_of_blocks(block_mask(piece.first, piece.end) & ~present);
            if (taken == 0) return Status::ok();
            if (account_->take_on(before, taken)) last = write_piece(piece, before, taken);
            if (last || !parts_.several() || io::lacks_descriptors(last) || unusable()) return last;
        }
        devices = parts_.usable() & ~(std::uint32_t{1} << before);
    }
    const std::uint64_t taken = bytes_of_blocks(block_mask(piece.first, piece.end));
    for (bool leaves = present != 0; devices != 0; leaves = false) {
        const auto device = account_->place(taken, devices);
        if (!device) break;
        if (leaves) leave_device(piece.unit, before);
        if (map_.device_of(piece.unit) != *device) map_.set_device(piece.unit, *device);
        last = write_piece(piece, *device, taken);
        if (last || io::lacks_descriptors(last) || unusable()) break;
        devices &= ~(std::uint32_t{1} << *device);
    }
    return last;
}

// The account has taken the bytes already.
Status Replica::write_piece(const Piece& piece, std::uint32_t device, std::uint64_t taken) {
    const Status written = attempt([&]() -> Status {
        const auto file = open_bytes(device);
        return file ? file.value()->write_at(piece.offset, piece.bytes) : file.status();
    });
    if (!written) {
        account_->give_back_on(device, taken);
        // A full device has not failed: its bytes are readable.
        return written.code() == Code::kNoSpace || map_.is_void() ? written : fail(written, device);
    }
    for (std::uint64_t block = piece.first; block < piece.end; ++block) {
        const std::uint64_t at = (block - piece.first) * kBlockBytes;
        map_.set_checksum(piece.unit, block,
                          block_checksum(piece.bytes.subspan(at, std::min(kBlockBytes, piece.bytes.size() - at))));
    }
    map_.publish(piece.unit, block_mask(piece.first, piece.end));
    map_.header().bytes_on(device).fetch_add(taken);
    // A process that voided the replica meanwhile gave back only the bytes stored before.
    if (map_.header().state.load() != MapState::kValid) {
        uncount(taken, device);
        return {Code::kUnavailable, "the replica is not used any more"};
    }
    if (!lost()) return Status::ok();
    failed_.store(true, std::memory_order_relaxed);
    return {Code::kIo, "the presence map cannot be reached"};
}

void Replica::leave_device(std::uint64_t unit, std::uint32_t device) noexcept {
    uncount(bytes_of_blocks(map_.withdraw(unit, ~std::uint64_t{0})), device);
    const std::uint64_t begin = unit * kUnitBytes;
    (void)attempt([&] {
        if (const auto file = open_bytes(device))
            (void)file.value()->punch(begin, std::min(kUnitBytes, source_.size - begin));
    });
}

Result<std::uint64_t> Replica::evict(const Claim& claim) {
    const std::uint64_t unit = claim.unit();
    if (map_.is_void()) return std::uint64_t{0};
    const std::uint32_t device = map_.device_of(unit);
    // The space of an unusable device comes back with the removal of the replica.
    const bool usable = parts_.usable(device);
    const auto file = open_bytes(device);
    if (usable && !file) return fail(file.status(), device);
    const std::uint64_t bytes = bytes_of_blocks(map_.withdraw(unit, ~std::uint64_t{0}) | map_.end_doubt(unit));
    if (bytes == 0) return bytes;
    uncount(bytes, device);
    const std::uint64_t begin = unit * kUnitBytes;
    if (!usable) return bytes;
    if (const Status punched = file.value()->punch(begin, std::min(kUnitBytes, source_.size - begin)); !punched)
        return fail(punched, device);
    return bytes;
}

Result<EvictedUnits> evict_units(const std::shared_ptr<Replica>& replica) {
    EvictedUnits evicted;
    for (std::uint64_t unit = 0; unit < replica->units(); ++unit) {
        if (replica->present_blocks(unit) == 0) continue;
        const auto claim = Replica::claim(replica, unit);
        if (!claim) {
            ++evicted.units_left;
            continue;
        }
        const auto bytes = replica->evict(*claim);
        if (!bytes) return bytes.status();
        evicted.bytes += bytes.value();
    }
    return evicted;
}

}   // namespace forebay::cache
