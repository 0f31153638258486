#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay {

// Reads a configuration file, of 1 MiB at most. Errors name it and `named_by`, its setting. Blocks on I/O. Any thread.
[[nodiscard]] Result<std::string> read_configuration(const std::string& path, std::string_view named_by);

}   // namespace forebay
