// `forebay options`: prints the option table, for people and as the page docs/options.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/launch.h"

namespace forebay::cli {

namespace {

constexpr std::size_t kMeaningMin = 34, kMeaningIndent = 4;   // columns

// The common options. The others are for special cases and for measurements.
constexpr std::array<std::string_view, 14> kCommon{
    "stage",    "nls",      "size", "full",       "flush",           "close",    "durability",
    "on_error", "patience", "mpi",  "read_cache", "read_cache_size", "prefetch", "server",
};

std::vector<OptionSpec> shown_options(bool all) {
    std::vector<OptionSpec> shown;
    for (const OptionSpec& spec : option_table())
        if (all || std::ranges::find(kCommon, spec.name) != kCommon.end()) shown.push_back(spec);
    return shown;
}

void print_table(bool all) {
    const std::vector<OptionSpec> shown = shown_options(all);
    std::size_t name_width = 0, default_width = 7;
    for (const OptionSpec& spec : shown) {
        name_width = std::max(name_width, spec.name.size());
        default_width = std::max(default_width, spec.default_text.size());
    }
    const bool narrow = help_columns() < name_width + default_width + kMeaningMin;
    const std::size_t column = narrow ? kMeaningIndent : name_width + default_width + 4;
    const std::string between = narrow ? "\n" + std::string(kMeaningIndent, ' ') : "  ";
    const std::size_t shown_width = narrow ? 0 : default_width;
    fmt::print("{:<{}}  {:<{}}{}{}\n", "option", name_width, "default", shown_width, between, "meaning");
    for (const OptionSpec& spec : shown) {
        const std::string range = option_range(spec);
        const bool listed = range.empty() || spec.doc.find('\n') != std::string_view::npos;
        fmt::print("{:<{}}  {:<{}}{}{}\n", spec.name, name_width, spec.default_text, shown_width, between,
                   wrapped(listed ? std::string(spec.doc) : fmt::format("{} [{}]", spec.doc, range), column, column));
    }
    if (!all)
        fmt::print("\n{}\n",
                   wrapped(fmt::format("These are the common options. There are {} more: forebay options --all",
                                       option_table().size() - shown.size()),
                           0, 0));
    fmt::print("\n{}\n", wrapped("To set one: forebay run -o size=16GiB -- program\n"
                                 "        or: export FOREBAY_SIZE=16GiB\n"
                                 "        or: a line size = \"16GiB\" in the TOML file that FOREBAY_CONFIG names\n"
                                 "`forebay doctor` shows the options that are set.",
                                 0, 0));
}

}   // namespace

void add_options(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("options", "List options with their defaults, ranges and meanings");
    auto markdown = std::make_shared<bool>(false), all = std::make_shared<bool>(false);
    command->add_flag("--all", *all, "List every option, including those for special cases and measurements");
    command->add_flag("--markdown", *markdown, "Print the page docs/options.md");
    command->callback([markdown, all, &exit_status] {
        if (*markdown) fmt::print("{}", options_as_markdown());
        else print_table(*all);
        // Like every command, this one reports invalid settings of the environment.
        const LoadedOptions loaded = options_with({});
        for (const Status& problem : loaded.problems) fmt::print(stderr, "forebay options: {}\n", problem.message());
        exit_status = loaded.problems.empty() ? kExitFine : kExitUsage;
    });
}

}   // namespace forebay::cli
