#include "cache_vol/settings.h"

#include <gtest/gtest.h>

#include <map>

namespace forebay::cache_vol {
namespace {

using Environment = std::map<std::string, std::string>;

Translation translated(std::string_view text, const Environment& environment = {}) {
    Settings settings;
    read_variables(
        [&](const char* name) -> const char* {
            const auto found = environment.find(name);
            return found != environment.end() ? found->second.c_str() : nullptr;
        },
        settings);
    read_lines(text, "SSD.cfg", settings);
    Translation result = translate(settings, "/here", "/memory");
    result.notices.insert(result.notices.begin(), settings.notices.begin(), settings.notices.end());
    return result;
}

// Each option that has a default, as name=value.
std::string defaults_of(const Translation& translation) {
    std::map<std::string, std::string> last;
    for (const DefaultValue& one : translation.defaults) last[one.name] = one.value;
    std::string text;
    for (const auto& [name, value] : last) text += (text.empty() ? "" : " ") + name + "=" + value;
    return text;
}

TEST(CacheVolSettings, keys_are_followed_by_a_colon_or_by_blanks) {
    for (const char* const separator : {":", ": ", " ", "\t", " \t ", " : ", "="}) {
        std::string text = "# NVMe of the node\n\n";
        for (const auto& [key, value] : Environment{{"HDF5_CACHE_STORAGE_PATH", "/local/scratch"},
                                                    {"HDF5_CACHE_STORAGE_SIZE", "137438953472"},
                                                    {"HDF5_CACHE_STORAGE_TYPE", "SSD"},
                                                    {"HDF5_CACHE_STORAGE_SCOPE", "LOCAL"},
                                                    {"HDF5_CACHE_WRITE_BUFFER_SIZE", "102457690"},
                                                    {"HDF5_CACHE_FUSION_THRESHOLD", "16777216"},
                                                    {"HDF5_CACHE_REPLACEMENT_POLICY", "LFU"}})
            text += key + separator + value + "   # text behind\r\n";
        const auto result = translated(text);
        EXPECT_EQ(defaults_of(result),
                  "nls=/local/scratch read_cache_replacement=lfu read_cache_size=137438953472 size=102457690")
            << separator;
        EXPECT_TRUE(result.notices.empty());
        EXPECT_TRUE(result.problems.empty());
    }
}

TEST(CacheVolSettings, memory_and_gpu_are_a_directory_in_memory) {
    EXPECT_EQ(defaults_of(translated("HDF5_CACHE_STORAGE_TYPE: MEMORY\nHDF5_CACHE_STORAGE_PATH: NULL")), "nls=/memory");
    const auto gpu = translated("HDF5_CACHE_STORAGE_TYPE GPU");
    EXPECT_EQ(defaults_of(gpu), "nls=/memory");
    EXPECT_EQ(gpu.notices.size(), 1u);
}

TEST(CacheVolSettings, a_burst_buffer_is_a_directory_and_a_global_scope_is_told) {
    const auto result = translated(
        "HDF5_CACHE_STORAGE_TYPE BURST_BUFFER\nHDF5_CACHE_STORAGE_PATH /bb\nHDF5_CACHE_STORAGE_SCOPE GLOBAL");
    EXPECT_EQ(defaults_of(result), "nls=/bb");
    ASSERT_EQ(result.notices.size(), 1u);
    EXPECT_NE(result.notices.front().find("HDF5_CACHE_STORAGE_SCOPE=GLOBAL (SSD.cfg:3)"), std::string::npos);
}

TEST(CacheVolSettings, a_relative_path_begins_at_the_working_directory) {
    EXPECT_EQ(defaults_of(translated("HDF5_CACHE_STORAGE_PATH: local/x")), "nls=/here/local/x");
}

TEST(CacheVolSettings, every_replacement_policy_is_taken_in_either_case) {
    for (const char* const word : {"LRU", "LFU", "FIFO", "LIFO", "fifo"}) {
        std::string expected = word;
        for (char& c : expected) c = static_cast<char>(std::tolower(c));
        EXPECT_EQ(defaults_of(translated(std::string("HDF5_CACHE_REPLACEMENT_POLICY: ") + word)),
                  "read_cache_replacement=" + expected);
    }
}

TEST(CacheVolSettings, sizes_may_have_exponents_and_units_and_are_kept_within_bounds) {
    EXPECT_EQ(defaults_of(translated("HDF5_CACHE_WRITE_BUFFER_SIZE: 1.5e9")), "size=1500000000");
    EXPECT_EQ(defaults_of(translated("HDF5_CACHE_WRITE_BUFFER_SIZE: 2GiB")), "size=2147483648");
    const auto little = translated("HDF5_CACHE_WRITE_BUFFER_SIZE: 17");
    EXPECT_EQ(defaults_of(little), "size=1048576");
    EXPECT_EQ(little.notices.size(), 1u);
    EXPECT_EQ(defaults_of(translated("HDF5_CACHE_WRITE_BUFFER_SIZE: 1e300")), "size=1125899906842624");
    for (const char* const word : {"nan", "inf", "-5", "12x", "0x10", "lots"})
        EXPECT_EQ(translated(std::string("HDF5_CACHE_WRITE_BUFFER_SIZE: ") + word).problems.size(), 1u) << word;
}

TEST(CacheVolSettings, a_small_storage_bounds_the_log_too) {
    EXPECT_EQ(defaults_of(translated("HDF5_CACHE_STORAGE_SIZE: 1073741824")),
              "read_cache_size=1073741824 size=1073741824");
    const auto beyond = translated("HDF5_CACHE_STORAGE_SIZE: 1GiB\nHDF5_CACHE_WRITE_BUFFER_SIZE: 2GiB");
    EXPECT_EQ(beyond.problems.size(), 1u);
}

TEST(CacheVolSettings, what_nobody_knows_is_told_with_its_line) {
    const auto result = translated("FOO: 3\nHDF5_CACHE_STORAGE_TYPE: TAPE\nHDF5_CACHE_REPLACEMENT_POLICY: MRU\n"
                                   "HDF5_CACHE_STORAGE_SIZE\nHDF5_CACHE_FLUSH_MODE: x");
    EXPECT_EQ(result.notices.size(), 3u);
    EXPECT_EQ(result.notices.front(), "SSD.cfg:1: 'FOO' is no setting that does anything here");
    EXPECT_EQ(result.problems.size(), 2u);
}

TEST(CacheVolSettings, variables_of_the_first_generation_are_weaker_than_the_file) {
    const Environment environment{{"HDF5_LOCAL_STORAGE_PATH", "/ssd"},     {"HDF5_LOCAL_STORAGE_SIZE", "4294967296"},
                                  {"HDF5_WRITE_CACHE_SIZE", "1073741824"}, {"HDF5_CACHE_REPLACEMENT", "LFU"},
                                  {"HDF5_LOCAL_STORAGE_TYPE", "SSD"},      {"SSD_PATH", "/older"}};
    EXPECT_EQ(defaults_of(translated("", environment)),
              "nls=/ssd read_cache_replacement=lfu read_cache_size=4294967296 size=1073741824");
    EXPECT_EQ(defaults_of(translated("HDF5_CACHE_STORAGE_PATH: /local", environment)),
              "nls=/local read_cache_replacement=lfu read_cache_size=4294967296 size=1073741824");
    EXPECT_EQ(defaults_of(translated("", {{"SSD_PATH", "/older"}, {"SSD_SIZE", "16"}})),
              "nls=/older read_cache_size=17179869184");
}

TEST(CacheVolSettings, the_switches_mean_what_a_person_means) {
    std::vector<std::string> notices;
    const auto of = [&](const char* value) {
        return switch_of([&](const char*) { return value; }, "HDF5_CACHE_WR", &notices);
    };
    EXPECT_EQ(of(nullptr), Switch::kByList);
    for (const char* const value : {"yes", "YES", "Yes", "true", "TRUE", "1", "on", "On", " yes\n"})
        EXPECT_EQ(of(value), Switch::kOn) << value;
    for (const char* const value : {"", "no", "No", "false", "0", "off"}) EXPECT_EQ(of(value), Switch::kOff) << value;
    EXPECT_TRUE(notices.empty());
    EXPECT_EQ(of("maybe"), Switch::kOff);
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_EQ(notices.front(), "HDF5_CACHE_WR=maybe: expected yes or no; it counts as no");
}

TEST(CacheVolSettings, a_storage_of_nothing_is_said_in_one_way) {
    const auto alone = translated("HDF5_CACHE_STORAGE_SIZE: 0");
    EXPECT_EQ(alone.notices.size(), 1u);
    EXPECT_TRUE(alone.problems.empty());
    const auto with_buffer = translated("HDF5_CACHE_STORAGE_SIZE: 0\nHDF5_CACHE_WRITE_BUFFER_SIZE: 4096");
    EXPECT_TRUE(with_buffer.notices.empty());
    EXPECT_EQ(with_buffer.problems.size(), 1u);
    EXPECT_EQ(translated("HDF5_CACHE_FUSION_THRESHOLD: lots").notices.size(), 1u);
}

TEST(CacheVolSettings, options_take_them_as_defaults) {
    Settings settings;
    read_lines("HDF5_CACHE_STORAGE_PATH: /local\nHDF5_CACHE_WRITE_BUFFER_SIZE: 4MiB", "SSD.cfg", settings);
    const auto defaults = translate(settings, "/", "/").defaults;
    const auto none = [](const char*) -> const char* { return nullptr; };
    const auto loaded = load_options("", none, {}, defaults);
    EXPECT_TRUE(loaded.problems.empty());
    EXPECT_EQ(loaded.options.nls, "/local");
    EXPECT_EQ(loaded.origin_of("nls"), "default, by SSD.cfg:1");
    EXPECT_TRUE(loaded.is_default("nls"));
    EXPECT_EQ(loaded.options.size, 4u << 20);
    EXPECT_LE(loaded.options.reserve, loaded.options.size);
    const auto stronger = load_options("nls=/mine", none, {}, defaults);
    EXPECT_EQ(stronger.options.nls, "/mine");
    EXPECT_FALSE(stronger.is_default("nls"));
}

}   // namespace
}   // namespace forebay::cache_vol
