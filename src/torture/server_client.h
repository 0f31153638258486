// The processes of `forebay torture --server` beside the server, hidden commands of `forebay-torture`: a client that
// writes a file through the server, a reader of the file beside it, and what runs a program that ends with torture.
//
// Both open the file as HDF5's driver does (hdf5/driver/serial_driver.cc): its lock, what dead processes have left of
// it, then the server. They tell on standard output what came of it (told.h). None of them outlives torture.
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
    std::uint64_t pause_us = 0;      // between two operations, at most
    Spoil spoil = Spoil::kNothing;   // kLoss: every third write is left out
};
[[nodiscard]] std::vector<std::string> arguments_of(const ClientOrder& order);

// This process ends with the one that started it.
[[nodiscard]] Status end_with_parent();

void add_server_clients(CLI::App& app, int& exit_status);

}   // namespace forebay::torture
