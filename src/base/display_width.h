#pragma once

#include <cstddef>
#include <string_view>

namespace forebay {

// East Asian wide characters and emoji take two columns, combining characters none, and a bad byte takes one. Pure.
[[nodiscard]] std::size_t display_width(std::string_view text) noexcept;

// Returns the length in bytes of the longest prefix of `text` that fits into `columns`. It cuts no character.
[[nodiscard]] std::size_t bytes_in_columns(std::string_view text, std::size_t columns) noexcept;

// Returns the offset of the longest suffix of `text` that fits into `columns`.
[[nodiscard]] std::size_t begin_of_last_columns(std::string_view text, std::size_t columns) noexcept;

}   // namespace forebay
