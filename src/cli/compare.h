// `forebay run --compare`: the program runs natively and with forebay, each time in a fresh copy of its folder, and the
// results are compared. docs/comparing.md.
#pragma once

#include <string>
#include <vector>

#include "cli/program_run.h"

namespace forebay::cli {

struct CompareRequest {
    std::string folder;   // that the program works in; empty: the working directory
    std::string copies;   // where the copies are made; empty: beside the folder
    unsigned runs = 1;    // of each kind, by turns
    bool keep = false;    // the copies stay
    std::string json_path;
};

// Tells on standard error what was found. The exit status is kExitFine if all results are equal, kExitProblem if not,
// or if that cannot be told, and the program's own if it ends natively with another than 0. Blocks.
[[nodiscard]] int run_compared(const PreparedRun& prepared, const std::vector<std::string>& program,
                               const CompareRequest& request);

}   // namespace forebay::cli
