// The record of one `forebay run`. Each process of its program appends its begin, its file of counters, its directory
// on the staging area and its statistics. `forebay run` reads them at the end, so its summary covers its own program
// and the children of it, and no other process of the node.
//
// The variable FOREBAY_RUN names the files, one for each `forebay run` around the program, outermost first, separated
// by colons. Each line is JSON: {"began":{"pid":1,"name":"python3","tally":"..."}} (area/run_tally.h),
// {"area":{"pid":1,"directory":"..."}}, and those of docs/statistics.md. Each run makes a folder for its file, and
// holds the lock kAliveFile in it for as long as it lives. Thread-safe. Best effort: a program never fails for it.
// Blocks on file I/O only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "area/run_tally.h"

namespace forebay::area {

inline constexpr const char* kRunVariable = "FOREBAY_RUN";
// The file of a run in its folder. Processes count in files of their own beside one of that name.
inline constexpr const char* kRunRecordFile = "record";

class RunRecord {
  public:
    // Those that this process's environment names. Makes nothing of a null pointer.
    explicit RunRecord(const char* files);
    // Those that the environment names; none, if memory fails.
    [[nodiscard]] static RunRecord of_environment() noexcept;

    // Appends a line to each file but `except`, which has it already.
    void tell(std::string_view line, std::string_view except = {}) const noexcept;
    // The process counts in `tally` from now on: beside the first record that is in a folder of its run.
    void tell_began(int pid, TallyWriter& tally) const noexcept;
    void tell_area(int pid, const std::string& directory) const noexcept;

  private:
    RunRecord() = default;
    std::vector<std::string> files_;
};

}   // namespace forebay::area
