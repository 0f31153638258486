// One option's value: text to value and back. Used by the loader of options; not for other rooms.
#pragma once

#include <string>
#include <string_view>

#include "base/options.h"

namespace forebay::options_internal {

// Parses `text` and stores it in `options`. The failure says only what is wrong with the text and what
// is allowed; the caller adds option, value and source with `refusal`.
[[nodiscard]] Status store_value(const OptionSpec& spec, std::string_view text, Options& options);

// Stores `under_vol` or `under_info`, which only the connector string may set. kNotFound: any other name.
[[nodiscard]] Status store_beneath(std::string_view name, std::string_view text, Options& options);

// "option size=12x (FOREBAY_SIZE): not a size; ..."
[[nodiscard]] Status refusal(std::string_view name, std::string_view value, std::string_view source,
                             std::string_view reason);
// The same for a name that is not in the table, with the nearest one that is.
[[nodiscard]] Status unknown_option(std::string_view name, std::string_view value, std::string_view source);
// For a variable: "FOREBAY_SISE is not an option of forebay: did you mean FOREBAY_SIZE?"
[[nodiscard]] Status unknown_variable(std::string_view variable);

// "8GiB", "1000": exact, as short as the units allow.
[[nodiscard]] std::string exact_size(std::uint64_t bytes);
[[nodiscard]] std::string_view trim(std::string_view text) noexcept;
// True if every brace has its partner, in order.
[[nodiscard]] bool braces_balanced(std::string_view text) noexcept;

}   // namespace forebay::options_internal
