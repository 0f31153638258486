// Reading a configuration file as a whole.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay {

// The text of the file, of 1 MiB at most. Errors name the file and `named_by`, which is what names it. Blocks on the
// file. Thread-safety: any.
[[nodiscard]] Result<std::string> read_configuration(const std::string& path, std::string_view named_by);

}   // namespace forebay
