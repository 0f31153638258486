// What a file system says of the unit in which it likes to be written: a stripe, or a large block.
//
// Lustre tells the layout of each file in the extended attribute `lustre.lov` (a lov_user_md: magic at 0, stripe size
// at 24, both little-endian 32 bits; lustre/include/uapi/linux/lustre/lustre_user.h). GPFS, BeeGFS and NFS tell a
// block, a chunk or their largest request as `st_blksize` (stat(2)). A page or two of a local file system says nothing
// of use. Thread-safety: all of it. `ask_stripe_size` blocks as fgetxattr(2) does.
#pragma once

#include <cstdint>
#include <span>

#include "io/file.h"

namespace forebay::io {

// From what the file system told; 0: nothing to go by. `lustre_layout` is empty if there is none.
[[nodiscard]] std::uint64_t stripe_size(Bytes lustre_layout, std::uint64_t block_bytes) noexcept;

// Of the open file, on the file system of this magic number (statfs(2), f_type), with this st_blksize. 0: its file
// system does not say. Lustre alone is asked.
[[nodiscard]] std::uint64_t ask_stripe_size(int descriptor, std::uint64_t file_system,
                                            std::uint64_t block_bytes) noexcept;

}   // namespace forebay::io
