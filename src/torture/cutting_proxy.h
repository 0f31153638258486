// The hidden command `forebay-torture proxy`, which cuts connections of clients to a server on TCP (`--server`). It
// listens on a free port of the loopback interface, prints the port on standard output, and forwards bytes in both
// directions. SIGUSR1 resets all connections (RST) at both ends, drops the bytes in transit, and prints one letter for
// each. If the server does not listen, the proxy closes a new connection at once.
#pragma once

#include <CLI/App.hpp>

namespace forebay::torture {

inline constexpr const char* kProxyCommand = "proxy";
inline constexpr char kCutLetter = 'x';

void add_cutting_proxy(CLI::App& app, int& exit_status);

}   // namespace forebay::torture
