#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::io {

// Appends `line` and a newline in one O_APPEND write, so lines of processes do not mix. Makes a missing file (0644).
Status append_line(const std::string& path, std::string_view line);
// Appends a line to an existing regular file of this user only, and follows no link.
Status append_line_to_own(const std::string& path, std::string_view line);

}   // namespace forebay::io
