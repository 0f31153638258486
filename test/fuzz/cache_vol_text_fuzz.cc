// Connector strings and configuration files of Cache VOL that somebody else has made up: they are taken apart or
// refused, and what they come to are options that hold together.
//
// The input is a connector string up to the first zero byte, and a configuration file after that.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cache_vol/connector_text.h"
#include "cache_vol/settings.h"

namespace {

using namespace forebay;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

void check(const Options& options) {
    require(!options.nls.empty(), "there is a staging area");
    require(options.segment <= options.size / 2 && options.reserve <= options.size, "the parts fit the log");
}

}   // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::size_t end = std::min(input.find('\0'), input.size());
    const cache_vol::ConnectorText parsed = cache_vol::parse_connector_text(input.substr(0, end));
    require(!parsed.under_vol.empty(), "there is a connector beneath");
    for (const char* taken_off : {"512", "513", "518", "707", "async", "cache_ext"})
        require(parsed.under_vol != taken_off, "asynchrony and the cache itself are taken off");
    cache_vol::Settings settings;
    cache_vol::read_lines(input.substr(std::min(end + 1, input.size())), "file", settings);
    cache_vol::read_lines(parsed.local_storage, "list", settings, cache_vol::Values::kWholeLine);
    const cache_vol::Translation translated = cache_vol::translate(settings, "/w", "/m");
    const LoadedOptions loaded = load_options(
        parsed.options, [](const char*) -> const char* { return nullptr; }, {}, translated.defaults);
    check(loaded.options);
    // What is written as a connector string is read as the same options, unless a value cannot be written so.
    if (loaded.problems.empty())
        check(load_options(to_connector_string(loaded.options), [](const char*) -> const char* {
                  return nullptr;
              }).options);
    return 0;
}
