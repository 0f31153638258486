// The mark that HDF5 leaves in a file that is open for writing.
//
// Superblocks of version 2 and 3 have a byte "file consistency flags": bit 0, the file is open for writing; bit 2, it
// is open for writing by one and reading by many (SWMR). HDF5 sets and clears them with version 3, and refuses to open
// a file in which they are set. After a crash they stay: natively too, where `h5clear -s` removes them. They are under
// the superblock's checksum. The superblock is at offset 0, 512, 1024, 2048, ... (a user block may lie before it).
// Source: HDF5 File Format Specification 3.0, section "Superblock".
// Blocks on reads and writes of the file.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "io/file.h"

namespace forebay::recover {

enum class Mark : std::uint8_t {
    kNone,         // no superblock of these versions, or it is not marked
    kCleared,      // it was marked
    kUnreadable,   // its checksum is wrong: nothing was changed
};

// Clears the mark, if there is one. Only the flags and the checksum are written, in one write.
[[nodiscard]] Result<Mark> clear_open_mark(io::File& file);

}   // namespace forebay::recover
