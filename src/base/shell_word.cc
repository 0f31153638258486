#include "base/shell_word.h"

#include <fmt/format.h>

#include <algorithm>

namespace forebay {

namespace {

bool is_control(char c) noexcept {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
}

// Bytes above 127 belong to letters of other scripts.
bool is_plain(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           static_cast<unsigned char>(c) > 0x7f || std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
}

}   // namespace

std::string shell_word(std::string_view path) {
    if (!path.empty() && std::ranges::all_of(path, is_plain)) return std::string(path);
    const bool escapes = std::ranges::any_of(path, is_control);
    std::string word = escapes ? "$'" : "'";
    for (const char c : path) {
        if (is_control(c)) word += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        else if (c == '\'') word += escapes ? "\\'" : "'\\''";
        else if (c == '\\' && escapes) word += "\\\\";
        else word += c;
    }
    return word + "'";
}

}   // namespace forebay
