// What `forebay torture --server` puts between clients and a server on TCP, to cut their connections: the hidden
// command `forebay-torture proxy`.
//
// It listens on a port of the loopback interface that the system chooses, tells that on standard output, and passes on
// what comes, in both directions. SIGUSR1 resets all connections (RST), at both ends, whatever is on its way, and a
// letter for each of them comes on standard output. Where the server does not listen, a connection is closed as soon as
// it comes.
#pragma once

#include <CLI/App.hpp>

namespace forebay::torture {

inline constexpr const char* kProxyCommand = "proxy";
inline constexpr char kCutLetter = 'x';

void add_cutting_proxy(CLI::App& app, int& exit_status);

}   // namespace forebay::torture
