#include "operation.h"

#include <algorithm>
#include <array>
#include <string>

namespace forebay::slowfs {

namespace {

constexpr std::array<std::string_view, kOpCount> kNames = {
    "lookup", "getattr", "setattr", "truncate",  "open",     "create",  "read",
    "write",  "flush",   "fsync",   "fallocate", "seek",     "unlink",  "mkdir",
    "rmdir",  "rename",  "link",    "symlink",   "readlink", "readdir", "statfs",
};

}   // namespace

std::string_view op_name(Op op) noexcept { return kNames[index_of(op)]; }

Result<OpSet> parse_ops(std::string_view text) {
    OpSet ops;
    if (text == "*") return ops.set();
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('|', begin), text.size());
        const std::string_view name = text.substr(begin, end - begin);
        bool known = false;
        for (std::size_t i = 0; i < kOpCount && !known; ++i) {
            known = kNames[i] == name;
            if (known) ops.set(i);
        }
        if (!known) {
            std::string message = "unknown operation '" + std::string(name) + "'; known are *";
            for (std::string_view candidate : kNames) message.append(", ").append(candidate);
            return Status(Code::kInvalidArgument, std::move(message));
        }
        begin = end + 1;
    }
    return ops;
}

OpSet delayed_by_default() noexcept {
    OpSet ops;
    for (Op op : {Op::kRead, Op::kWrite, Op::kFsync, Op::kTruncate, Op::kFallocate, Op::kOpen, Op::kCreate, Op::kUnlink,
                  Op::kMkdir, Op::kRmdir, Op::kRename, Op::kLink, Op::kSymlink}) {
        ops.set(index_of(op));
    }
    return ops;
}

}   // namespace forebay::slowfs
