// Which of several staging servers has a file: its home (docs/protocol.md, "Several servers").
//
// Everybody who names the same servers finds the same one, in whatever order they are named. Adding a server moves only
// the files that it gets. Thread-safety: pure functions. Nothing blocks.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace forebay::wire {

// `servers`: addresses as io::parse_address reads them, with commas between. `inode`: of the file; its device has
// another number on each machine. The home's address, as it is named there. kInvalidArgument: one of them is empty.
[[nodiscard]] Result<std::string> home_server(const std::string& servers, std::uint64_t inode);

}   // namespace forebay::wire
