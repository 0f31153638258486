// The trace of a process, for `forebay run --report` and other tools (option trace; docs/statistics.md, "The trace").
// It has one line of JSON for each write to a file, each wait of the program, and each read of a cached file.
// Thread-safe. Best effort: a failure here never fails the program. Blocks on file I/O only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/file.h"

namespace forebay::io {

class Trace {
  public:
    // An empty path switches the trace off.
    explicit Trace(std::string path) : path_(std::move(path)) {}

    [[nodiscard]] bool is_on() const noexcept { return !path_.empty(); }

    // Times are nanoseconds of CLOCK_MONOTONIC.
    void wrote(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t offset, std::uint64_t bytes) const noexcept;
    void read(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t offset, std::uint64_t bytes) const noexcept;
    // Notes a call of the program that may wait. Calls of less than 100 us are left out.
    void waited(std::uint64_t begin_ns, std::uint64_t end_ns) const noexcept;

  private:
    const std::string path_;
};

// Returns `file` with its reads traced, or `file` itself if the trace is off.
[[nodiscard]] std::shared_ptr<File> traced_reads(std::shared_ptr<File> file, const Trace& trace);

}   // namespace forebay::io
