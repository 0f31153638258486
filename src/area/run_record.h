// What a program that was started by `forebay run` tells it while it runs: that it has come here, where it stages, and
// its statistics. `forebay run` reads that at the end, so its answer is about its own program, with all that it
// started, and about nothing else on the node.
//
// The variable FOREBAY_RUN names the files, one for each `forebay run` around the program, outermost first, separated
// by colons. One line of JSON each: {"began":{"pid":1}}, {"area":{"pid":1,"directory":"..."}}, and those of
// docs/statistics.md. Thread-safe. Best effort: a program never fails for it. Blocks on file I/O only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forebay::area {

inline constexpr const char* kRunVariable = "FOREBAY_RUN";

class RunRecord {
  public:
    // Those that this process's environment names. Makes nothing of a null pointer.
    explicit RunRecord(const char* files);
    // Those that the environment names; none, if memory fails.
    [[nodiscard]] static RunRecord of_environment() noexcept;

    // Appends a line to each file but `except`, which has it already.
    void tell(std::string_view line, std::string_view except = {}) const noexcept;
    void tell_began(int pid) const noexcept;
    void tell_area(int pid, const std::string& directory) const noexcept;

  private:
    RunRecord() = default;
    std::vector<std::string> files_;
};

}   // namespace forebay::area
