#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace forebay {

// Returns the word of `known` that is nearest to a misspelt `word`, in any case, or none if none is near. Pure.
[[nodiscard]] std::optional<std::string_view> nearest_word(std::string_view word,
                                                           std::span<const std::string_view> known);

}   // namespace forebay
