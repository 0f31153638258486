// The lines that change a simulation, from the command line or the control file, and the report that is read back.
//   fault RULE            adds a rule (fault_rules.h)
//   clear                 removes all rules and releases what hangs
//   release               releases what hangs
//   bandwidth B           reads and writes together; read-bandwidth B and write-bandwidth B for one of them
//   thread-bandwidth B    of each thread of the clients by itself; or process-bandwidth B, of each process
//   latency [OPS=]D       of the operations named, or of those that are usually slow (operation.h)
//   reset                 sets the statistics to zero
// Thread-safe, as the simulation is.
#pragma once

#include <string>
#include <string_view>

#include "simulation.h"

namespace forebay::slowfs {

// Executes one line, without its end. Accepts blank lines. An invalid line changes nothing.
[[nodiscard]] Status execute(Simulation& simulation, std::string_view line);

// Stops at the first invalid line.
[[nodiscard]] Status execute_lines(Simulation& simulation, std::string_view lines);

// Returns statistics, rules and settings as JSON, with a line end.
[[nodiscard]] std::string report(const Simulation& simulation);

}   // namespace forebay::slowfs
