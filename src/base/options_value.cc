#include "base/options_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <variant>
#include <vector>

#include "base/job_end.h"
#include "base/spelling.h"

namespace forebay {

namespace {

using options_internal::trim;

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return result;
}

// Binds a choice by index: the enumerators have the order of `OptionSpec::choices`.
struct ChoiceBinding {
    void (*store)(Options&, std::size_t);
    std::size_t (*index)(const Options&);
};
template <auto Member>
constexpr ChoiceBinding choice() {
    return {[](Options& options, std::size_t index) {
                auto& field = options.*Member;
                field = static_cast<std::remove_reference_t<decltype(field)>>(index);
            },
            [](const Options& options) { return static_cast<std::size_t>(options.*Member); }};
}

struct DevicesBinding {};   // option nls, which sets several fields
using Binding =
    std::variant<bool Options::*, std::string Options::*, std::uint64_t Options::*, ChoiceBinding, DevicesBinding>;
struct NamedBinding {
    std::string_view name;
    Binding field;
};
const std::array<NamedBinding, 28>& bindings() {
    static const std::array<NamedBinding, 28> all{{
        {"stage", &Options::stage},
        {"nls", DevicesBinding{}},
        {"size", &Options::size},
        {"full", choice<&Options::full>()},
        {"strict", &Options::strict},
        {"drain_threads", &Options::drain_threads},
        {"patience", &Options::patience},
        {"stripe", &Options::stripe},
        {"on_error", choice<&Options::on_error>()},
        {"durability", choice<&Options::durability>()},
        {"flush", choice<&Options::flush>()},
        {"close", choice<&Options::close>()},
        {"deadline", &Options::deadline},
        {"mpi", choice<&Options::mpi>()},
        {"read_cache", choice<&Options::read_cache>()},
        {"read_cache_size", &Options::read_cache_size},
        {"revalidate", &Options::revalidate},
        {"prefetch", choice<&Options::prefetch>()},
        {"read_cache_lifetime", choice<&Options::read_cache_lifetime>()},
        {"read_cache_replacement", choice<&Options::read_cache_replacement>()},
        {"read_cache_servers", &Options::read_cache_servers},
        {"node", &Options::node},
        {"nodes", choice<&Options::nodes>()},
        {"server", &Options::server},
        {"server_key", &Options::server_key},
        {"stats", &Options::stats},
        {"trace", &Options::trace},
        {"registry", &Options::registry},
    }};
    return all;
}

const Binding* binding_of(std::string_view name) {
    for (const NamedBinding& binding : bindings())
        if (!name.empty() && binding.name == name) return &binding.field;
    return nullptr;
}

Status invalid(std::string reason) { return {Code::kInvalidArgument, std::move(reason)}; }

std::vector<std::string_view> split_choices(std::string_view choices) {
    std::vector<std::string_view> result;
    while (!choices.empty()) {
        const std::size_t bar = choices.find('|');
        result.push_back(choices.substr(0, bar));
        choices.remove_prefix(bar == std::string_view::npos ? choices.size() : bar + 1);
    }
    return result;
}

std::string joined_choices(std::string_view choices) {
    std::string result;
    for (const std::string_view one : split_choices(choices)) {
        if (!result.empty()) result += " or ";
        result += one;
    }
    return result;
}

Result<bool> parse_bool(std::string_view text) {
    const std::string word = lower(text);
    for (const std::string_view yes : {"on", "true", "yes", "1"})
        if (word == yes) return true;
    for (const std::string_view no : {"off", "false", "no", "0"})
        if (word == no) return false;
    return invalid("neither on nor off; allowed are on, true, yes, 1 and off, false, no, 0");
}

// Accepts digits only. Returns kUnsupported if the number exceeds 64 bits.
Result<std::uint64_t> parse_digits(std::string_view digits) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc::result_out_of_range) return Status(Code::kUnsupported, "too large");
    if (error != std::errc() || end != digits.data() + digits.size()) return invalid("not a number");
    return value;
}

Status store_number(const OptionSpec& spec, std::string_view text, Options& options, std::uint64_t Options::* field) {
    const auto words = split_choices(spec.choices);
    if (const auto word = std::find(words.begin(), words.end(), lower(text)); word != words.end()) {
        options.*field = word_value(static_cast<std::size_t>(word - words.begin()));
        return Status::ok();
    }
    const bool is_size = spec.type == OptionType::kSize;
    const Result<std::uint64_t> parsed = is_size ? parse_size(text) : parse_digits(text);
    const std::string allowed = "; allowed: " + option_range(spec);
    if (!parsed) {
        if (parsed.status().code() == Code::kUnsupported) return invalid("too large" + allowed);
        return invalid((is_size ? "not a size (a whole number, bytes or with k, M, G or T, such as 8GiB)"
                                : "not a whole number") +
                       allowed);
    }
    if (parsed.value() < spec.minimum) return invalid("too small" + allowed);
    if (parsed.value() > spec.maximum) return invalid("too large" + allowed);
    options.*field = parsed.value();
    return Status::ok();
}

Status store_text(const OptionSpec& spec, std::string_view text, Options& options, std::string Options::* field) {
    if (text.find('\0') != std::string_view::npos) return invalid("contains a zero byte");
    // A word meant as a switch would otherwise become a file name.
    if ((spec.name == "stats" || spec.name == "trace") && parse_bool(trim(text)))
        return invalid("on and off are not paths; allowed: a path, such as /tmp/forebay.jsonl, or nothing");
    if (spec.name == "registry" && !text.empty() && text.front() != '/')
        return invalid("not an absolute path; it would move with the program's working directory");
    if (spec.type == OptionType::kTime)
        if (const auto end = parse_job_end(trim(text)); !end)
            return invalid(end.status().message() + "; allowed: " + option_range(spec));
    options.*field = std::string(text);
    return Status::ok();
}

Status store_devices(std::string_view text, Options& options) {
    if (text.find('\0') != std::string_view::npos) return invalid("contains a zero byte");
    auto devices = parse_staging_devices(text);
    if (!devices) return devices.status();
    std::vector<StagingDevice>& all = devices.value();
    options.nls = all.empty() ? std::string() : all.front().path;
    options.nls_bytes = all.empty() ? 0 : all.front().bytes;
    if (!all.empty()) all.erase(all.begin());
    options.more_devices = std::move(all);
    return Status::ok();
}

const OptionSpec* nearest_option(std::string_view name) {
    std::vector<std::string_view> names;
    for (const OptionSpec& spec : option_table()) names.push_back(spec.name);
    const auto nearest = nearest_word(name, names);
    return nearest ? find_option(*nearest) : nullptr;
}

constexpr std::string_view kUnits = "kMGT";

}   // namespace

namespace options_internal {

std::string_view trim(std::string_view text) noexcept {
    constexpr std::string_view kBlank = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

bool braces_balanced(std::string_view text) noexcept {
    std::size_t depth = 0;
    for (const char c : text) {
        if (c == '{') ++depth;
        if (c == '}' && depth-- == 0) return false;
    }
    return depth == 0;
}

std::string exact_size(std::uint64_t bytes) {
    std::size_t unit = 0;
    while (bytes != 0 && bytes % 1024 == 0 && unit < kUnits.size()) {
        bytes /= 1024;
        ++unit;
    }
    std::string text = std::to_string(bytes);
    if (unit > 0) (text += kUnits[unit - 1]) += "iB";
    return text;
}

Status store_value(const OptionSpec& spec, std::string_view text, Options& options) {
    const Binding* binding = binding_of(spec.name);
    if (binding == nullptr) return {Code::kInternal, "option " + std::string(spec.name) + " has no field"};
    if (const auto* field = std::get_if<std::string Options::*>(binding))
        return store_text(spec, text, options, *field);
    if (const auto* field = std::get_if<std::uint64_t Options::*>(binding))
        return store_number(spec, trim(text), options, *field);
    if (const auto* field = std::get_if<bool Options::*>(binding)) {
        const Result<bool> parsed = parse_bool(trim(text));
        if (!parsed) return parsed.status();
        options.*(*field) = parsed.value();
        return Status::ok();
    }
    if (std::holds_alternative<DevicesBinding>(*binding)) return store_devices(text, options);
    const std::vector<std::string_view> choices = split_choices(spec.choices);
    const std::string word = lower(trim(text));
    auto found = std::find(choices.begin(), choices.end(), word);
    // A choice with "on" and "off" accepts the other words for them, too.
    if (const auto flag = parse_bool(word); found == choices.end() && flag)
        found = std::find(choices.begin(), choices.end(), flag.value() ? "on" : "off");
    if (found == choices.end()) return invalid("unknown choice; allowed: " + joined_choices(spec.choices));
    std::get<ChoiceBinding>(*binding).store(options, static_cast<std::size_t>(found - choices.begin()));
    return Status::ok();
}

Status store_beneath(std::string_view name, std::string_view text, Options& options) {
    if (name != "under_vol" && name != "under_info") return {Code::kNotFound, "not an option of the connector beneath"};
    if (text.find('\0') != std::string_view::npos) return invalid("contains a zero byte");
    if (name == "under_vol" && text.empty()) return invalid("empty; give a connector's value or name, 0 is HDF5's own");
    if (name == "under_info" && !braces_balanced(text)) return invalid("its braces are not paired");
    (name == "under_vol" ? options.under_vol : options.under_info) = std::string(text);
    return Status::ok();
}

Status refusal(std::string_view name, std::string_view value, std::string_view source, std::string_view reason) {
    constexpr std::size_t kShown = 200;   // keeps messages readable
    std::string message = "option ";
    (message += name) += '=';
    message += value.substr(0, kShown);
    if (value.size() > kShown) message += "...";
    ((message += " (") += source) += "): ";
    message += reason;
    return {Code::kInvalidArgument, std::move(message)};
}

Status unknown_option(std::string_view name, std::string_view value, std::string_view source) {
    const OptionSpec* nearest = nearest_option(name);
    return refusal(name, value, source,
                   nearest != nullptr ? "no such option; did you mean " + std::string(nearest->name) + "?"
                                      : "no such option; `forebay options --all` lists them");
}

Status unknown_variable(std::string_view variable) {
    std::string message(variable);
    message += " is not an option of forebay";
    const OptionSpec* nearest = nearest_option(variable.substr(std::min(variable.size(),
                                                                        std::string_view("FOREBAY_").size())));
    if (nearest != nullptr) message += ": did you mean " + option_variable(nearest->name) + "?";
    else message += "; `forebay options --all` lists them";
    return {Code::kInvalidArgument, std::move(message)};
}

}   // namespace options_internal

Result<std::uint64_t> parse_size(std::string_view text) {
    const std::string_view given = trim(text);
    const std::size_t digits = std::min(given.find_first_not_of("0123456789"), given.size());
    Result<std::uint64_t> number = parse_digits(given.substr(0, digits));
    if (!number) {
        if (number.status().code() == Code::kUnsupported) return number;
        return invalid("'" + std::string(text) + "' is not a size");
    }
    const std::string unit = lower(trim(given.substr(digits)));
    if (unit.empty() || unit == "b") return number;
    const std::string letters = lower(kUnits);
    const std::size_t power = letters.find(unit[0]);
    const std::string_view rest = std::string_view(unit).substr(1);
    if (power == std::string::npos || !(rest.empty() || rest == "b" || rest == "ib"))
        return invalid("'" + std::string(text) + "' is not a size");
    const std::uint64_t shift = 10 * (power + 1);
    if (number.value() > (std::numeric_limits<std::uint64_t>::max() >> shift))
        return Status(Code::kUnsupported, "too large");
    return number.value() << shift;
}

std::string format_size(std::uint64_t bytes) {
    static constexpr std::array<const char*, 7> kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    std::size_t unit = 0;
    auto value = static_cast<double>(bytes);
    // The format would round 1023.95 to 1024.0 of the smaller unit.
    while ((unit == 0 ? value >= 1024.0 : value >= 1023.95) && unit + 1 < kNames.size()) {
        value /= 1024.0;
        ++unit;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", unit == 0 ? static_cast<double>(bytes) : value);
    std::string result(text);
    if (result.ends_with(".0")) result.resize(result.size() - 2);
    return result + " " + kNames[unit];
}

std::string option_variable(std::string_view name) {
    std::string result = "FOREBAY_";
    for (const char c : name) result += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    return result;
}

std::string option_range(const OptionSpec& spec) {
    switch (spec.type) {
        case OptionType::kBool: return "on or off";
        case OptionType::kChoice: return joined_choices(spec.choices);
        case OptionType::kSize: return format_size(spec.minimum) + " to " + format_size(spec.maximum);
        case OptionType::kCount: {
            const std::string range = std::to_string(spec.minimum) + " to " + std::to_string(spec.maximum);
            return spec.choices.empty() ? range : joined_choices(spec.choices) + " or " + range;
        }
        case OptionType::kTime: return "a duration such as 110m, a time such as 2025-06-30T17:00, or off";
        case OptionType::kString:
        case OptionType::kPath: break;
    }
    return {};
}

Status check_option(std::string_view name, std::string_view value, std::string_view source) {
    const OptionSpec* spec = find_option(name);
    if (spec == nullptr) return options_internal::unknown_option(name, value, source);
    Options scratch;
    const Status stored = options_internal::store_value(*spec, value, scratch);
    return stored ? stored : options_internal::refusal(name, value, source, stored.message());
}

std::string option_text(const Options& options, std::string_view name) {
    const OptionSpec* spec = find_option(name);
    const Binding* binding = binding_of(name);
    if (spec == nullptr || binding == nullptr) return {};
    if (const auto* field = std::get_if<std::string Options::*>(binding)) return options.*(*field);
    if (const auto* field = std::get_if<bool Options::*>(binding)) return options.*(*field) ? "on" : "off";
    if (std::holds_alternative<DevicesBinding>(*binding))
        return options.nls.empty() ? std::string() : staging_devices_text(options.devices());
    const std::vector<std::string_view> choices = split_choices(spec->choices);
    if (const auto* field = std::get_if<std::uint64_t Options::*>(binding)) {
        const std::uint64_t value = options.*(*field);
        if (const std::uint64_t word = word_value(0) - value; word < choices.size()) return std::string(choices[word]);
        return spec->type == OptionType::kSize ? options_internal::exact_size(value) : std::to_string(value);
    }
    const std::size_t index = std::get<ChoiceBinding>(*binding).index(options);
    return index < choices.size() ? std::string(choices[index]) : std::string();
}

}   // namespace forebay
