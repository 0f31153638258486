// How many columns of a terminal text in UTF-8 takes. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace forebay {

// East Asian wide characters and emoji take two columns, combining ones none. A byte that is no UTF-8 takes one.
[[nodiscard]] std::size_t display_width(std::string_view text) noexcept;

// The number of bytes at the begin of `text` that fit into so many columns; no character is cut.
[[nodiscard]] std::size_t bytes_in_columns(std::string_view text, std::size_t columns) noexcept;

// Where the part of `text` begins that ends it and fits into so many columns.
[[nodiscard]] std::size_t begin_of_last_columns(std::string_view text, std::size_t columns) noexcept;

}   // namespace forebay
