#include "io/posix_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>

#include "base/attempt.h"
#include "base/background_thread.h"
#include "io/file_control.h"
#include "io/file_system.h"
#include "io/guarded_access.h"
#include "io/lock_wait.h"
#include "io/open_existing.h"
#include "io/path.h"
#include "io/posix_call.h"
#include "io/posix_mapping.h"
#include "io/process_limits.h"
#include "io/record_locks.h"

namespace forebay::io {

namespace {

// Linux transfers at most 0x7ffff000 bytes per call; a round number below keeps the pieces aligned.
constexpr std::size_t kTransferMax = std::size_t{1} << 30;
constexpr std::size_t kPiecesMax = 1024;   // IOV_MAX on Linux

std::uint64_t nanoseconds(const struct statx_timestamp& time) noexcept {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// None: errno has the reason.
std::optional<FileState> state_of(int at, const char* path, int flags) noexcept {
    struct statx facts{};
    if (::statx(at, path, flags, STATX_BASIC_STATS | STATX_BTIME | kMountUnique, &facts) != 0) return std::nullopt;
    FileState state{facts.stx_size, nanoseconds(facts.stx_mtime), nanoseconds(facts.stx_ctime)};
    if ((facts.stx_mask & STATX_BTIME) != 0) state.born_ns = nanoseconds(facts.stx_btime);
    state.mode = facts.stx_mode;
    state.links = facts.stx_nlink;
    state.owner = facts.stx_uid;
    state.group = facts.stx_gid;
#ifdef STATX_MNT_ID
    if ((facts.stx_mask & kMountUnique) != 0) state.mount = facts.stx_mnt_id;
#endif
    return state;
}

off_t as_off(std::uint64_t value) { return static_cast<off_t>(value); }

class PosixFile final : public File {
  public:
    PosixFile(std::shared_ptr<Descriptor> descriptor, std::string name, bool staging)
        : descriptor_(std::move(descriptor)), name_(std::move(name)), staging_(staging) {}

    const std::string& name() const noexcept override { return name_; }

    Result<std::size_t> read_at(std::uint64_t offset, MutableBytes into) override {
        const auto use = descriptor_->use();
        if (!use) return use.status();
        const int descriptor = use.value().number();
        std::size_t done = 0;
        while (done < into.size()) {
            const std::size_t want = std::min(into.size() - done, kTransferMax);
            const ssize_t got = restarted([&] {
                return ::pread(descriptor, into.data() + done, want, as_off(offset + done));
            });
            if (got < 0) return failure("read", offset + done, want);
            if (got == 0) break;
            done += static_cast<std::size_t>(got);
        }
        return done;
    }

    Status write_at(std::uint64_t offset, Bytes bytes) override {
        return write_gather_at(offset, std::span(&bytes, 1));
    }

    Status write_gather_at(std::uint64_t offset, std::span<const Bytes> pieces) override {
        FOREBAY_TRY(stay_within(offset, pieces));
        const auto use = descriptor_->use();
        if (!use) return use.status();
        const int descriptor = use.value().number();
        std::size_t skip = 0;   // bytes of pieces.front() already written
        while (!pieces.empty()) {
            if (pieces.front().size() == skip) {
                pieces = pieces.subspan(1);
                skip = 0;
                continue;
            }
            std::array<iovec, kPiecesMax> vector;
            std::size_t count = 0, want = 0;
            for (const Bytes& piece : pieces.first(std::min(pieces.size(), kPiecesMax))) {
                const Bytes rest = piece.subspan(count == 0 ? skip : 0);
                const std::size_t take = std::min(rest.size(), kTransferMax - want);
                // iovec has no const form; pwritev only reads through it.
                vector[count++] = {const_cast<std::byte*>(rest.data()), take};
                want += take;
                if (take < rest.size()) break;
            }
            const ssize_t wrote = restarted([&] {
                return ::pwritev(descriptor, vector.data(), static_cast<int>(count), as_off(offset));
            });
            if (wrote < 0) return failure("write", offset, want);
            if (wrote == 0) {
                errno = EIO;
                return failure("write", offset, want);
            }
            offset += static_cast<std::uint64_t>(wrote);
            std::size_t advance = static_cast<std::size_t>(wrote) + skip;
            while (!pieces.empty() && advance >= pieces.front().size()) {
                advance -= pieces.front().size();
                pieces = pieces.subspan(1);
            }
            skip = advance;
        }
        return Status::ok();
    }

    FileTraits traits() override {
        const auto use = descriptor_->use();
        return use ? traits_of(use.value().number(), descriptor_->block_bytes(), descriptor_->mount()) : FileTraits{};
    }

    Result<Identity> identity() override {
        if (const auto known = descriptor_->identity()) return *known;
        const auto use = descriptor_->use();
        if (!use) return use.status();
        return identify(use.value().number(), name_);
    }

    Result<std::uint64_t> size() override {
        const auto use = descriptor_->use();
        if (!use) return use.status();
        struct stat facts{};
        if (::fstat(use.value().number(), &facts) != 0) return failure("stat");
        return static_cast<std::uint64_t>(facts.st_size);
    }

    Result<FileState> state(Ask ask) override {
        const auto use = descriptor_->use();
        if (!use) return use.status();
        const int sync = ask == Ask::kOfServer ? AT_STATX_FORCE_SYNC : AT_STATX_SYNC_AS_STAT;
        auto found = state_of(use.value().number(), "", AT_EMPTY_PATH | sync);
        if (!found) return failure("stat");
        if (ask == Ask::kWithGeneration) {
            // The request's number says that this writes a long; file systems write an int.
            long generation = 0;
            if (::ioctl(use.value().number(), FS_IOC_GETVERSION, &generation) == 0)
                found->generation = static_cast<std::uint32_t>(generation);
        }
        return *found;
    }

    Status resize(std::uint64_t size) override {
        FOREBAY_TRY(stay_within(size));
        const auto use = descriptor_->use();
        if (!use) return use.status();
        if (restarted([&] { return ::ftruncate(use.value().number(), as_off(size)); }) != 0)
            return failed_call(errno, [&] { return fmt::format("set size of {} to {} bytes", name_, size); });
        return Status::ok();
    }

    Status allocate(std::uint64_t offset, std::uint64_t length) override {
        FOREBAY_TRY(stay_within(offset + length));
        const auto use = descriptor_->use();
        if (!use) return use.status();
        const int descriptor = use.value().number();
        // In memory, an interrupted allocation begins anew, so a fast timer would make it endless.
        const SignalsBlocked blocked;
        if (restarted([&] { return ::fallocate(descriptor, 0, as_off(offset), as_off(length)); }) == 0)
            return Status::ok();
        if (errno != EOPNOTSUPP) return failure("allocate", offset, length);
        // Without fallocate, writing is the only reservation.
        const int error = ::posix_fallocate(descriptor, as_off(offset), as_off(length));
        if (error == 0) return Status::ok();
        errno = error;
        return failure("allocate", offset, length);
    }

    Status punch(std::uint64_t offset, std::uint64_t length) override {
        const auto use = descriptor_->use();
        if (!use) return use.status();
        if (restarted([&] {
                return ::fallocate(use.value().number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, as_off(offset),
                                   as_off(length));
            }) != 0)
            return failure("punch a hole", offset, length);
        return Status::ok();
    }

    Result<std::unique_ptr<Mapping>> map(std::uint64_t offset, std::size_t length) override {
        const auto use = descriptor_->use();
        if (!use) return use.status();
        install_fault_handler();
        void* address = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, use.value().number(),
                               as_off(offset));
        if (address == MAP_FAILED) return failure("map", offset, length);
        if (staging_)
            ::munlock(address,
                      length);   // a program that locks all of its memory means its own, and may be at its limit
        return own_mapping({static_cast<std::byte*>(address), length});
    }

    Status sync() override {
        const auto use = descriptor_->use();
        if (!use) return use.status();
        if (restarted([&] { return ::fdatasync(use.value().number()); }) != 0) return failure("sync");
        return Status::ok();
    }

    // A close would end the program's record locks on the file. With such locks, or without a free descriptor, this
    // syncs instead.
    Status flush() override {
        const auto known = identity();
        if (!known || has_record_locks(known.value())) return sync();
        const std::optional<int> error = descriptor_->flush_as_close();
        if (!error) return sync();
        return *error == 0 ? Status::ok() : failed_call(*error, [&] { return "close " + name_; });
    }

    // The system tells each descriptor once. Far behind the end there is no page to wait for.
    Status late_failure() override {
        constexpr std::uint64_t kNoPage = std::uint64_t{1} << 62;
        const auto use = descriptor_->use();
        if (!use) return use.status();
        if (::sync_file_range(use.value().number(), as_off(kNoPage), 1, SYNC_FILE_RANGE_WAIT_BEFORE) == 0 ||
            errno == EINVAL || errno == ENOSYS || errno == ESPIPE)   // it tells nothing here
            return Status::ok();
        return failure("write back");
    }

    void begin_sync(std::uint64_t offset, std::uint64_t length) noexcept override {
        // This flag alone waits for nothing, and takes no error of the file away from a later sync.
        if (descriptor_->is_ours())
            (void)::sync_file_range(descriptor_->number(), as_off(offset), as_off(length), SYNC_FILE_RANGE_WRITE);
    }

    void rest() noexcept override { descriptor_->rest(); }

    [[nodiscard]] const std::shared_ptr<Descriptor>& descriptor() const noexcept { return descriptor_; }

  private:
    // Otherwise the system would end the process with SIGXFSZ, for a file that the program does not know.
    Status stay_within(std::uint64_t end) const {
        const std::uint64_t limit = staging_ ? file_size_limit() : UINT64_MAX;
        if (end <= limit) return Status::ok();
        return Status::from_errno(
            EFBIG, fmt::format("write {} to offset {}, beyond the limit of the process for files (ulimit -f, {} bytes)",
                               name_, end, limit));
    }
    Status stay_within(std::uint64_t offset, std::span<const Bytes> pieces) const {
        if (!staging_) return Status::ok();
        std::uint64_t end = offset;
        for (const Bytes& piece : pieces) end += piece.size();
        return stay_within(end);
    }
    Status failure(const char* call) const noexcept {
        return failed_call(errno, [&] { return fmt::format("{} {}", call, name_); });
    }
    Status failure(const char* call, std::uint64_t offset, std::uint64_t length) const noexcept {
        return failed_call(errno,
                           [&] { return fmt::format("{} {} bytes at offset {} of {}", call, length, offset, name_); });
    }

    const std::shared_ptr<Descriptor> descriptor_;
    const std::string name_;
    const bool staging_;
};

}   // namespace

std::unique_ptr<File> adopt_posix_file(int descriptor, std::string name) {
    const int flags = ::fcntl(descriptor, F_GETFL);
    std::string path = complete_path(name);
    return make_posix_file(std::make_shared<Descriptor>(descriptor, std::move(path), flags < 0 ? O_RDONLY : flags),
                           std::move(name));
}

std::unique_ptr<File> make_posix_file(std::shared_ptr<Descriptor> descriptor, std::string name) {
    return std::make_unique<PosixFile>(std::move(descriptor), std::move(name), false);
}

std::unique_ptr<File> make_staging_file(std::shared_ptr<Descriptor> descriptor, std::string name) {
    return std::make_unique<PosixFile>(std::move(descriptor), std::move(name), true);
}

std::shared_ptr<Descriptor> descriptor_of(File& file) noexcept {
    const auto* const posix = dynamic_cast<const PosixFile*>(&file);
    return posix != nullptr ? posix->descriptor() : nullptr;
}

Result<Identity> identify(int descriptor, const std::string& name) {
    struct stat facts{};
    if (::fstat(descriptor, &facts) != 0) return Status::from_errno(errno, "stat " + name);
    return Identity{static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino)};
}

Result<Identity> identify(const std::string& path) {
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0) return Status::from_errno(errno, "stat " + path);
    return Identity{static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino)};
}

bool is_name_of(const std::string& path, const Identity& identity) noexcept {
    struct stat facts{};
    return ::lstat(path.c_str(), &facts) == 0 && facts.st_dev == identity.device && facts.st_ino == identity.inode;
}

std::uint64_t owner_of(const std::string& path) noexcept {
    struct stat facts{};
    return ::stat(path.c_str(), &facts) == 0 ? facts.st_uid : ::geteuid();
}

std::uint64_t born_ns(const std::string& path) noexcept {
    const auto state = state_of(AT_FDCWD, path.c_str(), 0);
    return state ? state->born_ns : 0;
}

namespace {

Status set_modified(Descriptor& descriptor, const std::string& path, std::uint64_t modified_ns) {
    const auto use = descriptor.use();
    if (!use) return use.status();
    constexpr std::uint64_t kSecond = 1'000'000'000;
    const timespec times[] = {{0, UTIME_OMIT},
                              {static_cast<time_t>(modified_ns / kSecond), static_cast<long>(modified_ns % kSecond)}};
    if (::futimens(use.value().number(), times) != 0)
        return Status::from_errno(errno, "set the time of the last change of " + path);
    return Status::ok();
}

ExistingFile existing_by(const std::shared_ptr<Descriptor>& descriptor, const std::string& path) {
    return {make_posix_file(descriptor, path), {}, 0, [descriptor, path](std::uint64_t modified_ns) {
                return set_modified(*descriptor, path, modified_ns);
            }};
}

Status check_existing(int descriptor, const std::string& path, ExistingFile& existing) {
    struct stat facts{};
    if (::fstat(descriptor, &facts) != 0) return Status::from_errno(errno, "stat " + path);
    if (!S_ISREG(facts.st_mode)) return Status(Code::kInvalidArgument, "open " + path + ": it is no regular file");
    existing.identity = {static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino)};
    existing.modified_ns = modified_ns(facts);
    return Status::ok();
}

// Locks through the descriptor, so a file that is opened anew is locked again.
bool lock_within(Descriptor& descriptor, std::chrono::milliseconds at_most) {
    if (at_most.count() > 0 && !await_exclusive_lock(descriptor.number(), at_most)) return false;
    return descriptor.lock(LOCK_EX | LOCK_NB);
}

}   // namespace

Result<ExistingFile> open_existing_file(const std::string& path, Directory::Patience patience) {
    const int descriptor = open_patiently(path, O_RDWR);
    if (descriptor < 0) return Status::from_errno(errno, "open " + path);
    // A child that another thread forks meanwhile inherits the descriptor, so closing it would leave the child the
    // lock.
    const std::shared_ptr<Descriptor> owned(new Descriptor(descriptor, complete_path(path), O_RDWR),
                                            [](Descriptor* locked) noexcept {
                                                (void)locked->lock(LOCK_UN);
                                                delete locked;
                                            });
    ExistingFile existing = existing_by(owned, path);
    FOREBAY_TRY(check_existing(descriptor, path, existing));
    if (!lock_within(*owned, patience.at_most.value_or(std::chrono::hours(24))) && errno == EWOULDBLOCK)
        return Status(Code::kUnavailable, "open " + path + ": another process has it open", EWOULDBLOCK, true);
    return existing;
}

Result<ExistingFile> existing_file(const std::shared_ptr<Descriptor>& descriptor, const std::string& path) {
    const auto use = descriptor->use();
    if (!use) return use.status();
    ExistingFile existing = existing_by(descriptor, path);
    FOREBAY_TRY(check_existing(use.value().number(), path, existing));
    return existing;
}

}   // namespace forebay::io
