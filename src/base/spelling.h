#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace forebay {

// Returns the word of `known`, all in lower case, that is nearest to a misspelt `word`. The case of `word` does not
// matter. Returns none if none is near. Pure.
[[nodiscard]] std::optional<std::string_view> nearest_word(std::string_view word,
                                                           std::span<const std::string_view> known);

}   // namespace forebay
