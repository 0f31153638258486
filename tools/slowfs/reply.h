// Replies to open and create, in the format of <linux/fuse.h>. libfuse 3.14 cannot say that direct writes to one file
// may run concurrently (FOPEN_PARALLEL_DIRECT_WRITES, Linux 6.2; older kernels ignore it). Their latencies would add
// up, unlike on any parallel file system. Returns 0, or a negative errno if the kernel has withdrawn the request: the
// caller then undoes the open.
#pragma once

#include <fuse_lowlevel.h>

#include <cstdint>

namespace forebay::slowfs {

[[nodiscard]] int reply_open(fuse_req_t request, std::uint64_t handle, bool page_cache);
[[nodiscard]] int reply_create(fuse_req_t request, const fuse_entry_param& entry, std::uint64_t handle,
                               bool page_cache);

}   // namespace forebay::slowfs
