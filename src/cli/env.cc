// `forebay env`: prints lines for a shell to evaluate.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/launch.h"

namespace forebay::cli {

namespace {

// Single quotes protect every character but the quote itself.
std::string quoted_for_sh(std::string_view text) {
    std::string result = "'";
    for (const char c : text)
        if (c == '\'') result += "'\\''";
        else result += c;
    return result + "'";
}

// In csh, an exclamation mark and a newline keep their meaning even between single quotes.
std::string quoted_for_csh(std::string_view text) {
    std::string result = "'";
    for (const char c : text) {
        if (c == '\'') {
            result += "'\\''";
            continue;
        }
        if (c == '!' || c == '\n') result += '\\';
        result += c;
    }
    return result + "'";
}

// The changes of `forebay env`, for `forebay env --off`. Each variable has a word: "NAME=set" if it had no value
// before, else "NAME=set=before". The values are escaped, so that no separator is in them.
constexpr const char* kEnvVariable = "FOREBAY_ENV";

struct Change {
    std::string set;
    std::optional<std::string> before;
};
using Changes = std::map<std::string, Change>;

std::string shell_escaped(std::string_view text) {
    constexpr std::string_view kPlain = "/_.,:;+-";
    std::string result;
    for (const char c : text)
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos) result += c;
        else result += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    return result;
}

std::string unescaped(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        unsigned value = 0;
        const bool is_code = text[i] == '%' && i + 2 < text.size() &&
                             std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ec == std::errc{};
        result += is_code ? static_cast<char>(value) : text[i];
        if (is_code) i += 2;
    }
    return result;
}

std::optional<std::string> present(const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

Changes changes_of_shell() {
    Changes changes;
    std::istringstream words(present(kEnvVariable).value_or(""));
    for (std::string word; words >> word;) {
        const std::size_t first = word.find('='), second = word.find('=', std::min(first, word.size() - 1) + 1);
        if (first == std::string::npos) continue;
        Change& change = changes[word.substr(0, first)];
        change.set = unescaped(std::string_view(word).substr(first + 1, second - std::min(second, first + 1)));
        if (second != std::string::npos) change.before = unescaped(std::string_view(word).substr(second + 1));
    }
    return changes;
}

std::string as_words(const Changes& changes) {
    std::string words;
    for (const auto& [name, change] : changes)
        words += fmt::format("{}{}={}{}", words.empty() ? "" : " ", name, shell_escaped(change.set),
                             change.before ? "=" + shell_escaped(*change.before) : "");
    return words;
}

void print_set(bool csh, const std::string& name, const std::optional<std::string>& value) {
    if (!value) fmt::print("{} {};\n", csh ? "unsetenv" : "unset", name);
    else if (csh) fmt::print("setenv {} {};\n", name, quoted_for_csh(*value));
    else fmt::print("export {}={};\n", name, quoted_for_sh(*value));
}

// Restores each variable, unless it was changed since. Then only forebay's part of the value is removed.
int print_off(bool csh) {
    Changes changes = changes_of_shell();
    for (const auto& [name, change] : changes)
        if (present(name) == change.set) print_set(csh, name, change.before);
    const auto is_undone = [&changes](const char* name) {
        const auto found = changes.find(name);
        return found != changes.end() && present(name) == found->second.set;
    };
    const std::string connector = present(kConnectorVariable).value_or("");
    if (!is_undone(kConnectorVariable) && connector.substr(0, connector.find_first_of(" \t")) == "forebay")
        print_set(csh, kConnectorVariable, std::nullopt);
    const Result<std::string> folder = plugin_folder();
    const std::string path = present(kPluginVariable).value_or("");
    if (!is_undone(kPluginVariable) && folder &&
        (names_folder(path, folder.value()) || names_folder(path, cache_vol_folder(folder.value())))) {
        const std::string rest = plugin_path_without(folder.value());
        print_set(csh, kPluginVariable, rest.empty() ? std::nullopt : std::optional(rest));
    }
    if (present(kEnvVariable)) print_set(csh, kEnvVariable, std::nullopt);
    return kExitFine;
}

int print_variables(const std::vector<std::string>& settings, bool csh) {
    const Result<std::string> folder = plugin_folder();
    if (!folder) {
        fmt::print(stderr, "forebay env: {}\n", folder.status().message());
        return kExitProblem;
    }
    Result<Variables> variables = launch_variables(settings, folder.value());
    if (!variables) {
        fmt::print(stderr, "forebay env: {}\n", variables.status().message());
        return kExitUsage;
    }
    variables.value().erase(kGivenVariable);   // the user of `forebay env` sets variables
    if (const LoadedOptions loaded = options_with(variables.value()); !loaded.problems.empty()) {
        for (const Status& problem : loaded.problems) fmt::print(stderr, "forebay env: {}\n", problem.message());
        return kExitUsage;
    }
    // The semicolons separate the lines in a shell that joins them, as eval `forebay env` does.
    Changes changes = changes_of_shell();
    for (const auto& [name, value] : variables.value()) {
        const auto known = changes.find(name);
        // A second `env` in a shell continues from the first, unless the variable was changed in between.
        if (known != changes.end() && present(name) == known->second.set) known->second.set = value;
        else changes.insert_or_assign(name, Change{value, present(name)});
        print_set(csh, name, value);
    }
    print_set(csh, kEnvVariable, as_words(changes));
    return kExitFine;
}

}   // namespace

void add_env(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("env",
                                           "Print lines that switch forebay on in this shell: eval \"$(forebay env)\"");
    auto settings = std::make_shared<std::vector<std::string>>();
    command->add_option("-o,--option", *settings, "Set an option; may be repeated (forebay options lists them)")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    add_nls_option(*command, settings);
    command->get_option("--nls")->check(
        [](const std::string& folder) { return check_named_area({"nls=" + folder}).message(); }, "");
    auto csh = std::make_shared<bool>(false);
    auto sh = std::make_shared<bool>(false);
    CLI::Option* csh_flag = command->add_flag("--csh", *csh, "For csh and tcsh: eval `forebay env --csh`");
    command->add_flag("--sh", *sh, "For sh, bash, zsh and the like (default)")->excludes(csh_flag);
    auto off = std::make_shared<bool>(false);
    command->add_flag("--off", *off, "Switch forebay off again: eval \"$(forebay env --off)\"");
    command->callback([settings, csh, sh, off, &exit_status] {
        exit_status = *off ? print_off(*csh) : print_variables(*settings, *csh);
    });
}

}   // namespace forebay::cli
