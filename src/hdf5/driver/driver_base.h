// The common parts of the serial driver and the MPI driver. Thread-safety: as HDF5's. Blocking: opening, as open(2)
// does. Source: HDF5 reference manual, H5FD_class_t version 1; H5FDsec2.c of 1.14.5 for messages.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "hdf5/host/host.h"
#include "hdf5/open_file.h"
#include "io/made_file.h"

namespace forebay::hdf5 {

inline constexpr haddr_t kMaxAddress = static_cast<haddr_t>(std::numeric_limits<off_t>::max());

// Lives from the driver's `open` to its `close`. It has no virtual functions, because HDF5's part must come first.
struct DriverFile {
    H5FD_t library{};
    unsigned char reserve[64] = {};   // for members that a newer HDF5 adds

    // HDF5 1.14.5 may compare a file that it freed after a failed close. Its own drivers then read the freed memory but
    // follow no pointer in it, so the program goes on.
    io::Identity identity;
    std::uint64_t size = 0, modified_ns = 0, changed_ns = 0;   // at the open
    std::shared_ptr<OpenFile> open = std::make_shared<OpenFile>();
    haddr_t end_allocated = 0, end_of_file = 0;

    DriverFile() = default;
    DriverFile(const DriverFile&) = delete;
    DriverFile& operator=(const DriverFile&) = delete;
    ~DriverFile();
};

template <class File>
[[nodiscard]] File* as_file(H5FD_t* file) noexcept {
    return static_cast<File*>(reinterpret_cast<DriverFile*>(file));
}
template <class File>
[[nodiscard]] const File* as_file(const H5FD_t* file) noexcept {
    return static_cast<const File*>(reinterpret_cast<const DriverFile*>(file));
}

[[nodiscard]] bool check_open(const char* function, const char* name, haddr_t max_address, haddr_t largest);
[[nodiscard]] bool check_region(const char* function, haddr_t address, std::size_t size_bytes);
// For the `ctl` callback. Returns -1 if HDF5 wants an unknown operation to fail.
[[nodiscard]] herr_t refuse_unknown_control(const char* function, std::uint64_t flags);

[[nodiscard]] int open_flags(unsigned flags) noexcept;

// Opens the target, or creates it, and sets `file.open` and the end of file. Empties no file. `made` removes a created
// file unless the open succeeds. The Status has an errno; the descriptor is null if open(2) failed.
[[nodiscard]] Status open_target(DriverFile& file, io::MadeFile& made, const char* name, unsigned flags, int o_flags);

// Call this before a file is emptied or a created one is used. Fails if logs of dead processes for its inode number
// must be kept.
[[nodiscard]] Status may_be_emptied(const OpenFile& file);
[[nodiscard]] stage::OpenTarget target_of(const OpenFile& file);

[[nodiscard]] haddr_t get_end_allocated(const H5FD_t* file, H5FD_mem_t type);
herr_t set_end_allocated(H5FD_t* file, H5FD_mem_t type, haddr_t address);

constexpr H5FD_class_t driver_class(H5FD_class_value_t value, const char* name) {
    H5FD_class_t made{};
    made.version = H5FD_CLASS_VERSION;
    made.value = value;
    made.name = name;
    made.get_eoa = get_end_allocated;
    made.set_eoa = set_end_allocated;
    constexpr H5FD_mem_t kDichotomy[] = H5FD_FLMAP_DICHOTOMY;
    for (int type = 0; type < H5FD_MEM_NTYPES; ++type) made.fl_map[type] = kDichotomy[type];
    return made;
}

}   // namespace forebay::hdf5
