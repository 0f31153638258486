// How fast a directory takes bytes: a quick look, not a benchmark.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace forebay::cli {

struct WriteSpeed {
    double bytes_per_s = 0;           // as a program sees it: until the operating system has the bytes
    double durable_bytes_per_s = 0;   // until the device has them
};

// Writes at most 64 MiB into a file without a name (gone at the end in any case), for about a second at
// most: between two writes of 1 MiB, and two syncs of 4 MiB, the clock is looked at.
[[nodiscard]] Result<WriteSpeed> measure_write_speed(const std::string& directory);

}   // namespace forebay::cli
