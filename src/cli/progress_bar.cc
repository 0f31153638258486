#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/options.h"

namespace forebay::cli {

namespace {

std::string progress_bar(std::uint64_t part, std::uint64_t whole) {
    constexpr std::uint64_t kCells = 30;
    const std::uint64_t full = whole == 0 ? kCells : std::min(kCells, part * kCells / whole);
    return fmt::format("[{:#<{}}{:.<{}}]", "", full, "", kCells - full);
}

}   // namespace

void draw_progress(const Shown& shown, std::string_view more) {
    fmt::print(stderr, "\r\033[K{} file {} of {}, {} of {}{}", progress_bar(shown.bytes, shown.of_bytes),
               shown.file + 1, shown.of_files, format_size(shown.bytes), format_size(shown.of_bytes), more);
    (void)std::fflush(stderr);
}

void draw_waiting(std::uint64_t bytes, std::uint64_t of_bytes, std::size_t incomplete, std::size_t of_files) {
    fmt::print(stderr, "\r\033[K{} {} of {}, {} of {} files to go", progress_bar(bytes, of_bytes), format_size(bytes),
               format_size(of_bytes), incomplete, of_files);
    (void)std::fflush(stderr);
}

bool progress_is_shown() {
    const char* const terminal = std::getenv("TERM");
    return ::isatty(STDERR_FILENO) != 0 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

void erase_progress() { fmt::print(stderr, "\r\033[K"); }

}   // namespace forebay::cli
