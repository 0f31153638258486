// Tells the user, on standard error, what nobody would otherwise see.
//
// forebay does not print. This is the one exception: a program that runs natively because an option is
// unusable would otherwise just be slow, and a plugin that cannot serve the library has no error stack
// to write to. The functions write one line with write(2), never through stdio.
#pragma once

#include <string_view>

namespace forebay::hdf5 {

// Writes "forebay: `message`" the first time it is given in this process. Thread-safe; blocks as write(2) does.
void warn_once(std::string_view message) noexcept;

}   // namespace forebay::hdf5
