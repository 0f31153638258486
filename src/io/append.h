// Appending whole lines to a file that several processes share (statistics, traces).
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::io {

// Appends `line` and a newline in one write (O_APPEND: lines of several processes do not mix), creating
// the file with mode 0644 if need be.
Status append_line(const std::string& path, std::string_view line);
// The same to a regular file of this user that exists, and to nothing else: no link is followed.
Status append_line_to_own(const std::string& path, std::string_view line);

}   // namespace forebay::io
