// Connector strings and configuration files as nobody would write them: any bytes, and bytes that look like pairs.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "cache_vol/connector_text.h"
#include "cache_vol/settings.h"
#include "support/seeds.h"

namespace forebay::cache_vol {
namespace {

const char* const kWords[] = {"config",
                              "under_vol",
                              "under_info",
                              "local_storage",
                              "=",
                              ";",
                              "{",
                              "}",
                              "512",
                              "513",
                              "0",
                              "707",
                              " ",
                              "\n",
                              "\t",
                              ":",
                              "#",
                              "/a/b",
                              "size",
                              "1e400",
                              "nan",
                              "NULL",
                              "MEMORY",
                              "GPU",
                              "LRU",
                              "GLOBAL",
                              "-",
                              "yes",
                              "",
                              "\r",
                              "HDF5_CACHE_STORAGE_PATH",
                              "HDF5_CACHE_STORAGE_SIZE",
                              "HDF5_CACHE_WRITE_BUFFER_SIZE",
                              "HDF5_CACHE_STORAGE_TYPE",
                              "HDF5_CACHE_REPLACEMENT_POLICY",
                              "HDF5_CACHE_STORAGE_SCOPE"};

std::string hostile(std::mt19937_64& random) {
    std::string text;
    const std::size_t length = random() % 60;
    for (std::size_t i = 0; i < length; ++i) {
        if (random() % 8 == 0) text += static_cast<char>(random());
        else text += kWords[random() % std::size(kWords)];
    }
    return text;
}

TEST(HostileText, is_taken_apart_or_refused_and_gives_options_that_load) {
    for (const std::uint64_t seed : test::seeds("HostileText", 4, {})) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        for (int i = 0; i < 5000; ++i) {
            const ConnectorText parsed = parse_connector_text(hostile(random));
            EXPECT_FALSE(parsed.under_vol.empty());
            EXPECT_TRUE(parsed.under_vol != "512" && parsed.under_vol != "513" && parsed.under_vol != "707");
            Settings settings;
            read_lines(hostile(random), "file", settings);
            read_lines(parsed.local_storage, "list", settings);
            const Translation translation = translate(settings, "/w", "/m");
            const LoadedOptions loaded = load_options(
                parsed.options, [](const char*) -> const char* { return nullptr; }, {}, translation.defaults);
            EXPECT_FALSE(loaded.options.nls.empty());
            EXPECT_LE(loaded.options.reserve, loaded.options.size);
            EXPECT_LE(loaded.options.segment, loaded.options.size / 2);
        }
    }
}

TEST(HostileText, a_very_deep_stack_of_layers_is_taken_off) {
    std::string text = "under_vol=517";
    for (int i = 0; i < 1000; ++i) text = "under_vol=512;under_info={" + text + "}";
    EXPECT_EQ(parse_connector_text(text).under_vol, "517");
}

}   // namespace
}   // namespace forebay::cache_vol
