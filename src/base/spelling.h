// Which of some words a misspelt one was meant to be. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace forebay {

// The word of `known` that is nearest to `word`, in any case of its letters; none if no word is near enough to be what
// was meant.
[[nodiscard]] std::optional<std::string_view> nearest_word(std::string_view word,
                                                           std::span<const std::string_view> known);

}   // namespace forebay
