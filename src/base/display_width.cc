#include "base/display_width.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace forebay {

namespace {

struct Range {
    std::uint32_t first, last;
};
// Blocks of Unicode's combining, joining and variation characters, and of East Asian width W and F.
constexpr std::array<Range, 7> kNoColumn{{{0x300, 0x36F},
                                          {0x1AB0, 0x1AFF},
                                          {0x1DC0, 0x1DFF},
                                          {0x200B, 0x200F},
                                          {0x20D0, 0x20FF},
                                          {0xFE00, 0xFE0F},
                                          {0xFE20, 0xFE2F}}};
constexpr std::array<Range, 14> kTwoColumns{{{0x1100, 0x115F},
                                             {0x2E80, 0x303E},
                                             {0x3041, 0x33FF},
                                             {0x3400, 0x4DBF},
                                             {0x4E00, 0xA4CF},
                                             {0xA960, 0xA97F},
                                             {0xAC00, 0xD7A3},
                                             {0xF900, 0xFAFF},
                                             {0xFE30, 0xFE6F},
                                             {0xFF00, 0xFF60},
                                             {0xFFE0, 0xFFE6},
                                             {0x1F300, 0x1F64F},
                                             {0x1F680, 0x1F9FF},
                                             {0x20000, 0x3FFFD}}};

struct Character {
    std::size_t bytes, columns;
};

template <std::size_t N>
bool contains(const std::array<Range, N>& ranges, std::uint32_t code) noexcept {
    return std::any_of(ranges.begin(), ranges.end(),
                       [code](const Range& range) { return range.first <= code && code <= range.last; });
}

// `text` is not empty.
Character first_of(std::string_view text) noexcept {
    const auto lead = static_cast<unsigned char>(text.front());
    const std::size_t bytes = lead >= 0xF0 && lead < 0xF8   ? 4
                              : lead >= 0xE0 && lead < 0xF0 ? 3
                              : lead >= 0xC0 && lead < 0xE0 ? 2
                                                            : 1;
    if (bytes == 1 || text.size() < bytes) return {1, 1};
    std::uint32_t code = lead & (0x7FU >> bytes);
    for (std::size_t i = 1; i < bytes; ++i) {
        const auto next = static_cast<unsigned char>(text[i]);
        if ((next & 0xC0) != 0x80) return {1, 1};
        code = code << 6 | (next & 0x3FU);
    }
    if (contains(kNoColumn, code)) return {bytes, 0};
    return {bytes, contains(kTwoColumns, code) ? 2U : 1U};
}

}   // namespace

std::size_t display_width(std::string_view text) noexcept {
    std::size_t columns = 0;
    while (!text.empty()) {
        const Character character = first_of(text);
        columns += character.columns;
        text.remove_prefix(character.bytes);
    }
    return columns;
}

std::size_t bytes_in_columns(std::string_view text, std::size_t columns) noexcept {
    std::size_t bytes = 0;
    while (bytes < text.size()) {
        const Character character = first_of(text.substr(bytes));
        if (character.columns > columns) break;
        columns -= character.columns;
        bytes += character.bytes;
    }
    return bytes;
}

std::size_t begin_of_last_columns(std::string_view text, std::size_t columns) noexcept {
    std::size_t begin = 0;
    for (std::size_t left = display_width(text); left > columns;) {
        const Character character = first_of(text.substr(begin));
        left -= character.columns;
        begin += character.bytes;
    }
    return begin;
}

}   // namespace forebay
