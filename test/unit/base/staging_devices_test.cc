#include "base/staging_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/options.h"

namespace forebay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

std::vector<StagingDevice> devices(std::string_view text) { return parse_staging_devices(text).value(); }
std::string fault(std::string_view text) { return parse_staging_devices(text).status().message(); }

TEST(StagingDevices, are_paths_with_a_size_each_if_one_is_given) {
    EXPECT_THAT(devices(""), ElementsAre());
    EXPECT_THAT(devices("/local"), ElementsAre(StagingDevice{"/local", 0}));
    EXPECT_THAT(devices("/nvme0:/nvme1=200G:/dev/shm=16GiB"),
                ElementsAre(StagingDevice{"/nvme0", 0}, StagingDevice{"/nvme1", 200 * kGiB},
                            StagingDevice{"/dev/shm", 16 * kGiB}));
}

TEST(StagingDevices, have_colons_and_signs_in_their_paths_where_they_mean_nothing_else) {
    EXPECT_THAT(devices("/a:b/c=d/e"), ElementsAre(StagingDevice{"/a:b/c=d/e", 0}));
    EXPECT_THAT(devices(R"(/a\:/b:/c\=1G=2G:/d\\)"),
                ElementsAre(StagingDevice{"/a:/b", 0}, StagingDevice{"/c=1G", 2 * kGiB}, StagingDevice{"/d\\", 0}));
    EXPECT_THAT(devices(R"(/a\b)"), ElementsAre(StagingDevice{"/a\\b", 0}));
}

TEST(StagingDevices, that_cannot_be_used_are_refused_with_a_reason) {
    EXPECT_THAT(fault("local"), HasSubstr("not an absolute path"));
    EXPECT_THAT(fault("/a=much"), HasSubstr("'much' after /a is not a size"));
    EXPECT_THAT(fault("/a=1k"), HasSubstr("not a size"));
    EXPECT_THAT(fault("/a=:/b"), HasSubstr("not a size"));
    EXPECT_THAT(fault("/a:/b:/a=1G"), HasSubstr("/a is named twice"));
    EXPECT_THAT(fault("/a\nb"), HasSubstr("line break"));
    EXPECT_THAT(fault("/1:/2:/3:/4:/5:/6:/7:/8:/9"), HasSubstr("at most 8"));
}

RC_GTEST_PROP(StagingDevices, are_read_back_as_they_were_written, ()) {
    std::vector<StagingDevice> written;
    const auto count = *rc::gen::inRange<std::size_t>(1, 5);
    for (std::size_t i = 0; i < count; ++i)
        written.push_back({"/" + std::to_string(i) +
                               *rc::gen::container<std::string>(rc::gen::elementOf(std::string("a:=\\/ ;{1G"))),
                           *rc::gen::element<std::uint64_t>(0, kGiB, 3 * kGiB / 2 + 1)});
    RC_ASSERT(parse_staging_devices(staging_devices_text(written)).value() == written);
}

TEST(StagingDevices, the_option_has_the_logs_in_the_first_one) {
    const auto loaded = load_options("nls=/a=1G:/b;size=2GiB", [](const char*) -> const char* { return nullptr; });
    ASSERT_TRUE(loaded.problems.empty());
    EXPECT_EQ(loaded.options.nls, "/a");
    EXPECT_THAT(loaded.options.devices(), ElementsAre(StagingDevice{"/a", kGiB}, StagingDevice{"/b", 0}));
    EXPECT_EQ(option_text(loaded.options, "nls"), "/a=1GiB:/b");
    const auto bad = load_options("nls=/a=x", [](const char*) -> const char* { return nullptr; });
    ASSERT_EQ(bad.problems.size(), 1u);
    EXPECT_THAT(bad.problems[0].message(), HasSubstr("option nls=/a=x (connector string): 'x' after /a"));
}

}   // namespace
}   // namespace forebay
