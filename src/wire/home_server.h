// The home of a file, or a stripe, among several staging servers (docs/protocol.md, "Several servers"): equal for all
// processes with the same servers, in any order. A new server moves only its own part. Pure functions. No call blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::wire {

// `servers` are addresses as io::parse_address reads them, separated by commas. Returns the home's, as written there.
// Device numbers differ between machines, so only `inode` decides. kInvalidArgument: an address is empty.
[[nodiscard]] Result<std::string> home_server(const std::string& servers, std::uint64_t inode);
// Returns the addresses in their order. Returns kInvalidArgument if one is empty or repeated.
[[nodiscard]] Result<std::vector<std::string>> server_names(const std::string& servers);
[[nodiscard]] std::size_t home_of_stripe(const std::vector<std::string>& servers, std::uint64_t inode,
                                         std::uint64_t stripe);

}   // namespace forebay::wire
