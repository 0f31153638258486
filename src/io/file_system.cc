#include "io/file_system.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>

#include "io/stripe_size.h"

namespace forebay::io {

namespace {

enum class Where : std::uint8_t { kLocal, kMemory, kNetwork };
struct KnownFileSystem {
    std::uint64_t magic;
    std::string_view name;
    Where where;
};
// From linux/magic.h and, for those outside the kernel, from the file systems' own headers.
constexpr std::array kFileSystems{
    KnownFileSystem{0xEF53, "ext4", Where::kLocal},           KnownFileSystem{0x58465342, "xfs", Where::kLocal},
    KnownFileSystem{0x9123683E, "btrfs", Where::kLocal},      KnownFileSystem{0x2FC12FC1, "zfs", Where::kLocal},
    KnownFileSystem{0xF2F52010, "f2fs", Where::kLocal},       KnownFileSystem{0xCA451A4E, "bcachefs", Where::kLocal},
    KnownFileSystem{0x794C7630, "overlayfs", Where::kLocal},  KnownFileSystem{0x01021994, "tmpfs", Where::kMemory},
    KnownFileSystem{0x858458F6, "ramfs", Where::kMemory},     KnownFileSystem{0x6969, "nfs", Where::kNetwork},
    KnownFileSystem{0x517B, "smb", Where::kNetwork},          KnownFileSystem{0xFE534D42, "smb", Where::kNetwork},
    KnownFileSystem{0xFF534D42, "cifs", Where::kNetwork},     KnownFileSystem{0x0BD00BD0, "lustre", Where::kNetwork},
    KnownFileSystem{0x47504653, "gpfs", Where::kNetwork},     KnownFileSystem{0x19830326, "beegfs", Where::kNetwork},
    KnownFileSystem{0x00C36400, "ceph", Where::kNetwork},     KnownFileSystem{0x65735546, "fuse", Where::kNetwork},
    KnownFileSystem{0x01021997, "9p", Where::kNetwork},       KnownFileSystem{0x5346414F, "afs", Where::kNetwork},
    KnownFileSystem{0x6B414653, "afs", Where::kNetwork},      KnownFileSystem{0x73757245, "coda", Where::kNetwork},
    KnownFileSystem{0x01161970, "gfs2", Where::kNetwork},     KnownFileSystem{0x7461636F, "ocfs2", Where::kNetwork},
    KnownFileSystem{0x20030528, "orangefs", Where::kNetwork}, KnownFileSystem{0xAAD7AAEA, "panfs", Where::kNetwork},
    KnownFileSystem{0xBACBACBC, "vmhgfs", Where::kNetwork},   KnownFileSystem{0x786F4256, "vboxsf", Where::kNetwork},
};

constexpr std::uint64_t kFuse = 0x65735546;

// Servers keep the times of these file systems, and never reuse an inode number with the same times. Clients of SMB and
// 9p may make up inode numbers, and so may FUSE programs.
constexpr std::array<std::string_view, 5> kSure{"lustre", "gpfs", "nfs", "beegfs", "ceph"};
// fuse.slowfs is the file system of the tests (tools/slowfs). GlusterFS is left out: with shards, a client kept a
// file's old times (75 s watched) while it read new bytes of a shard that another client had overwritten.
constexpr std::array<std::string_view, 3> kSureFuse{"fuse.juicefs", "fuse.ceph-fuse", "fuse.slowfs"};

bool is_listed(std::uint64_t magic) {
    return std::ranges::any_of(kFileSystems, [&](const KnownFileSystem& known) { return known.magic == magic; });
}

// Returns the device number if the magic number is not enough: for FUSE, and for unlisted file systems.
std::optional<dev_t> telling_device(int descriptor, std::uint64_t magic) {
    struct stat file{};
    if ((magic != kFuse && is_listed(magic)) || ::fstat(descriptor, &file) != 0) return std::nullopt;
    return file.st_dev;
}

// Their clients keep written bytes, and the times change when they pass them on. GlusterFS does so by
// performance.write-behind, its default, rclone at the upload, JuiceFS at the commit of a slice (its pkg/vfs).
constexpr std::array<std::string_view, 3> kLateFuse{"fuse.glusterfs", "fuse.rclone", "fuse.juicefs"};

struct MountFacts {
    std::uint32_t magic = 0;
    bool local = false, sure_versions = false, may_lease = true;
    TimesKind times = TimesKind::kServed;
    bool whole = true;   // false: the table of mounts was unreadable, and may be readable later
};

// The mounts that this process has asked about, at most kMountsMax. Thread-safe. Never waits for the lock: a fork may
// have left it taken; then it asks the system.
class MountTable {
  public:
    static MountTable& of_process() noexcept {
        static MountTable table;
        return table;
    }
    [[nodiscard]] std::optional<MountFacts> find(std::uint64_t mount) noexcept {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock) return std::nullopt;
        const auto end = known_.begin() + static_cast<std::ptrdiff_t>(count_);
        const auto found = std::find_if(known_.begin(), end, [&](const Known& one) { return one.mount == mount; });
        return mount == 0 || found == end ? std::nullopt : std::optional(found->facts);
    }
    void add(std::uint64_t mount, const MountFacts& facts) noexcept {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (lock && mount != 0 && count_ < known_.size()) known_[count_++] = {mount, facts};
    }

  private:
    static constexpr std::size_t kMountsMax = 64;
    struct Known {
        std::uint64_t mount = 0;
        MountFacts facts;
    };
    std::mutex mutex_;
    std::array<Known, kMountsMax> known_;
    std::size_t count_ = 0;
};

}   // namespace

FileSystemKind file_system_kind(std::uint64_t magic) {
    for (const KnownFileSystem& known : kFileSystems)
        if (known.magic == magic)
            return {std::string(known.name), known.where == Where::kNetwork, known.where == Where::kMemory,
                    known.where != Where::kNetwork};
    return {fmt::format("0x{:x}", magic), false, false, false};
}

// NFS and similar file systems set the times at the write-back. A request for them would force it now.
TimesKind times_kind(std::uint64_t magic, std::string_view type) {
    if (magic == kFuse && std::ranges::find(kLateFuse, type) != kLateFuse.end()) return TimesKind::kLazy;
    const FileSystemKind kind = file_system_kind(magic);
    if (kind.local) return TimesKind::kExact;
    return kind.name == "nfs" || kind.name == "smb" || kind.name == "cifs" || kind.name == "afs" || kind.name == "9p" ||
                   kind.name == "coda"
               ? TimesKind::kLazy
               : TimesKind::kServed;
}

bool has_sure_versions(std::uint64_t magic, std::string_view type) {
    if (magic == kFuse) return std::ranges::find(kSureFuse, type) != kSureFuse.end();
    return std::ranges::find(kSure, std::string_view(file_system_kind(magic).name)) != kSure.end();
}

// Source: proc_pid_mountinfo(5). The device is the third word; the type follows the word "-".
std::string mounted_type(std::istream& table, unsigned major, unsigned minor) {
    const std::string device = fmt::format("{}:{}", major, minor);
    for (std::string line; std::getline(table, line);) {
        std::istringstream words(line);
        std::string mount, parent, number, type;
        if (!(words >> mount >> parent >> number) || number != device) continue;
        while (words >> type)
            if (type == "-") return words >> type ? type : std::string();
    }
    return {};
}

namespace {

std::optional<MountFacts> ask_mount(int descriptor) {
    struct statfs facts{};
    if (::fstatfs(descriptor, &facts) != 0) return std::nullopt;
    const auto magic = static_cast<std::uint32_t>(facts.f_type);
    const std::optional<dev_t> device = telling_device(descriptor, magic);
    // squashfs, erofs, FAT and others, and NTFS by FUSE, lie on a device of this machine.
    const bool local = file_system_kind(magic).local || (device && gnu_dev_major(*device) != 0);
    std::string type;
    if (magic == kFuse && device && !local) {
        std::ifstream table("/proc/self/mountinfo");
        type = mounted_type(table, gnu_dev_major(*device), gnu_dev_minor(*device));
    }
    const bool asks_table = magic == kFuse && !local;
    const TimesKind times = times_kind(magic, type);
    return MountFacts{.magic = magic,
                      .local = local,
                      .sure_versions = has_sure_versions(magic, type),
                      .may_lease = magic == kFuse || times != TimesKind::kLazy,
                      .times = times,
                      .whole = !asks_table || !type.empty()};
}

}   // namespace

FileTraits traits_of(int descriptor, std::uint64_t block_bytes, std::uint64_t mount) {
    std::optional<MountFacts> facts = MountTable::of_process().find(mount);
    if (!facts) {
        facts = ask_mount(descriptor);
        if (!facts) return {.reports_late = true};
        if (facts->whole) MountTable::of_process().add(mount, *facts);
    }
    return {.local = facts->local,
            .may_hang = !facts->local,
            .page_cache = facts->local,
            .reports_late = !facts->local,
            .in_memory = file_system_kind(facts->magic).memory,
            .stripe_bytes = ask_stripe_size(descriptor, facts->magic, block_bytes),
            .times = facts->times,
            .may_lease = facts->may_lease,
            .sure_versions = facts->sure_versions};
}

Result<FileSystemKind> file_system_of(const std::string& path) {
    struct statfs facts{};
    int error = 0;
    do error = ::statfs(path.c_str(), &facts) == 0 ? 0 : errno;
    while (error == EINTR);
    if (error != 0) return Status::from_errno(error, "look at the file system of " + path);
    // f_type is signed and of different width on different machines. The magic number has 32 bits.
    return file_system_kind(static_cast<std::uint32_t>(facts.f_type));
}

}   // namespace forebay::io
