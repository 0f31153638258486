#include "base/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>
#include <array>

#include <cstdlib>
#include <map>

namespace forebay {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Environment = std::map<std::string, std::string>;

LoadedOptions load(std::string_view connector_string, const Environment& environment = {}) {
    std::vector<std::string> names;
    for (const auto& [name, value] : environment) names.push_back(name);
    return load_options(
        connector_string,
        [&](const char* name) -> const char* {
            const auto found = environment.find(name);
            return found == environment.end() ? nullptr : found->second.c_str();
        },
        names);
}

std::vector<std::string> messages(const LoadedOptions& loaded) {
    std::vector<std::string> result;
    for (const Status& problem : loaded.problems) result.push_back(problem.message());
    return result;
}

// The only problem there is; anything else fails the test that asks.
std::string the_problem(const LoadedOptions& loaded) {
    EXPECT_EQ(loaded.problems.size(), 1u) << ::testing::PrintToString(messages(loaded));
    return loaded.problems.empty() ? "" : loaded.problems.front().message();
}

// A configuration file that lives as long as this object.
class Config {
  public:
    explicit Config(std::string_view text) {
        const int descriptor = ::mkstemp(path_);
        EXPECT_GE(descriptor, 0);
        EXPECT_EQ(::write(descriptor, text.data(), text.size()), static_cast<ssize_t>(text.size()));
        ::close(descriptor);
    }
    ~Config() { ::unlink(path_); }
    Config(const Config&) = delete;
    Config& operator=(const Config&) = delete;
    [[nodiscard]] std::string path() const { return path_; }
    [[nodiscard]] LoadedOptions load(std::string_view connector_string = "") const {
        return forebay::load(connector_string, {{"FOREBAY_CONFIG", path_}});
    }

  private:
    char path_[64] = "/tmp/forebay_options_test_XXXXXX";
};

// ---- Defaults ----

TEST(Options, without_any_level_the_defaults_hold) {
    const LoadedOptions loaded = load("");
    EXPECT_THAT(messages(loaded), ::testing::IsEmpty());
    EXPECT_EQ(loaded.options.size, std::uint64_t{8} << 30);
    EXPECT_EQ(loaded.origin_of("size"), "default");
    EXPECT_EQ(loaded.options.nls, "/tmp");
    EXPECT_EQ(loaded.origins.size(), option_table().size());
}

TEST(Options, the_tables_defaults_are_those_of_the_structure) {
    const Options defaults;
    for (const OptionSpec& spec : option_table()) {
        EXPECT_EQ(option_text(defaults, spec.name), spec.default_text) << spec.name;
    }
}

TEST(Options, every_option_accepts_its_default_and_says_what_it_accepts) {
    for (const OptionSpec& spec : option_table()) {
        EXPECT_TRUE(check_option(spec.name, spec.default_text, "test")) << spec.name;
        EXPECT_FALSE(spec.doc.empty()) << spec.name;
        const bool free_text = spec.type == OptionType::kPath || spec.type == OptionType::kString;
        EXPECT_EQ(option_range(spec).empty(), free_text) << spec.name;
        EXPECT_EQ(find_option(spec.name), &spec);
    }
}

TEST(Options, the_staging_area_falls_back_to_TMPDIR) {
    const LoadedOptions loaded = load("", {{"TMPDIR", "/local/job.7"}});
    EXPECT_EQ(loaded.options.nls, "/local/job.7");
    EXPECT_EQ(loaded.origin_of("nls"), "TMPDIR");
}

TEST(Options, a_relative_TMPDIR_is_not_used) { EXPECT_EQ(load("", {{"TMPDIR", "scratch"}}).options.nls, "/tmp"); }

TEST(Options, the_end_of_the_job_is_what_Slurm_says_unless_an_option_does) {
    const Environment slurm{{"SLURM_JOB_END_TIME", "1751302800"}};
    EXPECT_EQ(load("", slurm).options.deadline, "1751302800");
    EXPECT_EQ(load("", slurm).origin_of("deadline"), "SLURM_JOB_END_TIME");
    EXPECT_EQ(load("deadline=110m", slurm).options.deadline, "110m");
    EXPECT_EQ(load("deadline=off", slurm).options.deadline, "off");
    const LoadedOptions odd = load("", {{"SLURM_JOB_END_TIME", "Unknown"}});
    EXPECT_EQ(odd.options.deadline, "");
    EXPECT_THAT(messages(odd), ::testing::IsEmpty());
    EXPECT_THAT(the_problem(load("deadline=soon")), AllOf(HasSubstr("deadline=soon"), HasSubstr("110m")));
}

// ---- Levels ----

TEST(Options, who_reads_from_a_job_has_the_read_cache_unless_an_option_says_otherwise) {
    for (const char* const value : {"job", "job:/shared", "job:not-absolute"}) {
        const auto loaded = load(std::string("read_cache_servers=") + value);
        EXPECT_TRUE(loaded.options.reads_from_job()) << value;
        EXPECT_EQ(loaded.options.read_cache, ReadCacheMode::kOn) << value;
        EXPECT_EQ(loaded.origin_of("read_cache"), "read_cache_servers=job");
    }
    EXPECT_EQ(load("read_cache_servers=job;read_cache=auto").options.read_cache, ReadCacheMode::kAuto);
    for (const char* const servers : {"", "job:5000", "job1:5000,job2:5000", "jobs", "unix:/job"}) {
        const auto loaded = load(std::string("read_cache_servers=") + servers);
        EXPECT_FALSE(loaded.options.reads_from_job()) << servers;
        EXPECT_EQ(loaded.options.read_cache, ReadCacheMode::kAuto) << servers;
    }
}

TEST(Options, the_connector_string_beats_the_environment_which_beats_the_file) {
    const Config config("size = \"1GiB\"\nstripe = \"2MiB\"\nflush = \"drain\"\n");
    const LoadedOptions loaded = load(
        "size=3GiB", {{"FOREBAY_CONFIG", config.path()}, {"FOREBAY_SIZE", "2GiB"}, {"FOREBAY_STRIPE", "4MiB"}});
    EXPECT_THAT(messages(loaded), ::testing::IsEmpty());
    EXPECT_EQ(loaded.options.size, std::uint64_t{3} << 30);
    EXPECT_EQ(loaded.origin_of("size"), "connector string");
    EXPECT_EQ(loaded.options.stripe, std::uint64_t{4} << 20);
    EXPECT_EQ(loaded.origin_of("stripe"), "FOREBAY_STRIPE");
    EXPECT_EQ(loaded.options.flush, OnFlush::kDrain);
    EXPECT_EQ(loaded.origin_of("flush"), config.path() + ":3");
}

TEST(Options, an_unusable_value_leaves_that_of_the_weaker_level) {
    const LoadedOptions loaded = load("size=lots", {{"FOREBAY_SIZE", "2GiB"}});
    EXPECT_EQ(loaded.options.size, std::uint64_t{2} << 30);
    EXPECT_EQ(loaded.origin_of("size"), "FOREBAY_SIZE");
    EXPECT_EQ(loaded.problems.size(), 1u);
}

TEST(Options, given_twice_in_one_string_the_later_value_counts) {
    EXPECT_EQ(load("drain_threads=2;drain_threads=7").options.drain_threads, 7u);
}

TEST(Options, an_empty_variable_counts_as_unset) {
    const LoadedOptions loaded = load("", {{"FOREBAY_SIZE", ""}, {"FOREBAY_CONFIG", ""}});
    EXPECT_THAT(messages(loaded), ::testing::IsEmpty());
    EXPECT_EQ(loaded.origin_of("size"), "default");
}

// ---- Messages ----

TEST(Options, a_size_without_a_number_names_the_option_and_its_source) {
    EXPECT_THAT(the_problem(load("", {{"FOREBAY_SIZE", "12x"}})),
                AllOf(HasSubstr("option size=12x (FOREBAY_SIZE): not a size"), HasSubstr("1 MiB to 1 PiB")));
}

TEST(Options, a_size_that_is_too_small_says_what_is_allowed) {
    EXPECT_EQ(the_problem(load("size=4k")), "option size=4k (connector string): too small; allowed: 1 MiB to 1 PiB");
}

TEST(Options, a_size_that_is_too_large_says_what_is_allowed) {
    const Config config("\n\nsize = \"2000T\"");
    EXPECT_EQ(the_problem(config.load()),
              "option size=2000T (" + config.path() + ":3): too large; allowed: 1 MiB to 1 PiB");
    EXPECT_THAT(the_problem(load("size=99999999999999999999999")), HasSubstr("too large; allowed"));
    EXPECT_THAT(the_problem(load("size=18446744073709551615T")), HasSubstr("too large; allowed"));
}

TEST(Options, a_count_that_is_none_says_what_is_allowed) {
    for (const char* bad : {"", "-1", "4k", "1.5", "0", "257", "four"})
        EXPECT_THAT(the_problem(load(std::string("drain_threads=") + bad)),
                    AllOf(HasSubstr("option drain_threads="), HasSubstr("allowed: 1 to 256")));
}

TEST(Options, an_unknown_choice_lists_the_choices) {
    EXPECT_THAT(the_problem(load("full=never")),
                HasSubstr("option full=never (connector string): unknown choice; allowed: wait or through"));
}

TEST(Options, a_misspelt_option_is_answered_with_the_nearest_name) {
    EXPECT_EQ(the_problem(load("drain_thread=3")),
              "option drain_thread=3 (connector string): no such option; did you mean drain_threads?");
    EXPECT_THAT(the_problem(load("SIZE=3")), HasSubstr("did you mean size?"));
    EXPECT_THAT(the_problem(load("colour=blue")),
                AllOf(HasSubstr("no such option"), ::testing::Not(HasSubstr("did you mean"))));
}

TEST(Options, a_misspelt_variable_is_answered_with_the_nearest_one) {
    EXPECT_EQ(the_problem(load("", {{"FOREBAY_SISE", "8GiB"}})),
              "FOREBAY_SISE is not an option of forebay: did you mean FOREBAY_SIZE?");
}

TEST(Options, variables_of_the_tools_are_not_taken_for_options) {
    const LoadedOptions loaded = load(
        "", {{"FOREBAY_BUILD_DIR", "/b"}, {"FOREBAY_CACHE", "/c"}, {"FOREBAY_HDF5_PREFIX", "/h"}, {"SIZE", "1"}});
    EXPECT_THAT(messages(loaded), ::testing::IsEmpty());
}

TEST(Options, a_very_long_value_is_cut_in_the_message) {
    EXPECT_LT(the_problem(load("size=" + std::string(100000, 'x'))).size(), 1000u);
}

TEST(Options, a_relative_staging_area_is_refused) {
    EXPECT_THAT(the_problem(load("nls=scratch")), HasSubstr("not an absolute path"));
}

// ---- The TOML file ----

TEST(OptionsFile, numbers_and_flags_need_no_quotes) {
    const LoadedOptions loaded =
        Config("size = 1073741824\nstrict = true\ndrain_threads = 2\nnls = \"/local\"\n").load();
    EXPECT_THAT(messages(loaded), ::testing::IsEmpty());
    EXPECT_EQ(loaded.options.size, std::uint64_t{1} << 30);
    EXPECT_TRUE(loaded.options.strict);
    EXPECT_EQ(loaded.options.drain_threads, 2u);
    EXPECT_EQ(loaded.options.nls, "/local");
}

TEST(OptionsFile, a_syntax_error_names_file_line_and_column) {
    const Config config("size = \"1GiB\"\nstripe = = 3\n");
    const std::string problem = the_problem(config.load());
    EXPECT_THAT(problem, ::testing::StartsWith(config.path() + ":2:10: "));
}

TEST(OptionsFile, bytes_that_are_no_text_are_a_problem_and_no_crash) {
    const LoadedOptions loaded = Config(std::string_view("\x89HDF\r\n\x1a\n\0\0\0", 11)).load();
    EXPECT_EQ(loaded.problems.size(), 1u);
}

TEST(OptionsFile, a_missing_file_is_named_with_the_variable) {
    EXPECT_THAT(the_problem(load("", {{"FOREBAY_CONFIG", "/nonexistent/forebay.toml"}})),
                AllOf(HasSubstr("/nonexistent/forebay.toml"), HasSubstr("FOREBAY_CONFIG"), HasSubstr("No such file")));
}

TEST(OptionsFile, a_directory_is_not_read) {
    EXPECT_THAT(the_problem(load("", {{"FOREBAY_CONFIG", "/"}})), HasSubstr("Is a directory"));
}

TEST(OptionsFile, problems_come_in_the_order_of_the_lines) {
    const LoadedOptions loaded = Config("zise = 1\nsize = [1]\nfoo.bar = 2\nflush = 2021-01-01\n").load();
    EXPECT_THAT(messages(loaded),
                ::testing::ElementsAre(HasSubstr(":1): no such option; did you mean size?"), HasSubstr(":2): neither"),
                                       HasSubstr(":3): no such option"), HasSubstr(":4): neither")));
}

// ---- The connector string ----

TEST(ConnectorString, what_other_connectors_are_given_is_understood) {
    const LoadedOptions loaded = load("under_vol=0;under_info={}");
    EXPECT_THAT(messages(loaded), ::testing::IsEmpty());
    EXPECT_EQ(loaded.options.under_vol, "0");
    EXPECT_EQ(loaded.options.under_info, "");
}

TEST(ConnectorString, nested_braces_are_handed_on_as_they_are) {
    const LoadedOptions loaded = load(
        " nls = /local ; under_vol=512;under_info={under_vol=0;under_info={a;{b}}};size=1GiB;;");
    EXPECT_THAT(messages(loaded), ::testing::IsEmpty());
    EXPECT_EQ(loaded.options.nls, "/local");
    EXPECT_EQ(loaded.options.under_info, "under_vol=0;under_info={a;{b}}");
    EXPECT_EQ(loaded.options.size, std::uint64_t{1} << 30);
}

TEST(ConnectorString, what_is_no_pair_is_named) {
    EXPECT_THAT(the_problem(load("size=1GiB;fast;stripe=2MiB")), HasSubstr("expected name=value at 'fast'"));
    EXPECT_THAT(the_problem(load("under_info={a{b}")), HasSubstr("the brace after under_info= is never closed"));
    EXPECT_THAT(the_problem(load("under_info={a}b;size=1GiB")),
                HasSubstr("text after the closing brace of under_info at 'b'"));
    EXPECT_THAT(the_problem(load("under_info=a}")), HasSubstr("not paired"));
    EXPECT_THAT(the_problem(load("=3")), HasSubstr("no such option"));
}

TEST(ConnectorString, pairs_behind_a_bad_one_still_count) {
    EXPECT_EQ(load("fast;stripe=2MiB").options.stripe, std::uint64_t{2} << 20);
}

RC_GTEST_PROP(ConnectorString, any_bytes_are_survived, (const std::string& text)) { (void)load(text); }

rc::Gen<std::string> any_text(const char* letters) {
    return rc::gen::container<std::string>(rc::gen::elementOf(std::string(letters)));
}

RC_GTEST_PROP(ConnectorString, what_is_written_is_read_back, ()) {
    Options written;
    const auto size_of = [](std::uint64_t minimum, std::uint64_t maximum) {
        return *rc::gen::inRange(minimum, maximum);
    };
    written.stage = *rc::gen::arbitrary<bool>();
    written.strict = *rc::gen::arbitrary<bool>();
    written.nls = "/" + *any_text("ab ;{=/,\t");
    written.stats = *any_text("ab ;=/\n");
    written.size = size_of(1 << 20, std::uint64_t{1} << 50);
    written.drain_threads = size_of(1, 257);
    written.full = *rc::gen::element(WhenFull::kWait, WhenFull::kThrough);
    written.flush = *rc::gen::element(OnFlush::kCommit, OnFlush::kDrain);
    written.under_info = *rc::gen::element<std::string>("", "{}", "a;b", "x={y;{z}};", " {a} ");
    // The one thing the grammar cannot say.
    RC_PRE(written.nls.find('{') == std::string::npos || written.nls.find(';') == std::string::npos);
    RC_PRE(!written.nls.ends_with(' ') || written.nls.find('{') == std::string::npos);
    RC_PRE(!written.nls.ends_with('\t') || written.nls.find('{') == std::string::npos);
    const LoadedOptions read = load(to_connector_string(written));
    RC_ASSERT(messages(read).empty());
    for (const OptionSpec& spec : option_table())
        RC_ASSERT(option_text(read.options, spec.name) == option_text(written, spec.name));
}

// ---- What follows from the size ----

TEST(Options, the_parts_of_a_log_follow_its_size) {
    const auto parts = [](const char* text) {
        const LoadedOptions loaded = load(text);
        EXPECT_THAT(messages(loaded), ::testing::IsEmpty());
        return std::array{loaded.options.segment >> 10, loaded.options.write_max >> 10, loaded.options.reserve >> 20};
    };
    EXPECT_THAT(parts("size=1MiB"), ::testing::ElementsAre(64, 64, 1));
    EXPECT_THAT(parts("size=16MiB"), ::testing::ElementsAre(256, 256, 16));
    EXPECT_THAT(parts("size=256MiB"), ::testing::ElementsAre(1024, 4096, 256));
    EXPECT_THAT(parts(""), ::testing::ElementsAre(1024, 8192, 512));
}

TEST(Options, what_lies_beneath_is_of_the_connector_string_alone) {
    EXPECT_THAT(the_problem(load("", {{"FOREBAY_UNDER_VOL", "512"}})), HasSubstr("FOREBAY_UNDER_VOL"));
    EXPECT_THAT(messages(Config("under_vol = 512\n").load()), ::testing::ElementsAre(HasSubstr("no such option")));
    EXPECT_EQ(load("under_vol=").options.under_vol, "0");
    EXPECT_THAT(the_problem(load("under_vol=")), HasSubstr("empty"));
}

// ---- Sizes ----

TEST(Sizes, units_are_powers_of_1024) {
    const std::map<std::string, std::uint64_t> cases{{"0", 0},
                                                     {"17", 17},
                                                     {"64k", 65536},
                                                     {"64K", 65536},
                                                     {"8MiB", 8u << 20},
                                                     {"8MB", 8u << 20},
                                                     {" 8 MiB ", 8u << 20},
                                                     {"512B", 512},
                                                     {"1g", 1u << 30},
                                                     {"2T", std::uint64_t{2} << 40}};
    for (const auto& [text, bytes] : cases) {
        const Result<std::uint64_t> parsed = parse_size(text);
        ASSERT_TRUE(parsed) << text;
        EXPECT_EQ(parsed.value(), bytes) << text;
    }
}

TEST(Sizes, anything_else_is_refused) {
    for (const char* text : {"", " ", "k", "-1", "+1", "1.5G", "1e9", "8 M iB", "8Mi", "8MiBs", "0x10", "1P",
                             "16777216T", "99999999999999999999"})
        EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Sizes, are_shown_with_at_most_one_decimal) {
    EXPECT_EQ(format_size(0), "0 B");
    EXPECT_EQ(format_size(1023), "1023 B");
    EXPECT_EQ(format_size(1536), "1.5 KiB");
    EXPECT_EQ(format_size((1u << 20) - 1), "1 MiB");
    EXPECT_EQ(format_size(std::uint64_t{8} << 30), "8 GiB");
    EXPECT_EQ(format_size(~std::uint64_t{0}), "16 EiB");
}

RC_GTEST_PROP(Sizes, a_whole_number_of_a_unit_is_read_back_as_it_is_shown, ()) {
    const std::uint64_t number = *rc::gen::inRange<std::uint64_t>(1, 1000);
    const std::uint64_t bytes = number << (10 * *rc::gen::inRange(0, 5));
    RC_ASSERT(parse_size(format_size(bytes)).value() == bytes);
}

// ---- The page ----

TEST(OptionsPage, names_every_option_with_its_variable) {
    const std::string page = options_as_markdown();
    for (const OptionSpec& spec : option_table())
        EXPECT_THAT(page, HasSubstr("| `" + std::string(spec.name) + "` | `" + option_variable(spec.name) + "` |"));
}

}   // namespace
}   // namespace forebay
