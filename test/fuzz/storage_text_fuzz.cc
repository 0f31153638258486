// Configuration files of Cache VOL that somebody else has made up, as the C library of programs reads them: the same
// settings with the same values as the plugin's, in the same order.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/storage_text.h"
#include "cache_vol/settings.h"

namespace {

using namespace forebay;
using Pairs = std::vector<std::pair<std::string, std::string>>;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

// As the plugin takes a size: of the storage, 1 MiB at least. 0: it refuses it.
std::uint64_t size_of(const std::string& value) {
    cache_vol::Settings settings;
    settings.found.push_back({"HDF5_CACHE_STORAGE_SIZE", value, "here"});
    for (const DefaultValue& option : cache_vol::translate(settings, "/w", "/m").defaults)
        if (option.name == "read_cache_size") return std::stoull(option.value);
    return 0;
}

void check_size(const std::string& value) {
    constexpr std::uint64_t kLeast = std::uint64_t{1} << 20;
    double bytes = 0;
    const bool known = forebay_bytes_in(value.c_str(), &bytes);
    require(!known || (bytes >= 0 && bytes <= static_cast<double>(std::uint64_t{1} << 50)), "sizes are in bounds");
    require((known ? std::max(static_cast<std::uint64_t>(bytes), kLeast) : 0) == size_of(value), "sizes are the same");
}

}   // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    std::vector<char> text(input.begin(), input.end());
    text.push_back('x');
    Pairs ours;
    forebay_read_settings(
        text.data(), size,
        [](void* into, const char* key, const char* value) { static_cast<Pairs*>(into)->emplace_back(key, value); },
        &ours);
    for (const auto& [key, value] : ours)
        if (key.ends_with("_SIZE")) check_size(value);
    if (input.find('\0') != std::string_view::npos) return 0;   // C ends a line there
    cache_vol::Settings settings;
    cache_vol::read_lines(input, "file", settings);
    Pairs theirs;
    for (const auto& one : settings.found) theirs.emplace_back(one.key, one.value);
    require(ours == theirs, "the settings are the same");
    return 0;
}
