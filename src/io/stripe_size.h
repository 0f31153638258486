// The preferred unit of writes of a file system: a stripe, or a large block. Lustre has a file's layout in the extended
// attribute `lustre.lov` (a lov_user_md: magic at 0, stripe size at 24, both little-endian 32 bits;
// lustre/include/uapi/linux/lustre/lustre_user.h). GPFS, BeeGFS and NFS report a block, a chunk or their largest
// request as `st_blksize` (stat(2)). A local file system's page or two is of no use. Thread-safety: all functions.
// `ask_stripe_size` blocks as fgetxattr(2) does.
#pragma once

#include <cstdint>
#include <span>

#include "io/file.h"

namespace forebay::io {

// Returns the unit, or 0 if there is no hint. `lustre_layout` is empty on other file systems.
[[nodiscard]] std::uint64_t stripe_size(Bytes lustre_layout, std::uint64_t block_bytes) noexcept;

// Returns an open file's unit, by its file system's magic number (f_type) and st_blksize; 0: unknown. Asks Lustre only.
[[nodiscard]] std::uint64_t ask_stripe_size(int descriptor, std::uint64_t file_system,
                                            std::uint64_t block_bytes) noexcept;

}   // namespace forebay::io
