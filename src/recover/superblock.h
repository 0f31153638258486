// HDF5's mark of a file that is open for writing.
// Superblocks of versions 2 and 3 have a byte "file consistency flags": bit 0, open for writing; bit 2, the same with
// concurrent readers (SWMR). With version 3 HDF5 sets and clears them, and does not open a file that has them. They
// stay after a crash, natively too, where `h5clear -s` removes them. A checksum covers them. The superblock is at
// offset 0, 512, 1024, 2048, ... Blocks on file I/O. Source: HDF5 File Format Specification 3.0, section "Superblock".
#pragma once

#include <cstdint>

#include "base/status.h"
#include "io/file.h"

namespace forebay::recover {

enum class Mark : std::uint8_t {
    kNone,         // no mark, or no superblock of these versions
    kCleared,      // the file had the mark
    kUnreadable,   // its checksum is wrong; nothing was changed
};

// Clears the mark, with one write of flags and checksum.
[[nodiscard]] Result<Mark> clear_open_mark(io::File& file);

}   // namespace forebay::recover
