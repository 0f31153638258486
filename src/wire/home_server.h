// Which of several staging servers has a file, or a stripe of it: its home (docs/protocol.md, "Several servers").
//
// Everybody who names the same servers finds the same one, in whatever order they are named. Adding a server moves only
// what it gets. Thread-safety: pure functions. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::wire {

// `servers`: addresses as io::parse_address reads them, with commas between. `inode`: of the file; its device has
// another number on each machine. The home's address, as it is named there. kInvalidArgument: one of them is empty.
[[nodiscard]] Result<std::string> home_server(const std::string& servers, std::uint64_t inode);
// The addresses one by one, in their order. kInvalidArgument: one of them is empty, or named twice.
[[nodiscard]] Result<std::vector<std::string>> server_names(const std::string& servers);
// The place of the stripe's home in `servers`.
[[nodiscard]] std::size_t home_of_stripe(const std::vector<std::string>& servers, std::uint64_t inode,
                                         std::uint64_t stripe);

}   // namespace forebay::wire
