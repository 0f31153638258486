// Writes a line for the user to standard error, with write(2), never through stdio. forebay does not print otherwise.
// The line tells of problems that fail no HDF5 call: files stay unstaged, or the plugin cannot use the HDF5 library.
#pragma once

#include <string_view>

namespace forebay::hdf5 {

// Writes "forebay: `message`" the first time it is given in this process. Thread-safe, also in a child that is forked
// meanwhile; blocks as write(2) does.
void warn_once(std::string_view message) noexcept;

}   // namespace forebay::hdf5
