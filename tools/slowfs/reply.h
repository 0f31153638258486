// Replies to open and create. libfuse 3.14 cannot tell the kernel that direct writes to one file may run concurrently
// (FOPEN_PARALLEL_DIRECT_WRITES, Linux 6.2). Without it their latencies would add up, unlike on any parallel file
// system. So slowfs answers direct opens in the kernel's own format, <linux/fuse.h>. Older kernels ignore the flag.
// Each function returns 0, or a negative errno if the kernel has withdrawn the request. The caller then undoes the
// open.
#pragma once

#include <fuse_lowlevel.h>

#include <cstdint>

namespace forebay::slowfs {

[[nodiscard]] int reply_open(fuse_req_t request, std::uint64_t handle, bool page_cache);
[[nodiscard]] int reply_create(fuse_req_t request, const fuse_entry_param& entry, std::uint64_t handle,
                               bool page_cache);

}   // namespace forebay::slowfs
