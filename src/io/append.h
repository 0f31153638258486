// Appending whole lines to a file that several processes share (statistics, traces).
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::io {

// Appends `line` and a newline in one write (O_APPEND: lines of several processes do not mix), creating
// the file with mode 0644 if need be.
Status append_line(const std::string& path, std::string_view line);

}   // namespace forebay::io
