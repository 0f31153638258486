// A command line as a person types it: help that fits a screen, the word that was meant, and complaints of one line.
// `forebay` and `forebay-torture` share it.
#pragma once

#include <CLI/App.hpp>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forebay::cli {

// No line of help is longer, unless a word is: COLUMNS where that is a smaller number, else 100.
[[nodiscard]] std::size_t help_columns();

// The words of `text` in lines of at most `columns`. The first line begins at column `begin`, those after it are
// indented by `indent`. A line break in `text` stays one.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t begin, std::size_t indent,
                                  std::size_t columns = help_columns());

// For the end of help: one line for each exit status.
[[nodiscard]] std::string exit_statuses(std::initializer_list<std::pair<std::string_view, std::string_view>> meanings);

// Gives `app`, before subcommands are added to it, the layout of help described here.
void set_up_help(CLI::App& app);

// The option --nls DIR, which is `-o nls=DIR` in fewer characters: it is added to these settings.
void add_nls_option(CLI::App& command, const std::shared_ptr<std::vector<std::string>>& settings);

// Writes out what was printed. Returns `exit_status`, or kExitProblem in the place of kExitFine if standard output
// could not be written, which is told on standard error. Once, at the end.
[[nodiscard]] int finish_output(std::string_view program, int exit_status);

// A descriptor 0, 1 or 2 that is closed becomes one that cannot be written to or read from, so that no file takes its
// number. Programs that are started get it closed. First of all.
void fill_standard_descriptors();

// Parses, which runs the callback of a subcommand. `help`, `help COMMAND` and nothing at all, where a subcommand is
// needed, print help. A value of an option that is empty, or begins with "--", is a mistake: it was left out. A mistake
// is told on standard error. Returns kExitFine or kExitUsage.
[[nodiscard]] int parse_command_line(CLI::App& app, int argc, char** argv);

}   // namespace forebay::cli
