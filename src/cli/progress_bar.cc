#include "cli/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/options.h"

namespace forebay::cli {

void draw_progress(const Shown& shown, std::string_view more) {
    constexpr std::uint64_t kCells = 30;
    const std::uint64_t full = shown.of_bytes == 0 ? kCells : shown.bytes * kCells / shown.of_bytes;
    fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] file {} of {}, {} of {}{}", "", std::min(full, kCells), "",
               kCells - std::min(full, kCells), shown.file + 1, shown.of_files, format_size(shown.bytes),
               format_size(shown.of_bytes), more);
    (void)std::fflush(stderr);
}

void erase_progress() { fmt::print(stderr, "\r\033[K"); }

}   // namespace forebay::cli
