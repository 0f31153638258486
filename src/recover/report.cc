#include "recover/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/shell_word.h"

namespace forebay::recover {

namespace {

constexpr std::array<std::string_view, 8> kOutcomes{"recovered", "rolled_back", "complete", "discarded",
                                                    "gone",      "refused",     "waiting",  "failed"};
constexpr std::array<std::string_view, 14> kReasons{
    "none",    "missing",   "replaced",   "changed",      "read_only",     "no_space",  "in_use",
    "damaged", "restarted", "incomplete", "several_runs", "nodes_missing", "not_asked", "system"};

}   // namespace

std::string_view outcome_name(Outcome outcome) noexcept { return kOutcomes[static_cast<std::size_t>(outcome)]; }
std::string_view reason_name(Reason reason) noexcept { return kReasons[static_cast<std::size_t>(reason)]; }

std::string_view dropped_reason(const FileReport& report) noexcept {
    if (report.dropped_bytes == 0 && report.dropped_records == 0) return "none";
    if (report.outcome == Outcome::kDiscarded) return "discarded";
    return report.commit_sequence > 0 ? "not_committed" : "never_committed";
}

std::string advice(const FileReport& report) {
    const auto discard = [&report] {   // all that is in the directory, also logs of other files
        return fmt::format("give up what only this log directory holds: `forebay discard {}`",
                           shell_word(report.directories.empty() ? report.path : report.directories.front()));
    };
    const auto discard_file = [](const std::string& path) {
        return fmt::format("give up what only the log holds: `forebay discard {}`", shell_word(path));
    };
    switch (report.reason) {
        case Reason::kNone: return about_nodes(report);
        case Reason::kMissing:
            return "if the file was moved, name it: `forebay recover FILE`; if it was deleted, " +
                   discard_file(report.logged_path.empty() ? report.path : report.logged_path);
        case Reason::kReplaced:   // its name stands for another file now
            return fmt::format("if it is the same file, on a file system that was mounted again: "
                               "`forebay recover --accept-moved {}`; if not, "
                               "move the file back that was there when the program ran, or {}",
                               shell_word(report.path), discard());
        case Reason::kChanged:
            return fmt::format("if the change is to be kept, {}; if only the dead process has changed the file, "
                               "`forebay recover --changed {}`",
                               discard_file(report.path), shell_word(report.path));
        case Reason::kReadOnly: return "make the file and its file system writable, then run `forebay recover` again";
        case Reason::kNoSpace: return "make room where the file is, then run `forebay recover` again";
        case Reason::kInUse: return "wait until that process has ended, then run `forebay recover` again";
        case Reason::kDamaged:
            return "look with `forebay verify`; the file is as the process left it; to keep it so, " + discard();
        case Reason::kRestarted: return "the file is as the process left it; to keep it so, " + discard();
        case Reason::kIncomplete:
            return "name the staging areas of all processes of this node that wrote the file together, or " + discard();
        case Reason::kSeveralRuns:
            return "only one of the logs can be right: "
                   "`forebay discard DIRECTORY` the others, then run `forebay recover` again";
        case Reason::kNodesMissing:
            return "run `forebay recover` on the nodes of those ranks, in any order, "
                   "and leave the file alone until the last one says that it is recovered";
        case Reason::kNotAsked: return "run `forebay recover`";
        case Reason::kSystem: return "run `forebay recover` again";
    }
    return {};
}

std::string about_nodes(const FileReport& report) {
    if (report.nodes <= report.nodes_here) return {};
    return fmt::format("{} nodes wrote it together; the logs of {} are not here: "
                       "it is whole once `forebay recover` has run on each of them",
                       report.nodes, report.nodes - report.nodes_here);
}

bool Report::all_well() const noexcept {
    return refused.empty() && std::none_of(files.begin(), files.end(), [](const FileReport& file) {
               return file.outcome == Outcome::kRefused || file.outcome == Outcome::kWaiting ||
                      file.outcome == Outcome::kFailed;
           });
}

}   // namespace forebay::recover
