// Commands that a message proposes. Pure.
#pragma once

#include <string>
#include <string_view>

namespace forebay {

// Returns the path as one word for a shell, quoted if need be. The result has no control characters, which a terminal
// would act on.
[[nodiscard]] std::string shell_word(std::string_view path);

}   // namespace forebay
