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

// Writes at most 64 MiB into an unnamed file, for about a second at most. It checks the clock between two writes of 1
// MiB, and between two syncs of 4 MiB.
[[nodiscard]] Result<WriteSpeed> measure_write_speed(const std::string& directory);

}   // namespace forebay::cli
