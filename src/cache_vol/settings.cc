#include "cache_vol/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace forebay::cache_vol {

namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";
constexpr std::string_view kSeparators = " \t\r\n\v\f:=";
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 50;

constexpr std::string_view kPath = "HDF5_CACHE_STORAGE_PATH", kSize = "HDF5_CACHE_STORAGE_SIZE",
                           kBuffer = "HDF5_CACHE_WRITE_BUFFER_SIZE", kType = "HDF5_CACHE_STORAGE_TYPE",
                           kScope = "HDF5_CACHE_STORAGE_SCOPE", kPolicy = "HDF5_CACHE_REPLACEMENT_POLICY",
                           kFusion = "HDF5_CACHE_FUSION_THRESHOLD";
constexpr std::array kKeys{kPath, kSize, kBuffer, kType, kScope, kPolicy, kFusion};
// Keys of earlier versions with their names of today. An empty name: the key is gone.
struct Older {
    std::string_view name, now;
};
constexpr std::array kOlderKeys{
    Older{"HDF5_LOCAL_STORAGE_PATH", kPath},        Older{"HDF5_LOCAL_STORAGE_SIZE", kSize},
    Older{"HDF5_LOCAL_STORAGE_TYPE", kType},        Older{"HDF5_LOCAL_STORAGE_SCOPE", kScope},
    Older{"HDF5_WRITE_CACHE_SIZE", kBuffer},        Older{"HDF5_CACHE_REPLACEMENT", kPolicy},
    Older{"HDF5_CACHE_FUSHION_THRESHOLD", kFusion}, Older{"HDF5_CACHE_FLUSH_MODE", ""},
};

// Words that people write for "yes" and "no". An empty value is "no", like in Cache VOL.
constexpr std::array<std::string_view, 7> kYes{"yes", "y", "true", "t", "1", "on", "enable"};
constexpr std::array<std::string_view, 9> kNo{"no", "n", "false", "f", "0", "off", "disable", "none", ""};

std::string_view trim(std::string_view text) noexcept {
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string shown(std::string_view text) { return fmt::format("'{}'", text.substr(0, 80)); }

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(),
                   [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
    return result;
}

// Accepts "137438953472", "1.37e11", and "128GiB" as forebay's own options do.
std::optional<std::uint64_t> bytes_of(std::string_view value) {
    double number = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
    if (parsed.ec == std::errc{} && parsed.ptr == value.data() + value.size()) {
        if (!std::isfinite(number) || number < 0) return std::nullopt;
        return number >= static_cast<double>(kSizeMax) ? kSizeMax : static_cast<std::uint64_t>(number);
    }
    const auto size = parse_size(value);
    return size ? std::optional(std::min(size.value(), kSizeMax)) : std::nullopt;
}

class Translator {
  public:
    Translator(const Settings& settings, std::string_view working_directory, std::string_view memory)
        : settings_(settings), working_directory_(working_directory), memory_(memory) {}

    Translation run() {
        storage();
        sizes();
        if (const Setting* policy = find(kPolicy)) replacement(*policy);
        if (const Setting* scope = find(kScope); scope != nullptr && lower(scope->value) != "local")
            notice(*scope, "each process keeps a log of its own there; there is no file that all share");
        if (const Setting* fusion = find(kFusion); fusion != nullptr && !bytes_of(fusion->value))
            notice(*fusion, "expected a number of bytes; it has no effect here");
        return std::move(result_);
    }

  private:
    [[nodiscard]] const Setting* find(std::string_view key) const {
        const auto found = std::find_if(settings_.found.rbegin(), settings_.found.rend(),
                                        [&](const Setting& one) { return one.key == key; });
        return found == settings_.found.rend() ? nullptr : &*found;
    }
    void set(std::string_view option, std::string value, const Setting& by) {
        result_.defaults.push_back({std::string(option), std::move(value), by.source});
    }
    void notice(const Setting& of, std::string_view what) {
        result_.notices.push_back(fmt::format("{}={} ({}): {}", of.key, of.value.substr(0, 200), of.source, what));
    }
    void problem(const Setting& of, std::string_view what) {
        result_.problems.emplace_back(Code::kInvalidArgument,
                                      fmt::format("{}={} ({}): {}", of.key, of.value.substr(0, 200), of.source, what));
    }

    void storage() {
        const Setting* const type = find(kType);
        const Setting* const path = find(kPath);
        const std::string kind = type != nullptr ? lower(type->value) : "ssd";
        if (kind == "gpu") notice(*type, "nothing is staged on a GPU; it is staged in memory");
        if (kind == "memory" || kind == "gpu") {
            set("nls", as_staging_device(memory_), *type);
            return;
        }
        if (kind != "ssd" && kind != "burst_buffer") return problem(*type, "expected SSD, BURST_BUFFER, MEMORY or GPU");
        if (path == nullptr || path->value == "NULL") return;   // forebay's default
        const bool absolute = path->value.starts_with('/');
        set("nls", as_staging_device(absolute ? path->value : fmt::format("{}/{}", working_directory_, path->value)),
            *path);
    }

    void sizes() {
        const Setting* const storage = find(kSize);
        const Setting* const buffer = find(kBuffer);
        const auto storage_bytes = size_of(storage), buffer_bytes = size_of(buffer);
        if (buffer_bytes && storage_bytes && *buffer_bytes > *storage_bytes)
            return problem(*buffer,
                           fmt::format("more than {}={} ({})", kSize, storage->value.substr(0, 200), storage->source));
        if (storage_bytes) set("read_cache_size", at_least_the_least(*storage, *storage_bytes), *storage);
        if (buffer_bytes) set("size", at_least_the_least(*buffer, *buffer_bytes), *buffer);
        else if (storage_bytes && *storage_bytes < 8 * kGiB)
            set("size", std::to_string(std::max(*storage_bytes, kMiB)), *storage);
    }
    std::optional<std::uint64_t> size_of(const Setting* setting) {
        if (setting == nullptr) return std::nullopt;
        const auto bytes = bytes_of(setting->value);
        if (!bytes) problem(*setting, "expected a number of bytes");
        return bytes;
    }
    std::string at_least_the_least(const Setting& setting, std::uint64_t bytes) {
        if (bytes < kMiB) notice(setting, "1 MiB is the least, and is used");
        return std::to_string(std::max(bytes, kMiB));
    }

    void replacement(const Setting& policy) {
        const std::string word = lower(policy.value);
        if (word == "lru" || word == "lfu" || word == "fifo" || word == "lifo")
            return set("read_cache_replacement", word, policy);
        problem(policy, "expected LRU, LFU, FIFO or LIFO");
    }

    const Settings& settings_;
    const std::string_view working_directory_, memory_;
    Translation result_;
};

}   // namespace

void read_lines(std::string_view text, std::string_view source, Settings& into, Values values) {
    std::size_t number = 0;
    while (!text.empty()) {
        ++number;
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t begin = line.find_first_not_of(kBlanks);
        if (begin == std::string_view::npos || line[begin] == '#') continue;
        line.remove_prefix(begin);
        const std::size_t key_end = std::min(line.find_first_of(kSeparators), line.size());
        const std::string_view key = line.substr(0, key_end);
        const std::size_t value_begin = std::min(line.find_first_not_of(kSeparators, key_end), line.size());
        line.remove_prefix(value_begin);
        const std::size_t value_end = values == Values::kWholeLine ? line.size() : line.find_first_of(kBlanks);
        const std::string_view value = line.substr(0, std::min(value_end, line.size()));
        const std::string place = fmt::format("{}:{}", source, number);
        const auto older = std::find_if(kOlderKeys.begin(), kOlderKeys.end(),
                                        [&](const Older& one) { return one.name == key; });
        const std::string_view now = older != kOlderKeys.end() ? older->now : key;
        if (std::find(kKeys.begin(), kKeys.end(), now) == kKeys.end())
            into.notices.push_back(fmt::format("{}: {} is no setting that does anything here", place, shown(key)));
        else if (value.empty()) into.notices.push_back(fmt::format("{}: {} has no value", place, shown(key)));
        else into.found.push_back({std::string(now), std::string(value), place});
    }
}

void read_variables(const Getenv& look_up, Settings& into) {
    const auto value_of = [&](const char* name) -> std::string_view {
        const char* const value = look_up(name);
        return value != nullptr ? value : "";
    };
    // Names from before the first generation.
    if (const std::string_view path = value_of("SSD_PATH"); !path.empty())
        into.found.push_back({std::string(kPath), std::string(path), "SSD_PATH"});
    if (const std::string_view size = value_of("SSD_SIZE"); !size.empty()) {
        const auto number = bytes_of(size);   // GiB
        const std::uint64_t bytes = number ? std::min(*number, kSizeMax / kGiB) * kGiB : 0;
        into.found.push_back({std::string(kSize), number ? std::to_string(bytes) : std::string(size), "SSD_SIZE"});
    }
    for (const Older& one : kOlderKeys) {
        const std::string name(one.name);
        if (const std::string_view value = value_of(name.c_str()); !value.empty() && !one.now.empty())
            into.found.push_back({std::string(one.now), std::string(value), name});
    }
}

Translation translate(const Settings& settings, std::string_view working_directory, std::string_view memory) {
    return Translator(settings, working_directory, memory).run();
}

Switch switch_of(const Getenv& look_up, const char* variable, std::vector<std::string>* notices) {
    const char* const value = look_up(variable);
    if (value == nullptr) return Switch::kByList;
    const std::string word = lower(trim(value));
    if (std::find(kYes.begin(), kYes.end(), word) != kYes.end()) return Switch::kOn;
    if (notices != nullptr && std::find(kNo.begin(), kNo.end(), word) == kNo.end())
        notices->push_back(fmt::format("{}={}: expected yes or no; it counts as no", variable,
                                       std::string_view(value).substr(0, 80)));
    return Switch::kOff;
}

}   // namespace forebay::cache_vol
