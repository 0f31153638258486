// The facts that each member of a team tells the others when they open a file together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "area/process.h"
#include "base/status.h"
#include "io/file.h"

namespace forebay::file {

struct Introduction {
    area::ProcessIdentity process;
    std::uint64_t staged = 0;   // 0: this member cannot stage
    std::uint64_t log = 0;
    std::uint64_t segment_bytes = 0;
    std::uint64_t segments_max = 0;
    std::uint64_t durable = 0;    // 1: durability=node
    std::string_view node;        // members with equal names share memory
    std::string_view directory;   // its process directory on the staging area
};

[[nodiscard]] std::vector<std::byte> encode(const Introduction& mine);
// The names in the result point into `told`.
[[nodiscard]] Result<Introduction> decode(io::Bytes told);

// The number of the group that this member drains for: unique among the shared files with logs in one staging area.
[[nodiscard]] std::uint64_t group_of(const Introduction& drainer) noexcept;

}   // namespace forebay::file
