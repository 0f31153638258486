// A progress line, redrawn on standard error. For terminals only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace forebay::cli {

struct Shown {
    std::uint64_t file = 0, of_files = 0;    // `file` counts from 0
    std::uint64_t bytes = 0, of_bytes = 0;   // of the file
};
void draw_progress(const Shown& shown, std::string_view more = {});
void draw_waiting(std::uint64_t bytes, std::uint64_t of_bytes, std::size_t incomplete, std::size_t of_files);
[[nodiscard]] bool progress_is_shown();
void erase_progress();

}   // namespace forebay::cli
