#include "hdf5/driver/mpi_transfer.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "hdf5/call_scope.h"

namespace forebay::hdf5 {

namespace {

using stage::ByteClass;
using Part = stage::StagedFile::Part;

// MPI's atomic mode: a transfer locks the range from its first byte to its last.
class AtomicTransfer {
  public:
    AtomicTransfer(const OpenFile& file, short type, ByteRange hull)
        : descriptor_(file.atomic ? file.descriptor.get() : nullptr), hull_(hull) {
        if (descriptor_ != nullptr) locked_ = apply(type);
    }
    ~AtomicTransfer() {
        if (descriptor_ != nullptr && locked_) (void)apply(F_UNLCK);
    }
    AtomicTransfer(const AtomicTransfer&) = delete;
    AtomicTransfer& operator=(const AtomicTransfer&) = delete;

    [[nodiscard]] Status status(const std::string& path) const {
        if (descriptor_ == nullptr || locked_) return Status::ok();
        return Status::from_errno(error_, "lock " + path + " for an atomic transfer");
    }

  private:
    bool apply(short type) {
        struct flock range{};
        range.l_type = type;
        range.l_whence = SEEK_SET;
        range.l_start = static_cast<off_t>(hull_.begin);
        range.l_len = static_cast<off_t>(hull_.size());
        const auto use = descriptor_->use();
        if (!use) {
            error_ = use.status().sys_errno();
            return false;
        }
        while (::fcntl(use.value().number(), F_OFD_SETLKW, &range) != 0)
            if ((error_ = errno) != EINTR) return false;
        return true;
    }

    io::Descriptor* const descriptor_;
    const ByteRange hull_;
    int error_ = 0;
    bool locked_ = false;
};

ByteRange widen(ByteRange hull, haddr_t address, std::size_t size) noexcept {
    return {std::min<std::uint64_t>(hull.begin, address), std::max<std::uint64_t>(hull.end, address + size)};
}

}   // namespace

Status read_pieces(MpiFile& file, const PieceVector& vector, void* buffers[]) {
    const OpenFile& open = *file.open;
    ByteRange hull{kOffsetMax, 0};
    constexpr const char* kFunction = "mpi_driver_read";
    if (!vector.for_each(kFunction, [&](std::uint32_t i, ByteClass, std::size_t size) {
            hull = widen(hull, vector.addresses[i], size);
        }))
        return {Code::kInvalidArgument, "read " + open.path};
    if (hull.empty()) return Status::ok();
    const AtomicTransfer atomic(open, F_RDLCK, hull);
    FOREBAY_TRY(atomic.status(open.path));
    std::vector<stage::StagedFile::ReadPart> parts;
    parts.reserve(vector.count);
    vector.for_each(kFunction, [&](std::uint32_t i, ByteClass, std::size_t size) {
        parts.push_back({vector.addresses[i], {static_cast<std::byte*>(buffers[i]), size}});
    });
    return open.file->read(parts);
}

Status write_pieces(MpiFile& file, const PieceVector& vector, const void* const buffers[], bool together) {
    constexpr const char* kFunction = "mpi_driver_write";
    const OpenFile& open = *file.open;
    if (open.shared == nullptr) return Status::from_errno(EBADF, "write to " + open.path);
    std::vector<Part> parts;
    ByteClass byte_class = ByteClass::kRaw;
    Status outcome;
    ByteRange hull{kOffsetMax, 0};
    bool raw = false, metadata = false;
    const auto hand_over = [&] {
        if (outcome && !parts.empty())
            if (Status written = together || CallScope::kind() != CallKind::kOwnData
                                     ? open.shared->write_together(parts, byte_class)
                                     : open.shared->write(parts, byte_class);
                !written && (together || byte_class == ByteClass::kRaw))
                outcome = std::move(written);
        parts.clear();
    };
    if (!vector.for_each(kFunction, [&](std::uint32_t i, ByteClass class_of_part, std::size_t size) {
            hull = widen(hull, vector.addresses[i], size);
            raw = raw || class_of_part == ByteClass::kRaw;
            metadata = metadata || class_of_part == ByteClass::kMetadata;
        }))
        return {Code::kInvalidArgument, "write to " + open.path};
    if (hull.empty()) return Status::ok();
    const AtomicTransfer atomic(open, F_WRLCK, hull);
    Status ready = attempt([&] {
        parts.reserve(vector.count);
        return atomic.status(open.path);
    });
    if (!ready) {
        if (metadata) open.shared->defer_error(copy_of(ready, "a write failed"), ByteClass::kMetadata);
        return together || raw ? ready : Status::ok();
    }
    vector.for_each(kFunction, [&](std::uint32_t i, ByteClass class_of_part, std::size_t size) {
        if (size == 0) return;
        if (class_of_part != byte_class) hand_over();
        byte_class = class_of_part;
        parts.push_back({vector.addresses[i], {static_cast<const std::byte*>(buffers[i]), size}});
    });
    hand_over();
    // Like mpio: the end of file is unknown after any rank has written.
    file.end_of_file = HADDR_UNDEF;
    return outcome;
}

}   // namespace forebay::hdf5
