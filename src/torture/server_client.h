// Client processes of `forebay torture --server`, hidden commands: a writer through the server, a reader beside it, and
// a launcher. The first two open the file as HDF5's driver does (hdf5/driver/serial_driver.cc): lock, recover, connect.
// They report the outcomes on standard output (told.h). All of them end with torture.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "torture/lineage.h"
#include "torture/victim.h"

namespace forebay::torture {

inline constexpr const char* kClientCommand = "client";
inline constexpr const char* kReaderCommand = "reader";
inline constexpr const char* kUnderCommand = "under";

struct ClientOrder {
    Session session;
    std::string server, file, nls;
    std::uint64_t patience_s = 0;
    std::uint64_t pause_us = 0;      // maximum pause between two operations
    Spoil spoil = Spoil::kNothing;   // kLoss drops every third write
};
[[nodiscard]] std::vector<std::string> arguments_of(const ClientOrder& order);

[[nodiscard]] Status end_with_parent();

void add_server_clients(CLI::App& app, int& exit_status);

}   // namespace forebay::torture
