// The record of one `forebay run`. Each process of its program appends its begin, its file of counters, its directory
// on the staging area and its statistics. `forebay run` reads them at the end. So its summary covers its own program
// and that program's children, and no other process of the node.
// The variable FOREBAY_RUN names the files, one for each enclosing `forebay run`, outermost first, separated by colons.
// Each line is JSON: {"began":{"pid":1,"name":"python3","tally":"..."}} (area/run_tally.h),
// {"area":{"pid":1,"directory":"..."}}, and those of docs/statistics.md. A path that is not UTF-8 has its bytes as
// hexadecimal digits in a second member, "tally_bytes" or "directory_bytes". Each run makes a folder for its file, and
// holds the lock kAliveFile in it while it lives. Thread-safe. Best effort: a failure here never fails the program.
// Blocks on file I/O only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "area/run_tally.h"

namespace forebay::area {

inline constexpr const char* kRunVariable = "FOREBAY_RUN";
// The file of a run in its folder. Each process keeps its counters in a file of its own there (area/run_tally.h).
inline constexpr const char* kRunRecordFile = "record";

class RunRecord {
  public:
    // Takes the files of the text `files`, and none for a null pointer.
    explicit RunRecord(const char* files);
    // Takes the files that the environment names, and none if memory fails.
    [[nodiscard]] static RunRecord of_environment() noexcept;

    // Appends a line to each file except `except`, which already has it.
    void tell(std::string_view line, std::string_view except = {}) const noexcept;
    // Tells that the process has begun. Opens the file of `tally`, its counters, in the folder of each record until one
    // succeeds.
    void tell_began(int pid, TallyWriter& tally) const noexcept;
    void tell_area(int pid, const std::string& directory) const noexcept;

  private:
    RunRecord() = default;
    std::vector<std::string> files_;
};

}   // namespace forebay::area
