// `forebay run --compare` runs the program natively and with forebay, in fresh copies of its folder: docs/comparing.md.
#pragma once

#include <string>
#include <vector>

#include "cli/program_run.h"

namespace forebay::cli {

struct CompareRequest {
    std::string folder;   // the program's folder; empty: the working directory
    std::string copies;   // the folder of the copies; empty: beside `folder`
    unsigned runs = 1;    // number of runs of each kind, in turns
    bool keep = false;    // keep the copies
    std::string json_path;
};

// Prints the differences on standard error. Returns kExitFine if all results are equal, kExitProblem if they differ or
// the comparison failed. If the native program ends with another status than 0, returns that. Blocks.
[[nodiscard]] int run_compared(const PreparedRun& prepared, const std::vector<std::string>& program,
                               const CompareRequest& request);

}   // namespace forebay::cli
