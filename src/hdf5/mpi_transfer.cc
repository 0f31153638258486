#include "hdf5/mpi_transfer.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "hdf5/call_scope.h"
#include "hdf5/guard.h"
#include "hdf5/open_files.h"

namespace forebay::hdf5 {

namespace {

using stage::ByteClass;
using Part = stage::StagedFile::Part;

// MPI's atomic mode: a transfer holds a lock on the bytes from its first to its last.
class AtomicTransfer {
  public:
    AtomicTransfer(const MpiFile& file, short type, ByteRange hull)
        : descriptor_(OpenFiles::get().is_atomic(file.device, file.inode) ? file.descriptor : -1), hull_(hull) {
        if (descriptor_ >= 0)
            locked_ = apply(type);
    }
    ~AtomicTransfer() {
        if (descriptor_ >= 0 && locked_)
            (void)apply(F_UNLCK);
    }
    AtomicTransfer(const AtomicTransfer&) = delete;
    AtomicTransfer& operator=(const AtomicTransfer&) = delete;

    [[nodiscard]] Status status(const std::string& path) const {
        if (descriptor_ < 0 || locked_)
            return Status::ok();
        return Status::from_errno(error_, "lock " + path + " for an atomic transfer");
    }

  private:
    bool apply(short type) {
        struct flock range {};
        range.l_type = type;
        range.l_whence = SEEK_SET;
        range.l_start = static_cast<off_t>(hull_.begin);
        range.l_len = static_cast<off_t>(hull_.size());
        while (::fcntl(descriptor_, F_OFD_SETLKW, &range) != 0)
            if ((error_ = errno) != EINTR)
                return false;
        return true;
    }

    const int descriptor_;
    const ByteRange hull_;
    int error_ = 0;
    bool locked_ = false;
};

ByteRange widen(ByteRange hull, haddr_t address, std::size_t size) noexcept {
    return {std::min<std::uint64_t>(hull.begin, address), std::max<std::uint64_t>(hull.end, address + size)};
}

}   // namespace

bool check_region(const char* function, haddr_t address, std::size_t size_bytes) {
    if (address != HADDR_UNDEF && address <= kMpiMaxAddress && size_bytes <= kMpiMaxAddress - address)
        return true;
    push_error(function, host().H5E_ARGS_g, host().H5E_OVERFLOW_g,
               fmt::format("addr overflow, addr = {}, size = {}", address, size_bytes).c_str());
    return false;
}

Status read_pieces(MpiFile& file, const PieceVector& vector, void* buffers[]) {
    Status outcome;
    ByteRange hull{kOffsetMax, 0};
    constexpr const char* kFunction = "mpi_driver_read";
    if (!vector.for_each(kFunction, [&](std::uint32_t i, ByteClass, std::size_t size) {
            hull = widen(hull, vector.addresses[i], size);
        }))
        return {Code::kInvalidArgument, "read " + file.path};
    if (hull.empty())
        return Status::ok();
    const AtomicTransfer atomic(file, F_RDLCK, hull);
    FOREBAY_TRY(atomic.status(file.path));
    vector.for_each(kFunction, [&](std::uint32_t i, ByteClass, std::size_t size) {
        const io::MutableBytes into{static_cast<std::byte*>(buffers[i]), size};
        if (outcome)
            outcome = file.shared != nullptr ? file.shared->read(vector.addresses[i], into)
                                             : file.read_only->read(vector.addresses[i], into);
    });
    return outcome;
}

Status write_pieces(MpiFile& file, const PieceVector& vector, const void* const buffers[], bool together) {
    constexpr const char* kFunction = "mpi_driver_write";
    if (file.shared == nullptr)
        return Status::from_errno(EBADF, "write to " + file.path);
    std::vector<Part> parts;
    ByteClass byte_class = ByteClass::kRaw;
    Status outcome;
    ByteRange hull{kOffsetMax, 0};
    bool raw = false, metadata = false;
    const auto hand_over = [&] {
        if (outcome && !parts.empty())
            if (Status written = file.shared->write(parts, byte_class, together || Allocation::is_active());
                !written && (together || byte_class == ByteClass::kRaw))
                outcome = std::move(written);
        parts.clear();
    };
    if (!vector.for_each(kFunction, [&](std::uint32_t i, ByteClass class_of_part, std::size_t size) {
            hull = widen(hull, vector.addresses[i], size);
            raw = raw || class_of_part == ByteClass::kRaw;
            metadata = metadata || class_of_part == ByteClass::kMetadata;
        }))
        return {Code::kInvalidArgument, "write to " + file.path};
    if (hull.empty())
        return Status::ok();
    const AtomicTransfer atomic(file, F_WRLCK, hull);
    Status ready = attempt([&] {
        parts.reserve(vector.count);
        return atomic.status(file.path);
    });
    if (!ready) {
        if (metadata)
            file.shared->tell_later(copy_of(ready, "a write failed"), ByteClass::kMetadata);
        return together || raw ? ready : Status::ok();
    }
    vector.for_each(kFunction, [&](std::uint32_t i, ByteClass class_of_part, std::size_t size) {
        if (size == 0)
            return;
        if (class_of_part != byte_class)
            hand_over();
        byte_class = class_of_part;
        parts.push_back({vector.addresses[i], {static_cast<const std::byte*>(buffers[i]), size}});
    });
    hand_over();
    // As mpio does: the end of file is unknown once anybody has written.
    file.end_of_file = HADDR_UNDEF;
    return outcome;
}

}   // namespace forebay::hdf5
