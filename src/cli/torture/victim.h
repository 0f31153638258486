// The process that `forebay torture` kills: the hidden command `forebay torture-victim`.
//
// It opens a file through the staging engine, follows the workload of a seed, and writes one byte to standard output for
// each commit that has returned. It never ends by itself, unless something fails or nobody reads.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::cli {

inline constexpr const char* kVictimCommand = "torture-victim";

struct VictimOrder {
    std::uint64_t seed = 0;
    std::string nls;
    std::string file;
    std::uint64_t bulk_bytes = 0;   // not 0: no random operations, but so many bytes in order, and one commit
    std::vector<std::string> settings{};   // "name=value": options of the engine that override those of the workload
};
// Whether the process may be asked for it: a known option with a value that it takes, and none that the judgement relies on.
[[nodiscard]] Status check_setting(const std::string& setting);
// The command line for it, without the program's name.
[[nodiscard]] std::vector<std::string> arguments_of(const VictimOrder& order);

void add_torture_victim(CLI::App& app, int& exit_status);

}   // namespace forebay::cli
