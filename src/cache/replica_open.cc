// Opens a replica: opens or makes its files and parts, and makes the process one of its owners.
#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "cache/replica.h"
#include "cache/replica_files.h"

namespace forebay::cache {

namespace {

void remove_both(io::Directory& folder) {
    (void)folder.remove_file(kPresenceFile);
    (void)folder.remove_file(kReplicaFile);
    (void)folder.remove_file(kSourceFile);
}

// kUnavailable with EBUSY: a process writes the source. Needs the folder's lock.
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

// The caller may read and write the map: a page that faults is replaced.
Result<ReplicaFiles> open_both(io::Directory& folder, io::OpenMode mode, std::uint64_t source_bytes) {
    ReplicaFiles opened;
    const bool fresh = mode == io::OpenMode::kCreateNew;
    auto bytes = folder.open_file(kReplicaFile, mode);
    if (!bytes) return bytes.status();
    opened.bytes = std::move(bytes).value();
    if (fresh) FOREBAY_TRY(opened.bytes->resize(source_bytes));
    auto map = folder.open_file(kPresenceFile, mode);
    if (!map) return map.status();
    // Allocate the whole map, so that stores to it cannot run out of space.
    if (fresh) FOREBAY_TRY(map.value()->allocate(0, Presence::bytes_for(source_bytes)));
    const auto size = map.value()->size();
    if (!size) return size.status();
    if (size.value() == 0) return Status(Code::kCorrupt, "a presence map is empty");
    auto mapping = map.value()->map(0, size.value());
    if (!mapping) return mapping.status();
    opened.mapping = std::move(mapping).value();
    opened.replaceable = std::make_unique<io::Replaceable>(opened.mapping->bytes());
    if (!opened.replaceable->protects()) return too_many_maps();
    return opened;
}

// An error after the replacement of a page: other processes, and later ones, do not see what was changed in the map.
Status see_shared(const ReplicaFiles& files) {
    return files.replaceable->replaced() ? Status(Code::kIo, "the presence map cannot be reached") : Status::ok();
}

// Errors do not count.
void note_source(io::Directory& folder, std::string_view path) {
    if (path.empty() || path.size() > kSourcePathMax) return;
    if (const auto file = folder.open_file(kSourceFile, io::OpenMode::kCreateNew))
        (void)file.value()->write_at(0, std::as_bytes(std::span(path)));
}

// Keeps the replica for later workers of the same parent (docs/cache-format.md). Removes notes of ended parents.
void note_parent(io::Directory& folder, const area::ProcessIdentity& parent) {
    const std::string own = std::string(kParentPrefix) + area::process_name(parent);
    bool noted = false;
    if (const auto names = folder.list())
        for (const std::string& name : names.value()) {
            if (!name.starts_with(kParentPrefix)) continue;
            const auto other = area::process_of_name(std::string_view(name).substr(kParentPrefix.size()));
            if (name == own) noted = true;
            else if (!other || !area::is_seen_running(*other)) (void)folder.remove_file(name);
        }
    if (!noted) (void)folder.open_file(own, io::OpenMode::kCreateNew);
}

std::uint64_t size_of_map(io::Directory& folder) {
    const auto file = folder.open_file(kPresenceFile, io::OpenMode::kRead);
    const auto size = file ? file.value()->size() : Result<std::uint64_t>(file.status());
    return size ? size.value() : 0;
}

// Gives the bytes of a void replica back, and removes its files on further devices.
void remove_parts(PresenceHeader& header, Account& account) {
    account.give_back(header.stored_bytes.exchange(0));
    for (const PartFolder& where : account.parts()) {
        account.give_back_on(where.device, header.device_bytes[where.device].exchange(0));
        if (where.folder != nullptr) (void)where.folder->remove_file(part_name(header.source.identity, header.made_ns));
    }
}

Result<ReplicaFiles> make_both(io::Directory& folder, const Version& source, const area::BootId& boot_id,
                               std::uint64_t now_ns, Account& account) {
    account.give_back(size_of_map(folder));
    remove_both(folder);
    const std::uint64_t map_bytes = Presence::bytes_for(source.size);
    if (!account.take(map_bytes)) return cache_is_full();
    auto made = open_both(folder, io::OpenMode::kCreateNew, source.size);
    if (made) {
        Presence::make(made.value().mapping->bytes(), source, boot_id, now_ns,
                       account.parts().empty() ? kPresenceVersion : kSpreadVersion);
        if (const Status shared = see_shared(made.value()); !shared) made = shared;
    }
    if (!made) {
        account.give_back(map_bytes);
        remove_both(folder);
    }
    return made;
}

}   // namespace

Result<std::shared_ptr<Replica>> Replica::open(std::unique_ptr<io::Directory> folder, const Version& source,
                                               const area::BootId& boot_id, std::uint64_t now_ns,
                                               std::shared_ptr<Account> account, const Keeping& keeping) {
    const auto locked = folder->lock(io::Directory::Patience{kFolderPatience});
    if (!locked) return locked.status();
    FOREBAY_TRY(see_no_writer(*folder));
    auto parts = MakeParts::kIfAlone;
    std::uint32_t flags = keeping.permanent ? kPermanent : 0;
    std::shared_ptr<Replica> replica;
    auto there = open_both(*folder, io::OpenMode::kReadWrite, source.size);
    if (!there && says_nothing(there.status())) return there.status();
    if (there) {
        const auto map = Presence::open(there.value().mapping->bytes());
        FOREBAY_TRY(see_shared(there.value()));
        if (map && !map.value().is_void() && map.value().header().source == source &&
            (!keeping.only_in_use || ReplicaUse::is_used(*folder)) &&
            (map.value().header().boot_id == boot_id || !ReplicaUse::is_used(*folder))) {
            if (map.value().header().boot_id != boot_id) map.value().doubt_all(boot_id);
            if (!map.value().spreads() && !account->parts().empty() && !ReplicaUse::is_used(*folder))
                map.value().spread();
            replica.reset(new Replica(std::move(folder), std::move(there).value(), map.value(), std::move(account)));
        } else if (map) {
            map.value().make_void();
            FOREBAY_TRY(see_shared(there.value()));   // otherwise each open would give the same bytes back
            remove_parts(map.value().header(), *account);
            flags |= map.value().header().flags.load() & kPinned;   // the pin is the file's, not the version's
        }
    }
    if (replica == nullptr && !keeping.make)
        return Status(Code::kUnavailable, "there is no replica of this version", ESTALE);
    if (replica == nullptr) {
        there = Status(Code::kNotFound, {});   // its mapping ends
        auto made = make_both(*folder, source, boot_id, now_ns, *account);
        FOREBAY_TRY(made.status());
        const auto map = Presence::open(made.value().mapping->bytes());
        FOREBAY_TRY(map.status());
        note_source(*folder, keeping.path);
        parts = MakeParts::kAlways;
        replica.reset(new Replica(std::move(folder), std::move(made).value(), map.value(), std::move(account)));
    }
    FOREBAY_TRY(replica->begin_use(parts));
    if (keeping.parent) note_parent(*replica->folder_, *keeping.parent);
    replica->folder_->rest();
    replica->map_.header().flags.fetch_or(flags);
    replica->use_.note_opened(now_ns);
    return replica;
}

Result<std::shared_ptr<Replica>> Replica::open_existing(std::unique_ptr<io::Directory> folder,
                                                        const area::BootId& boot_id, std::shared_ptr<Account> account) {
    const auto locked = folder->lock(io::Directory::Patience{kFolderPatience});
    if (!locked) return locked.status();
    auto there = open_both(*folder, io::OpenMode::kReadWrite, 0);
    if (!there) return there.status();
    const auto map = Presence::open(there.value().mapping->bytes());
    FOREBAY_TRY(see_shared(there.value()));
    if (!map) return Status(Code::kNotFound, map.status().message());
    if (map.value().is_void()) return Status(Code::kNotFound, "the replica is void");
    auto parts = MakeParts::kNever;
    if (map.value().header().boot_id != boot_id) {
        if (ReplicaUse::is_used(*folder)) return Status(Code::kUnavailable, "another machine uses the replica");
        map.value().doubt_all(boot_id);
        parts = MakeParts::kAlways;   // parts in memory are gone
    }
    std::shared_ptr<Replica> replica(new Replica(std::move(folder), std::move(there).value(), map.value(),
                                                 std::move(account)));
    FOREBAY_TRY(replica->begin_use(parts));
    replica->folder_->rest();
    return replica;
}

Status Replica::begin_use(MakeParts parts) {
    open_parts(parts);
    FOREBAY_TRY(use_.begin());
    return see_shared(files_);
}

// A part that cannot be opened is missing for this process. Without memory all further parts are missing.
void Replica::open_parts(MakeParts make) {
    if (!map_.spreads() || account_->parts().empty()) return;
    const bool alone = make == MakeParts::kAlways || (make == MakeParts::kIfAlone && !ReplicaUse::is_used(*folder_));
    const std::string name = part_name(source_.identity, map_.header().made_ns);
    for (const PartFolder& where : account_->parts()) {
        Result<std::unique_ptr<io::File>> file(Status(Code::kNotFound, "its device cannot be used"));
        if (where.folder != nullptr) file = where.folder->open_file(name, io::OpenMode::kReadWrite);
        if (!file && io::lacks_descriptors(file.status())) continue;
        if (!file && alone) {
            drop_device(where.device);
            if (where.folder != nullptr) file = where.folder->open_file(name, io::OpenMode::kCreateNew);
            if (file)
                if (const Status resized = file.value()->resize(source_.size); !resized) file = resized;
        }
        if (file) parts_.add(where, name, std::move(file).value());
    }
}

// Call only if no other process has the replica open.
void Replica::drop_device(std::uint32_t device) noexcept {
    for (std::uint64_t unit = 0; unit < map_.units(); ++unit) {
        if (map_.device_of(unit) != device || (map_.present(unit) | map_.doubtful(unit)) == 0) continue;
        (void)map_.withdraw(unit, ~std::uint64_t{0});
        (void)map_.end_doubt(unit);
    }
    account_->give_back_on(device, map_.header().device_bytes[device].exchange(0));
}

}   // namespace forebay::cache
