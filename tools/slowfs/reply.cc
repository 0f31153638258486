#include "reply.h"

#include <linux/fuse.h>

namespace forebay::slowfs {

namespace {

constexpr std::uint32_t kParallelDirectWrites = 1U << 6;   // not in the headers of Linux before 6.2

fuse_open_out open_answer(std::uint64_t handle, bool page_cache) noexcept {
    fuse_open_out answer{};
    answer.fh = handle;
    answer.open_flags = page_cache ? 0 : FOPEN_DIRECT_IO | kParallelDirectWrites;
    return answer;
}

// Validity times stay 0, so the kernel caches no entry.
fuse_entry_out entry_answer(const fuse_entry_param& entry) noexcept {
    const struct stat& from = entry.attr;
    fuse_entry_out answer{};
    answer.nodeid = entry.ino;
    answer.generation = entry.generation;
    fuse_attr& to = answer.attr;
    to.ino = from.st_ino;
    to.size = static_cast<std::uint64_t>(from.st_size);
    to.blocks = static_cast<std::uint64_t>(from.st_blocks);
    to.atime = static_cast<std::uint64_t>(from.st_atim.tv_sec);
    to.mtime = static_cast<std::uint64_t>(from.st_mtim.tv_sec);
    to.ctime = static_cast<std::uint64_t>(from.st_ctim.tv_sec);
    to.atimensec = static_cast<std::uint32_t>(from.st_atim.tv_nsec);
    to.mtimensec = static_cast<std::uint32_t>(from.st_mtim.tv_nsec);
    to.ctimensec = static_cast<std::uint32_t>(from.st_ctim.tv_nsec);
    to.mode = from.st_mode;
    to.nlink = static_cast<std::uint32_t>(from.st_nlink);
    to.uid = from.st_uid;
    to.gid = from.st_gid;
    to.rdev = static_cast<std::uint32_t>(from.st_rdev);
    to.blksize = static_cast<std::uint32_t>(from.st_blksize);
    return answer;
}

}   // namespace

int reply_open(fuse_req_t request, std::uint64_t handle, bool page_cache) {
    const fuse_open_out answer = open_answer(handle, page_cache);
    return fuse_reply_buf(request, reinterpret_cast<const char*>(&answer), sizeof answer);
}

int reply_create(fuse_req_t request, const fuse_entry_param& entry, std::uint64_t handle, bool page_cache) {
    const struct {
        fuse_entry_out entry;
        fuse_open_out open;
    } answer{.entry = entry_answer(entry), .open = open_answer(handle, page_cache)};
    return fuse_reply_buf(request, reinterpret_cast<const char*>(&answer), sizeof answer);
}

}   // namespace forebay::slowfs
