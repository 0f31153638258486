// The process that `forebay torture` kills: the hidden command `forebay-torture victim`.
//
// It opens a file through the staging engine, follows the workload of a seed, and tells on standard output what came of
// it (told.h), a letter for each commit that has returned. Without a fault it never ends by itself, unless something
// fails or nobody reads.
//
// With a fault (fault_case.h) it goes on after a commit that failed, and makes no more operations after one of another
// kind that failed. It ends after so many operations: closed, or waiting to be killed. It ends at once if the fault has
// not been met by then.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::torture {

inline constexpr const char* kVictimCommand = "victim";

// What it can be made to do wrong, so that it can be seen that torture notices.
enum class Spoil : std::uint8_t {
    kNothing,
    kByte,      // the target takes a byte that is not the one that was written
    kLoss,      // the target takes nothing of every third write, and says that it did
    kSilence,   // failures are told as successes
    kHang,      // it stops for good after some operations
};

struct VictimOrder {
    std::uint64_t seed = 0;
    std::string nls;
    std::string file;
    std::uint64_t bulk_bytes = 0;          // not 0: no random operations, but so many bytes in order, and one commit
    std::vector<std::string> settings{};   // "name=value": options of the engine that override those of the workload
    std::string fault{};                   // its kind (find_fault_kind); empty: none
    std::uint64_t nth = 1;
    bool for_ever = false;
    std::uint64_t operations = 0;   // with a fault
    bool close = false;             // after them
    Spoil spoil = Spoil::kNothing;
};
// Whether the process may be asked for it: a known option with a value that it takes, and none that the judgement
// relies on.
[[nodiscard]] Status check_setting(const std::string& setting);
// The command line for it, without the program's name.
[[nodiscard]] std::vector<std::string> arguments_of(const VictimOrder& order);

void add_victim(CLI::App& app, int& exit_status);

}   // namespace forebay::torture
