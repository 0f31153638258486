#include "cache_vol/connector_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace forebay::cache_vol {
namespace {

TEST(ConnectorText, that_of_the_paper_with_a_line_break_names_a_file_and_wants_the_native_connector) {
    const auto text = parse_connector_text("config=SSD.cfg;\nunder_vol=512;under_info={under_vol=0;under_info={}}");
    EXPECT_EQ(text.config, "SSD.cfg");
    EXPECT_EQ(text.under_vol, "0");
    EXPECT_EQ(text.under_info, "");
    EXPECT_EQ(text.options, "");
    ASSERT_EQ(text.notices.size(), 1u);
    EXPECT_NE(text.notices.front().find("asynchrony"), std::string::npos);
}

TEST(ConnectorText, pairs_come_in_any_order) {
    std::array<std::string, 3> pairs{"config=a/b.cfg", "under_vol=517", "under_info={under_vol=0;under_info={}}"};
    std::ranges::sort(pairs);
    do {
        const auto text = parse_connector_text(" " + pairs[0] + " ; " + pairs[1] + ";\t" + pairs[2] + ";");
        EXPECT_EQ(text.config, "a/b.cfg");
        EXPECT_EQ(text.under_vol, "517");
        EXPECT_EQ(text.under_info, "under_vol=0;under_info={}");
        EXPECT_TRUE(text.notices.empty());
    } while (std::ranges::next_permutation(pairs).found);
}

TEST(ConnectorText, a_path_may_be_longer_than_any_buffer_and_have_blanks) {
    const std::string path = "/scratch/" + std::string(10000, 'x') + "/with blanks/SSD.cfg";
    EXPECT_EQ(parse_connector_text("under_vol=0;under_info={};config=" + path).config, path);
}

TEST(ConnectorText, layers_that_make_a_stack_asynchronous_are_taken_out) {
    for (const char* const number : {"512", "518", "707"})
        for (const char* const beneath : {"0", "517"}) {
            const auto text = parse_connector_text(std::string("config=x;under_vol=") + number +
                                                   ";under_info={under_vol=" + beneath + ";under_info={a={b};c=1}}");
            EXPECT_EQ(text.under_vol, beneath);
            EXPECT_EQ(text.under_info, beneath == std::string("0") ? "" : "a={b};c=1");
            EXPECT_EQ(text.notices.size(), 1u);
        }
}

TEST(ConnectorText, lines_of_a_storage_come_back_whatever_they_hold) {
    for (const std::string lines : {"HDF5_CACHE_STORAGE_PATH:/a {b;c}=d\nx:y\n", "}{%7D%%4%", "", "{", "}}}"}) {
        const auto text = parse_connector_text("config=SSD.cfg;under_vol=0" + text_of_storage(lines));
        EXPECT_EQ(text.local_storage, lines.substr(0, lines.find_last_not_of('\n') + 1));
        EXPECT_EQ(text.config, "SSD.cfg");
        EXPECT_TRUE(text.options.empty() && text.notices.empty());
    }
}

TEST(ConnectorText, a_stack_of_caches_is_one_cache) {
    const auto text = parse_connector_text(
        "config=cache_1.cfg;under_vol=512;under_info={under_vol=513;under_info={config=cache_2.cfg;under_vol=512;"
        "under_info={under_vol=0;under_info={}}}}");
    EXPECT_EQ(text.config, "cache_1.cfg");
    EXPECT_EQ(text.under_vol, "0");
    EXPECT_EQ(text.notices.size(), 2u);
}

TEST(ConnectorText, a_brace_that_is_never_closed_ends_with_the_text) {
    const auto text = parse_connector_text("config=x;under_vol=517;under_info={under_vol=0;under_info={}");
    EXPECT_EQ(text.under_vol, "517");
    EXPECT_EQ(text.under_info, "under_vol=0;under_info={");
}

TEST(ConnectorText, other_names_are_options) {
    const auto text = parse_connector_text("config=x;size=4GiB;nls={/a;b};under_vol=0");
    EXPECT_EQ(text.options, "size=4GiB;nls={/a;b}");
}

TEST(ConnectorText, a_word_alone_is_passed_over_and_told) {
    const auto text = parse_connector_text("SSD.cfg;under_vol=0");
    EXPECT_EQ(text.config, "");
    ASSERT_EQ(text.notices.size(), 1u);
    EXPECT_NE(text.notices.front().find("'SSD.cfg'"), std::string::npos);
}

TEST(ConnectorText, nothing_is_nothing) {
    const auto text = parse_connector_text("");
    EXPECT_EQ(text.config, "");
    EXPECT_EQ(text.under_vol, "0");
    EXPECT_TRUE(text.notices.empty());
}

}   // namespace
}   // namespace forebay::cache_vol
