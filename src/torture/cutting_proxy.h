// The hidden command `forebay-torture proxy`. `forebay torture --server` puts it between clients and a server on TCP,
// to cut their connections.
// It listens on a free port of the loopback interface, prints the port on standard output, and forwards bytes in both
// directions. SIGUSR1 resets all connections (RST) at both ends and drops the bytes in transit. The proxy then prints
// one letter for each connection. If the server does not listen, the proxy closes a new connection at once.
#pragma once

#include <CLI/App.hpp>

namespace forebay::torture {

inline constexpr const char* kProxyCommand = "proxy";
inline constexpr char kCutLetter = 'x';

void add_cutting_proxy(CLI::App& app, int& exit_status);

}   // namespace forebay::torture
