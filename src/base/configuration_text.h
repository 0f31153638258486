#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay {

// Reads a whole configuration file, of 1 MiB at most. Errors name the file and `named_by`, the setting that names the
// file. Blocks on file I/O. Thread-safety: any thread.
[[nodiscard]] Result<std::string> read_configuration(const std::string& path, std::string_view named_by);

}   // namespace forebay
