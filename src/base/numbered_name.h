// Names that are a prefix and a decimal number, such as "board-7". Pure. Any thread.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace forebay {

// Returns the number behind `prefix`, as fmt writes it; nullopt for any other name, "board-07" and "board-7x" included.
[[nodiscard]] inline std::optional<std::uint64_t> number_in_name(std::string_view name,
                                                                 std::string_view prefix) noexcept {
    if (!name.starts_with(prefix)) return std::nullopt;
    const std::string_view digits = name.substr(prefix.size());
    std::uint64_t number = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
    return digits.size() > 1 && digits.front() == '0' ? std::nullopt : std::optional(number);
}

}   // namespace forebay
