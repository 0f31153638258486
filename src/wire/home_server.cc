#include "wire/home_server.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/checksum.h"

namespace forebay::wire {

namespace {

// Rendezvous hashing (Thaler, Ravishankar: "A name-based mapping scheme for rendezvous", 1996): the highest hash wins.
std::size_t home_of(std::span<const std::string> servers, const std::string& thing) {
    std::size_t home = 0;
    std::uint64_t highest = 0;
    for (std::size_t server = 0; server < servers.size(); ++server) {
        const std::string both = servers[server] + thing;
        const std::uint64_t hash = checksum(std::as_bytes(std::span(both)));
        if (server == 0 || hash > highest || (hash == highest && servers[server] > servers[home])) {
            highest = hash;
            home = server;
        }
    }
    return home;
}

Result<std::vector<std::string>> split(const std::string& servers) {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin <= servers.size();) {
        const std::size_t comma = std::min(servers.find(',', begin), servers.size());
        std::string name = servers.substr(begin, comma - begin);
        if (name.empty()) return Status(Code::kInvalidArgument, servers + ": a staging server without an address");
        names.push_back(std::move(name));
        begin = comma + 1;
    }
    return names;
}

}   // namespace

Result<std::string> home_server(const std::string& servers, std::uint64_t inode) {
    auto names = split(servers);
    if (!names) return names.status();
    return std::move(names.value()[home_of(names.value(), "\n" + std::to_string(inode))]);
}

Result<std::vector<std::string>> server_names(const std::string& servers) {
    auto names = split(servers);
    if (!names) return names;
    for (auto name = names.value().begin(); name != names.value().end(); ++name)
        if (std::find(names.value().begin(), name, *name) != name)
            return Status(Code::kInvalidArgument, servers + ": " + *name + " is named twice");
    return names;
}

std::size_t home_of_stripe(const std::vector<std::string>& servers, std::uint64_t inode, std::uint64_t stripe) {
    return home_of(servers, "\n" + std::to_string(inode) + "\n" + std::to_string(stripe));
}

}   // namespace forebay::wire
