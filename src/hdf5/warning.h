// Writes a line for the user to standard error, with write(2), never through stdio. forebay does not print otherwise.
// But an unusable option would just make a program slow, and a plugin that cannot serve the library has no error stack.
#pragma once

#include <string_view>

namespace forebay::hdf5 {

// Writes "forebay: `message`" the first time it is given in this process. Thread-safe; blocks as write(2) does.
void warn_once(std::string_view message) noexcept;

}   // namespace forebay::hdf5
