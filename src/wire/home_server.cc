#include "wire/home_server.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "base/checksum.h"

namespace forebay::wire {

// Rendezvous hashing: of all servers the one whose hash with the file is the highest. (Thaler, Ravishankar: "A
// name-based mapping scheme for rendezvous", 1996.)
Result<std::string> home_server(const std::string& servers, std::uint64_t inode) {
    std::string home;
    std::optional<std::uint64_t> highest;
    for (std::size_t begin = 0; begin <= servers.size();) {
        const std::size_t comma = std::min(servers.find(',', begin), servers.size());
        const std::string server = servers.substr(begin, comma - begin);
        if (server.empty()) return Status(Code::kInvalidArgument, servers + ": a staging server without an address");
        const std::string both = server + "\n" + std::to_string(inode);
        const std::uint64_t hash = checksum(std::as_bytes(std::span(both)));
        if (!highest || hash > *highest || (hash == *highest && server > home)) {
            highest = hash;
            home = server;
        }
        begin = comma + 1;
    }
    return home;
}

}   // namespace forebay::wire
