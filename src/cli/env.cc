// `forebay env`: lines for a shell to evaluate.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/launch.h"

namespace forebay::cli {

namespace {

// In single quotes nothing is special but the quote itself.
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

// Connector and plugin folder as they were before; options, which do nothing without them, stay.
int print_off(bool csh) {
    const Result<std::string> folder = plugin_folder();
    const auto set = [](const char* name) {
        const char* const value = std::getenv(name);
        return std::string(value != nullptr ? value : "");
    };
    const auto unset = [csh](const char* name) { fmt::print("{} {};\n", csh ? "unsetenv" : "unset", name); };
    const std::string connector = set(kConnectorVariable);
    if (connector.substr(0, connector.find_first_of(" \t")) == "forebay") unset(kConnectorVariable);
    if (!folder || !names_folder(set(kPluginVariable), folder.value())) return kExitFine;
    const std::string rest = plugin_path_without(folder.value());
    if (rest.empty()) unset(kPluginVariable);
    else if (csh) fmt::print("setenv {} {};\n", kPluginVariable, quoted_for_csh(rest));
    else fmt::print("export {}={};\n", kPluginVariable, quoted_for_sh(rest));
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
    variables.value().erase(kGivenVariable);   // whoever evaluates this sets variables
    if (const LoadedOptions loaded = options_with(variables.value()); !loaded.problems.empty()) {
        for (const Status& problem : loaded.problems) fmt::print(stderr, "forebay env: {}\n", problem.message());
        return kExitUsage;
    }
    // The semicolons keep the lines apart where a shell joins them, as eval `forebay env` does.
    for (const auto& [name, value] : variables.value())
        if (csh) fmt::print("setenv {} {};\n", name, quoted_for_csh(value));
        else fmt::print("export {}={};\n", name, quoted_for_sh(value));
    return kExitFine;
}

}   // namespace

void add_env(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("env",
                                           "Lines that switch forebay on in this shell: eval \"$(forebay env)\"");
    auto settings = std::make_shared<std::vector<std::string>>();
    command->add_option("-o,--option", *settings, "Set an option; may be repeated (forebay options lists them)")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    add_nls_option(*command, settings);
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
