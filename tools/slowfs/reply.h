// Replies to open and create. libfuse 3.14 has no way to say that direct writes to one file may run concurrently
// (FOPEN_PARALLEL_DIRECT_WRITES, Linux 6.2); without it their latencies would add up, which no parallel file system
// does. So direct opens are answered in the kernel's own format, <linux/fuse.h>. Older kernels ignore the flag.
//
// Each returns 0, or a negative errno if the kernel has withdrawn the request: then the caller undoes the open.
#pragma once

#include <fuse_lowlevel.h>

#include <cstdint>

namespace forebay::slowfs {

[[nodiscard]] int reply_open(fuse_req_t request, std::uint64_t handle, bool page_cache);
[[nodiscard]] int reply_create(fuse_req_t request, const fuse_entry_param& entry, std::uint64_t handle,
                               bool page_cache);

}   // namespace forebay::slowfs
