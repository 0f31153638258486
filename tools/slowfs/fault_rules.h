// Fault rules: they choose the failing operations, and their faults.
//
// A rule is a comma-separated list of key=value, e.g. "op=write,errno=EIO,after=3,count=1,offset=4096..8192,path=*.h5".
//
//   op      which operations: a name, names joined by |, or *                                   (required)
//   errno   the operation is not carried out and fails with this error: EIO, ENOSPC, EDQUOT, ESTALE, …
//   short   a read or write moves fewer bytes: half, or a size                        (one of these, or both
//   late    with errno: the write is answered as if it had succeeded, and lost. The next fsync or close of the file
//           fails.
//   hang    the operation waits to be released, at most as long as is said: hang=5s    errno and hang)
//   after   so many matching operations pass first                                              (0)
//   count   so many operations are hit, then the rule is spent                                  (no end)
//   offset  only transfers that touch these bytes, half-open: begin..end, begin.. or ..end
//   path    only files that match this shell pattern: below the mount point if it holds a '/', else the last name
//
// Every rule counts the operations that match it by itself; the first one, in order of addition, that wants to hit an
// operation does. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operation.h"

namespace forebay::slowfs {

struct Fault {
    int error = 0;                                                              // an errno, or 0
    bool late = false;                                                          // a later call reports the error
    std::uint64_t size_bytes_max = std::numeric_limits<std::uint64_t>::max();   // maximum of a read or write
    bool hang = false;
    std::int64_t hang_ns_max = 0;   // 0: until released
};

struct FaultRule {
    static constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

    std::string text;
    OpSet ops;
    int error = 0;
    bool late = false;
    bool short_half = false;
    std::uint64_t short_bytes = 0;   // 0: not short, unless short_half
    bool hang = false;
    std::int64_t hang_ns_max = 0;
    std::uint64_t after = 0;
    std::uint64_t count = kNoEnd;
    bool has_offset = false;
    std::uint64_t offset_begin = 0;
    std::uint64_t offset_end = kNoEnd;
    std::string path;

    [[nodiscard]] static Result<FaultRule> parse(std::string_view text);

    // Ignores `after` and `count`. `path` is relative to the mount point, without a leading slash, and called last.
    [[nodiscard]] bool matches(Op op, std::uint64_t offset, std::uint64_t size_bytes,
                               const std::function<std::string()>& path_of) const;
    [[nodiscard]] Fault fault_of(std::uint64_t size_bytes) const;
};

class FaultRules {
  public:
    struct Tally {
        std::string rule;
        std::uint64_t matched = 0;
        std::uint64_t hit = 0;
    };

    void add(FaultRule rule);
    void clear();

    [[nodiscard]] Fault next(Op op, std::uint64_t offset, std::uint64_t size_bytes,
                             const std::function<std::string()>& path_of);

    // In order of addition.
    [[nodiscard]] std::vector<Tally> tallies() const;

  private:
    struct Entry {
        FaultRule rule;
        std::uint64_t matched = 0;
        std::uint64_t hit = 0;
    };

    mutable std::mutex mutex_;
    std::atomic<bool> empty_{true};   // without rules, operations skip the lock
    std::vector<Entry> entries_;
};

}   // namespace forebay::slowfs
