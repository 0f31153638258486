// One option's value: text to value and back. Only for the option loader.
#pragma once

#include <string>
#include <string_view>

#include "base/options.h"

namespace forebay::options_internal {

// Parses `text` into `options`. The failure names the error and the allowed values; `refusal` adds option and source.
[[nodiscard]] Status store_value(const OptionSpec& spec, std::string_view text, Options& options);

// Stores `under_vol` or `under_info`, which only the connector string may set. Returns kNotFound for any other name.
[[nodiscard]] Status store_beneath(std::string_view name, std::string_view text, Options& options);

// "option size=12x (FOREBAY_SIZE): not a size; ..."
[[nodiscard]] Status refusal(std::string_view name, std::string_view value, std::string_view source,
                             std::string_view reason);
[[nodiscard]] Status unknown_option(std::string_view name, std::string_view value, std::string_view source);
// Returns the refusal of a variable: "FOREBAY_SISE is not an option of forebay: did you mean FOREBAY_SIZE?"
[[nodiscard]] Status unknown_variable(std::string_view variable);

// Formats a size exactly, in the largest unit that divides it: "8GiB", "1000".
[[nodiscard]] std::string exact_size(std::uint64_t bytes);
[[nodiscard]] std::string_view trim(std::string_view text) noexcept;
[[nodiscard]] bool braces_balanced(std::string_view text) noexcept;

}   // namespace forebay::options_internal
