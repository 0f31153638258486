// The kinds of request that latencies, fault rules and statistics distinguish.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace forebay::slowfs {

enum class Op : std::uint8_t {
    kLookup,
    kGetattr,
    kSetattr,   // chmod, chown, utimens
    kTruncate,
    kOpen,
    kCreate,   // O_CREAT of a new file, mknod
    kRead,
    kWrite,
    kFlush,   // close() of a descriptor
    kFsync,   // fsync, fdatasync, of files and directories
    kFallocate,
    kSeek,   // SEEK_DATA, SEEK_HOLE
    kUnlink,
    kMkdir,
    kRmdir,
    kRename,
    kLink,
    kSymlink,
    kReadlink,
    kReaddir,
    kStatfs,
};

inline constexpr std::size_t kOpCount = static_cast<std::size_t>(Op::kStatfs) + 1;

using OpSet = std::bitset<kOpCount>;

[[nodiscard]] constexpr std::size_t index_of(Op op) noexcept { return static_cast<std::size_t>(op); }

// Returns the name in rules and statistics, e.g. "write".
[[nodiscard]] std::string_view op_name(Op op) noexcept;

// Parses "write", "read|write", or "*" for all.
[[nodiscard]] Result<OpSet> parse_ops(std::string_view text);

// Operations that cost a round trip on a parallel file system and that a client's cache does not usually answer. Not
// lookup, getattr, readlink, readdir, statfs, seek, setattr, flush.
[[nodiscard]] OpSet delayed_by_default() noexcept;

}   // namespace forebay::slowfs
