#include "io/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/background_thread.h"
#include "io/process_limits.h"

namespace forebay::io {

namespace {

// The memory takes at most this part of the bytes that the process may still map.
constexpr std::uint64_t kPartOfLimit = 16;

// F_SEAL_SEAL prevents a later seal that would forbid to clear the memory.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;

Status failed(const char* what) { return Status::from_errno(errno, what); }

}   // namespace

Result<std::unique_ptr<SharedMemory>> SharedMemory::create(std::size_t bytes) {
    const auto mappable = mappable_bytes_left();
    // Beyond the process's file size limit, the system would send a signal.
    if (file_size_limit() < bytes || (mappable && *mappable / kPartOfLimit < bytes))
        return Status(Code::kUnavailable, "make shared memory: a limit of this process leaves no room", ENOMEM);
    std::unique_ptr<SharedMemory> memory(new SharedMemory(::memfd_create("forebay", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
    if (memory->number_ < 0) return failed("make shared memory");
    {
        const SignalsBlocked blocked;   // each signal would make it start again
        if (::fallocate(memory->number_, 0, 0, static_cast<off_t>(bytes)) != 0) return failed("make shared memory");
    }
    if (::fcntl(memory->number_, F_ADD_SEALS, kSeals | F_SEAL_GROW) != 0) return failed("seal shared memory");
    FOREBAY_TRY(memory->map(bytes));
    return memory;
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::adopt(int number, std::size_t bytes) {
    std::unique_ptr<SharedMemory> memory(new SharedMemory(number));
    struct stat facts{};
    struct statfs system{};
    const Status refused(Code::kCorrupt, "the passed descriptor is no sealed memory of the named size");
    // This check comes first, because it asks no file system; that of another file might not answer.
    const int seals = ::fcntl(number, F_GET_SEALS);
    if (seals < 0 || (seals & kSeals) != kSeals) return refused;
    if (::fstat(number, &facts) != 0 || ::fstatfs(number, &system) != 0) return failed("look at shared memory");
    // Huge pages are refused: they can be missing at the first access.
    if (system.f_type != TMPFS_MAGIC || static_cast<std::uint64_t>(facts.st_size) != bytes) return refused;
    FOREBAY_TRY(memory->map(bytes));
    memory->close_number();
    return memory;
}

Status SharedMemory::map(std::size_t bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, number_, 0);
    if (at == MAP_FAILED) return failed("map shared memory");
    bytes_ = {static_cast<std::byte*>(at), bytes};
    return Status::ok();
}

void SharedMemory::clear() noexcept { (void)::madvise(bytes_.data(), bytes_.size(), MADV_REMOVE); }

void SharedMemory::close_number() noexcept {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
}

SharedMemory::~SharedMemory() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
    close_number();
}

}   // namespace forebay::io
