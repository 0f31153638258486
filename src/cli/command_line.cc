#include "cli/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/Formatter.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/display_width.h"
#include "base/spelling.h"
#include "base/status.h"
#include "cli/exit_status.h"

namespace forebay::cli {

namespace {

constexpr std::size_t kHelpColumns = 100, kHelpColumnsMin = 20;

std::size_t name_columns() { return help_columns() * 3 / 10; }

class HelpFormatter : public CLI::Formatter {
  public:
    std::string make_description(const CLI::App* app) const override {
        return app->get_description().empty() ? "" : wrapped(app->get_description(), 0, 0) + "\n\n";
    }
    std::string make_option(const CLI::Option* option, bool positional) const override {
        return entry(make_option_name(option, positional) + make_option_opts(option), make_option_desc(option));
    }
    std::string make_option_opts(const CLI::Option* option) const override {
        if (option->get_type_size() == 0) return {};
        std::string text = option->get_positional() || option->get_type_name().empty() ? ""
                                                                                       : " " + option->get_type_name();
        if (!option->get_default_str().empty()) text += "=" + option->get_default_str();
        if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
        return text;
    }
    std::string make_subcommand(const CLI::App* command) const override {
        return entry(command->get_name(), command->get_description());
    }
    std::string make_usage(const CLI::App* app, std::string name) const override {
        std::string text = fmt::format("Usage: {} [OPTIONS]", name);
        for (const CLI::Option* option : app->get_options([](const CLI::Option* one) { return one->get_positional(); }))
            text += " " + make_option_usage(option);
        const auto commands = app->get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
        return wrapped(text + (commands.empty() ? "" : " COMMAND"), 0, 0) + "\n";
    }
    std::string make_footer(const CLI::App* app) const override {
        return app->get_footer().empty() ? "" : wrapped(app->get_footer(), 0, 0) + "\n";
    }

  private:
    static std::string entry(const std::string& name, const std::string& what) {
        const std::size_t begin = name_columns();
        std::string text = "  " + name;
        if (text.size() + 2 > begin) text += "\n" + std::string(begin, ' ');
        else text.resize(begin, ' ');
        return text + wrapped(what, begin, begin) + "\n";
    }
};

bool is_hidden(const CLI::App& command) { return command.get_group().empty(); }

bool has_subcommands(const CLI::App& app) {
    return !app.get_subcommands([](const CLI::App*) { return true; }).empty();
}

std::pair<const CLI::App*, std::string> reached(const CLI::App& app) {
    const CLI::App* command = &app;
    std::string name = app.get_name();
    while (!command->get_subcommands().empty()) {
        command = command->get_subcommands().front();
        name += " " + command->get_name();
    }
    return {command, name};
}

int complain(std::string_view command, std::string_view what) {
    fmt::print(stderr, "{}: {}\n`{} --help` explains the command.\n", command, what, command);
    return kExitUsage;
}

// Rewrites "--nls: 1 required TEXT missing" and similar errors in plain words.
std::string in_plain_words(const CLI::ParseError& error) {
    const std::string text = error.what();
    const auto ends = [&](std::string_view end) { return text.size() > end.size() && text.ends_with(end); };
    if (error.get_name() == "RequiredError" && ends(" is required"))
        return text.substr(0, text.size() - std::string_view(" is required").size()) + " is missing";
    if (error.get_name() == "ArgumentMismatch" && ends(" missing"))
        return text.substr(0, text.find(':')) + " needs a value";
    if (error.get_name() == "ExcludesError")
        if (const std::size_t middle = text.find(" excludes "); middle != std::string::npos)
            return text.substr(0, middle) + " and " + text.substr(middle + std::string_view(" excludes ").size()) +
                   " do not go together";
    constexpr std::string_view kConvert = "Could not convert: ";
    if (error.get_name() == "ConversionError" && text.starts_with(kConvert))
        if (const std::size_t middle = text.find(" = "); middle != std::string::npos)
            return fmt::format("{}: {} is not a number", text.substr(kConvert.size(), middle - kConvert.size()),
                               text.substr(middle + 3));
    return text;
}

// Describes unexpected words. A word that looks like an option may be misspelt.
std::string unexpected(const CLI::App& command, std::vector<std::string> words) {
    std::erase(words, "--");   // separates the command's own words from the program's
    if (words.empty())
        for (const CLI::Option* option : command.get_options())
            if (option->get_positional() && option->get_required()) return option->get_name(true) + " is missing";
    std::string text = fmt::format("unexpected: {}", fmt::join(words, " "));
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options())
        if (!option->get_group().empty())
            for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const std::vector<std::string_view> views(names.begin(), names.end());
    for (const std::string& word : words) {
        if (!word.starts_with("--")) continue;
        if (const auto nearest = nearest_word(word.substr(0, word.find('=')), views))
            return text + fmt::format("; did you mean {}?", *nearest);
    }
    return text;
}

bool names_command(const CLI::App& app, const std::vector<std::string>& words) {
    const CLI::App* at = &app;
    std::string name = app.get_name();
    for (const std::string& word : words) {
        if (word.starts_with("-") || !has_subcommands(*at)) return true;
        const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
        const auto found = std::find_if(commands.begin(), commands.end(),
                                        [&](const CLI::App* command) { return command->get_name() == word; });
        if (found == commands.end()) {
            std::vector<std::string_view> known;
            for (const CLI::App* command : commands)
                if (!is_hidden(*command)) known.push_back(command->get_name());
            const std::string option = "--" + word;
            const auto nearest = at->get_option_no_throw(option) != nullptr ? std::optional<std::string_view>(option)
                                                                            : nearest_word(word, known);
            complain(name, nearest ? fmt::format("there is no command {}; did you mean {}?", word, *nearest)
                                   : fmt::format("there is no command {}", word));
            return false;
        }
        at = *found;
        name += " " + word;
    }
    return true;
}

// Refuses `forebay run --report -- program`, which lacks the folder.
void refuse_values_left_out(CLI::App& app) {
    for (CLI::Option* option : app.get_options()) {
        if (option->get_type_size() == 0) continue;
        const bool positional = option->get_positional();
        if (positional && option->get_name(true) == "PROGRAM") continue;   // PROGRAM takes any arguments
        option->check(CLI::Validator(
            [positional](const std::string& value) -> std::string {
                if (value.empty()) return positional ? "a name is empty" : "needs a value";
                return value.starts_with("--") && !positional ? "needs a value, and got " + value : "";
            },
            ""));
    }
    for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        if (!is_hidden(*command)) refuse_values_left_out(*command);
}

}   // namespace

std::size_t help_columns() {
    const char* const text = std::getenv("COLUMNS");
    const std::string_view given = text != nullptr ? text : "";
    std::size_t columns = 0;
    const auto parsed = std::from_chars(given.data(), given.data() + given.size(), columns);
    if (parsed.ec != std::errc{} || parsed.ptr != given.data() + given.size() || columns == 0) return kHelpColumns;
    return std::clamp(columns, kHelpColumnsMin, kHelpColumns);
}

std::string wrapped(std::string_view text, std::size_t begin, std::size_t indent, std::size_t columns) {
    std::string result;
    for (bool first = true; first || !text.empty(); first = false) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (!first) result += "\n" + (line.empty() ? "" : std::string(indent, ' '));
        std::size_t column = first ? begin : indent;
        // The indent of a line, and all text before two blanks, sets the indent of its continuation lines.
        const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
        const std::size_t gap = line.find("  ", blanks);
        const std::size_t text_begin = gap == std::string_view::npos ? blanks : line.find_first_not_of(' ', gap);
        const std::size_t hang = std::min(indent + (text_begin == std::string_view::npos ? blanks : text_begin),
                                          std::max(indent, columns / 2));
        while (column + display_width(line) > columns) {
            std::size_t cut = line.rfind(' ', bytes_in_columns(line, columns - std::min(columns, column)));
            if (cut == std::string_view::npos || line.find_first_not_of(' ') > cut)
                cut = line.find(' ', std::min(line.find_first_not_of(' '), line.size()));   // a long word
            if (cut == std::string_view::npos) break;
            result += line.substr(0, cut);
            line.remove_prefix(cut);
            line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
            result += "\n" + std::string(hang, ' ');
            column = hang;
        }
        result += line;
    }
    return result;
}

std::string exit_statuses(std::initializer_list<std::pair<std::string_view, std::string_view>> meanings) {
    std::string text = "Exit status:\n";
    for (const auto& [status, meaning] : meanings) text += fmt::format("{:>5}  {}\n", status, meaning);
    return text;
}

void set_up_help(CLI::App& app) { app.formatter(std::make_shared<HelpFormatter>()); }

void add_nls_option(CLI::App& command, const std::shared_ptr<std::vector<std::string>>& settings) {
    command
        .add_option_function<std::string>(
            "--nls", [settings](const std::string& folder) { settings->push_back("nls=" + folder); },
            "The staging area: -o nls=DIR in fewer characters")
        ->type_name("DIR");
}

int finish_output(std::string_view program, int exit_status) {
    if (std::ferror(stdout) == 0) {
        errno = 0;
        if (std::fflush(stdout) == 0) return exit_status;
    }
    const int error = errno != 0 ? errno : EIO;
    const std::string text = fmt::format("{}: {}\n", program,
                                         Status::from_errno(error, "write to standard output").message());
    (void)std::fputs(text.c_str(), stderr);   // fmt::print would throw if stderr fails
    return exit_status == kExitFine ? kExitProblem : exit_status;
}

void fill_standard_descriptors() {
    for (int number = 0; number <= STDERR_FILENO; ++number)
        if (::fcntl(number, F_GETFD) < 0 && errno == EBADF)   // open takes the lowest free number, which is this one
            (void)::open("/dev/null", (number == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int parse_command_line(CLI::App& app, int argc, char** argv) {
    std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    if (!words.empty() && words.front() == "help" && has_subcommands(app)) {
        words.erase(words.begin());
        words.push_back("--help");
    }
    if (!names_command(app, words)) return kExitUsage;
    refuse_values_left_out(app);
    std::reverse(words.begin(), words.end());   // the parser takes the words in reverse order
    try {
        app.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
        const auto [command, name] = reached(app);
        if (error.get_exit_code() == 0) {
            (void)app.exit(error);
            return kExitFine;
        }
        const auto is = [&](CLI::ExitCodes code) { return error.get_exit_code() == static_cast<int>(code); };
        if (const auto left = app.remaining(true);
            is(CLI::ExitCodes::ExtrasError) || (is(CLI::ExitCodes::RequiredError) && !left.empty()))
            return complain(name, unexpected(*command, left));
        if (is(CLI::ExitCodes::RequiredError) && has_subcommands(*command)) {
            fmt::print("{}", app.help());
            return kExitFine;
        }
        return complain(name, in_plain_words(error));
    }
    return kExitFine;
}

}   // namespace forebay::cli
