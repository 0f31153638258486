// The process that `forebay torture` kills: the hidden command `forebay-torture victim`. It follows the workload of a
// seed through the staging engine, and reports each commit (told.h). Without a fault it ends only if a call fails or
// its reader has gone. With a fault (fault_case.h) it stops after `operations` operations, or after a failed one that
// is no commit. It then closes the file and ends, if `close` is set. Otherwise it waits to be killed, or ends if no
// call met the fault.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::torture {

inline constexpr const char* kVictimCommand = "victim";

// Deliberate errors, to test that torture notices them.
enum class Spoil : std::uint8_t {
    kNothing,
    kByte,      // the target gets a wrong byte
    kLoss,      // the target drops every third write, and reports success
    kSilence,   // failures are reported as successes
    kHang,      // hangs after half of the operations
};

struct VictimOrder {
    std::uint64_t seed = 0;
    std::string nls;
    std::string file;
    std::uint64_t bulk_bytes = 0;          // not 0: writes so many bytes in order, then commits once
    std::vector<std::string> settings{};   // "name=value": engine options that override those of the workload
    std::string fault{};                   // kind of the fault (find_fault_kind); empty: none
    std::uint64_t nth = 1;                 // the fault's first failing call, from 1
    bool for_ever = false;                 // all later calls of its kind fail too
    std::uint64_t operations = 0;          // with a fault
    bool close = false;                    // closes the file after them
    Spoil spoil = Spoil::kNothing;
};
// The option must be known and accept the value. Torture's judgement of the file must not rely on it.
[[nodiscard]] Status check_setting(const std::string& setting);
// The command line of the process, without the program's name.
[[nodiscard]] std::vector<std::string> arguments_of(const VictimOrder& order);

void add_victim(CLI::App& app, int& exit_status);

}   // namespace forebay::torture
