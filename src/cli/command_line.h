// Command lines for people: help that fits the screen, suggestions for misspelt words, and one-line errors. `forebay`
// and `forebay-torture` share it.
#pragma once

#include <CLI/App.hpp>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forebay::cli {

// The maximum length of a line of help, unless one word is longer: the smaller of COLUMNS and 100.
[[nodiscard]] std::size_t help_columns();

// Wraps `text` in lines of at most `columns`. The first line begins at column `begin`; the next lines are indented by
// `indent`. Line breaks in `text` stay.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t begin, std::size_t indent,
                                  std::size_t columns = help_columns());

// Returns the end of a help text: one line for each exit status.
[[nodiscard]] std::string exit_statuses(std::initializer_list<std::pair<std::string_view, std::string_view>> meanings);

// Gives `app` the layout of help. Call it before you add subcommands.
void set_up_help(CLI::App& app);

// Adds the option --nls DIR, a short form of `-o nls=DIR`. It is added to these settings.
void add_nls_option(CLI::App& command, const std::shared_ptr<std::vector<std::string>>& settings);

// Flushes standard output. Returns `exit_status`. If the write fails, prints an error and returns kExitProblem instead
// of kExitFine. Call it once, at the end.
[[nodiscard]] int finish_output(std::string_view program, int exit_status);

// Opens a closed descriptor 0, 1 or 2 as one that allows neither reads nor writes, so that no file gets its number.
// Started programs inherit it closed. Call it first.
void fill_standard_descriptors();

// Parses the command line, and runs the callback of the subcommand. `help`, `help COMMAND`, and no word where a
// subcommand is needed, print help. An option value that is empty or begins with "--" is an error, because the value
// was left out. Errors go to standard error. Returns kExitFine or kExitUsage.
[[nodiscard]] int parse_command_line(CLI::App& app, int argc, char** argv);

}   // namespace forebay::cli
