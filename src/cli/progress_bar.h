// One line that shows how far a command is, drawn over and over on standard error. For terminals only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace forebay::cli {

struct Shown {
    std::uint64_t file = 0, of_files = 0;    // the first is 0
    std::uint64_t bytes = 0, of_bytes = 0;   // of that file
};
// `more` comes behind it.
void draw_progress(const Shown& shown, std::string_view more = {});
// The same of waiting: bytes that have come, and how many of the files are not complete.
void draw_waiting(std::uint64_t bytes, std::uint64_t of_bytes, std::size_t incomplete, std::size_t of_files);
// Whether standard error is a terminal that can draw over a line.
[[nodiscard]] bool progress_is_shown();
// The line is empty again.
void erase_progress();

}   // namespace forebay::cli
