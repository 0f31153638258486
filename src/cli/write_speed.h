// Measures the write speed of a directory: a quick look, not a benchmark.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace forebay::cli {

struct WriteSpeed {
    double bytes_per_s = 0;           // until the operating system has the bytes, as a program sees it
    double durable_bytes_per_s = 0;   // until the device has the bytes
};

// At most 64 MiB into an unnamed file, for about 1 s: looks at the clock after each 1 MiB, or 4 MiB with a sync.
[[nodiscard]] Result<WriteSpeed> measure_write_speed(const std::string& directory);

}   // namespace forebay::cli
