// What a process did when, for `forebay run --report` and other tools: one line of JSON for each write to a file, each
// wait of the program, and each read of a file that is cached (option trace). docs/statistics.md, "The trace".
// Thread-safe. Best effort: a program never fails for it. Blocks on file I/O only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/file.h"

namespace forebay::io {

class Trace {
  public:
    // Switched off, if there is no path.
    explicit Trace(std::string path) : path_(std::move(path)) {}

    [[nodiscard]] bool is_on() const noexcept { return !path_.empty(); }

    // From `begin_ns` to `end_ns` of CLOCK_MONOTONIC.
    void wrote(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t offset, std::uint64_t bytes) const noexcept;
    void read(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t offset, std::uint64_t bytes) const noexcept;
    // The program was in a call that may wait. Calls of less than 100 us are left out.
    void waited(std::uint64_t begin_ns, std::uint64_t end_ns) const noexcept;

  private:
    const std::string path_;
};

// `file`, with its reads told to `trace`. As it is, if that is switched off.
[[nodiscard]] std::shared_ptr<File> traced_reads(std::shared_ptr<File> file, const Trace& trace);

}   // namespace forebay::io
