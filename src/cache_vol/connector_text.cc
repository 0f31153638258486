#include "cache_vol/connector_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace forebay::cache_vol {

namespace {

constexpr std::string_view kTextBlanks = " \t\r\n\v\f";
constexpr std::array<std::string_view, 3> kAsynchrony{"512", "518", "707"};
constexpr std::array<std::string_view, 2> kItself{"513", "cache_ext"};

std::string_view trim_text(std::string_view text) noexcept {
    const std::size_t begin = text.find_first_not_of(kTextBlanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kTextBlanks) - begin + 1);
}

// Strips the outermost braces. The last brace may be missing.
std::string_view without_braces(std::string_view value) noexcept {
    if (!value.starts_with('{')) return value;
    value.remove_prefix(1);
    if (value.ends_with('}')) value.remove_suffix(1);
    return trim_text(value);
}

struct Pair {
    std::string_view name, value;   // the value with its braces
    bool has_value = false;
};

// Cuts the first pair off `rest`. Returns nothing if no pair is left.
std::optional<Pair> next_pair(std::string_view& rest) {
    for (;;) {
        rest = trim_text(rest);
        while (rest.starts_with(';')) rest = trim_text(rest.substr(1));
        if (rest.empty()) return std::nullopt;
        const std::size_t sign = rest.find_first_of("=;");
        const bool has_value = sign != std::string_view::npos && rest[sign] == '=';
        Pair pair{trim_text(rest.substr(0, sign)), {}, has_value};
        rest.remove_prefix(sign == std::string_view::npos ? rest.size() : sign + 1);
        if (!has_value) return pair;
        rest = trim_text(rest);
        std::size_t end = std::min(rest.find(';'), rest.size());
        if (rest.starts_with('{')) {
            std::size_t depth = 0;
            for (end = 0; end < rest.size(); ++end) {
                if (rest[end] == '{') ++depth;
                if (rest[end] == '}' && --depth == 0) {
                    ++end;
                    break;
                }
            }
        }
        pair.value = trim_text(rest.substr(0, end));
        rest.remove_prefix(end);
        return pair;
    }
}

bool is_one_of(const auto& list, std::string_view name) noexcept {
    return std::find(list.begin(), list.end(), name) != list.end();
}

// These characters end or change a value, so they are encoded.
constexpr std::string_view kNotPlain = "%{}";

std::string decode(std::string_view text) {
    std::string plain;
    while (!text.empty()) {
        const std::size_t sign = std::min(text.find('%'), text.size());
        plain += text.substr(0, sign);
        text.remove_prefix(sign);
        unsigned char byte = 0;
        const char* const end = text.data() + std::min<std::size_t>(text.size(), 3);
        const bool coded = text.size() >= 3 && std::from_chars(text.data() + 1, end, byte, 16).ptr == end;
        if (coded) plain += static_cast<char>(byte);
        else plain += text.substr(0, 1);
        text.remove_prefix(std::min<std::size_t>(text.size(), coded ? 3 : 1));
    }
    return plain;
}

std::string quoted(std::string_view word) { return fmt::format("'{}'", word.substr(0, 80)); }

}   // namespace

ConnectorText parse_connector_text(std::string_view text) {
    ConnectorText result;
    std::string_view rest = text, under_info;
    while (const auto pair = next_pair(rest)) {
        if (!pair->has_value) {
            result.notices.push_back(fmt::format(
                "the connector string has {}, which is no name=value, and is passed over", quoted(pair->name)));
            continue;
        }
        const std::string_view value = without_braces(pair->value);
        if (pair->name == "config") result.config = value;
        else if (pair->name == "local_storage") result.local_storage = decode(value);
        else if (pair->name == "under_vol") result.under_vol = value;
        else if (pair->name == "under_info") under_info = value;
        else result.options += fmt::format("{}{}={}", result.options.empty() ? "" : ";", pair->name, pair->value);
    }
    if (result.under_vol.empty()) result.under_vol = "0";
    // Each turn takes off one layer with its braces, so the loop ends.
    bool itself = false;
    for (;;) {
        const bool is_async = is_one_of(kAsynchrony, result.under_vol) || result.under_vol == "async";
        const bool is_itself = is_one_of(kItself, result.under_vol);
        if (!is_async && !is_itself) break;
        result.asynchronous = result.asynchronous || is_async;
        itself = itself || is_itself;
        std::string_view layer = under_info;
        result.under_vol = "0";
        under_info = {};
        while (const auto pair = next_pair(layer)) {
            if (pair->name == "under_vol" && !trim_text(pair->value).empty())
                result.under_vol = without_braces(pair->value);
            if (pair->name == "under_info") under_info = without_braces(pair->value);
        }
    }
    if (result.under_vol.empty()) result.under_vol = "0";
    if (result.under_vol != "0") result.under_info = under_info;
    if (result.asynchronous) result.notices.emplace_back(kOwnAsynchrony);
    if (itself)
        result.notices.emplace_back("the connector string stacks cache_ext on itself: there is one cache, the first "
                                    "configuration file holds for it");
    return result;
}

std::string text_of_storage(std::string_view lines) {
    std::string coded;
    for (const char byte : lines)
        if (kNotPlain.find(byte) == std::string_view::npos) coded += byte;
        else coded += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
    return fmt::format(";local_storage={{{}}}", coded);
}

}   // namespace forebay::cache_vol
