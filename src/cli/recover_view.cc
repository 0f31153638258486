#include "cli/recover_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/options.h"
#include "cli/shown.h"
#include "io/path.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;
using recover::FileReport;
using recover::Outcome;

std::string headline(const FileReport& file, bool dry_run) {
    switch (file.outcome) {
        case Outcome::kRecovered:
            return fmt::format("{}: {}: {} from the log, file size {}{}", dry_run ? "would be recovered" : "recovered",
                               file.commit_sequence == 0  ? "the staged bytes of this node"
                               : file.commit_time_ns == 0 ? "to its last commit"
                                                          : "to its commit of " + local_time(file.commit_time_ns),
                               format_size(file.bytes),
                               dry_run && file.size == 0 ? "unchanged" : format_size(file.size),
                               dry_run ? ""
                                       : fmt::format(" ({} {})", file.writes, file.writes == 1 ? "write" : "writes"));
        case Outcome::kRolledBack:
            return fmt::format("{}: it was never flushed, and is as it was at its open: {}",
                               dry_run ? "would be rolled back" : "rolled back", format_size(file.size));
        case Outcome::kComplete:
            return dry_run ? "complete; its log would be removed" : "complete; its log was removed";
        case Outcome::kDiscarded:
            return fmt::format("{}: {} that were only in the log", dry_run ? "would be discarded" : "discarded",
                               format_size(file.dropped_bytes));
        case Outcome::kGone:
            return fmt::format("the file was deleted, under all its names; its log {}",
                               dry_run ? "would be removed" : "was removed");
        case Outcome::kRefused: return "NOT RECOVERED: " + file.status.message();
        case Outcome::kWaiting:
            return (dry_run ? "this node would do its part; " : "this node has done its part; ") +
                   file.status.message();
        case Outcome::kFailed: return "FAILED: " + file.status.message();
    }
    return {};
}

}   // namespace

std::vector<recover::Wanted> wanted(const Survey& asked) {
    std::vector<recover::Wanted> all = asked.files;
    for (const std::string& path : asked.missing) all.push_back({{}, path});
    return all;
}

std::string unknown_file(const Survey& asked, const recover::Report& report) {
    for (const std::string& path : asked.missing)
        if (std::none_of(report.files.begin(), report.files.end(), [&](const FileReport& file) {
                return io::same_place(file.path, path) || io::same_place(file.logged_path, path);
            }))
            return path;
    return {};
}

void append(recover::Report& all, recover::Report more) {
    const auto move_to = [](auto& to, auto& from) {
        to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    };
    move_to(all.files, more.files);
    move_to(all.refused, more.refused);
    move_to(all.living, more.living);
    move_to(all.removed, more.removed);
    all.owners += more.owners;
}

std::string report_as_text(const Survey& asked, const recover::Report& report, bool dry_run) {
    std::string text;
    const auto out = std::back_inserter(text);
    for (const FileReport& file : report.files) {
        fmt::format_to(out, "{}\n  {}\n", printable(file.path), headline(file, dry_run));
        if (file.outcome != Outcome::kDiscarded && file.dropped_bytes > 0)
            fmt::format_to(out, "  written after that commit, and discarded: {} in {} {}\n",
                           format_size(file.dropped_bytes), file.dropped_records,
                           file.dropped_records == 1 ? "record" : "records");
        if (file.unchecked_bytes > 0 && file.outcome == Outcome::kRecovered)
            fmt::format_to(
                out,
                "  {} of the log have no checksum; they were used, since the machine was not restarted (option "
                "durability=node)\n",
                format_size(file.unchecked_bytes));
        if (file.unread_bytes > 0)
            fmt::format_to(out, "  {} of the log, after damage, could not be read\n", format_size(file.unread_bytes));
        if (file.uncommitted_bytes > 0)
            fmt::format_to(out, "  {} had reached the file before their commit, for lack of room: check the file\n",
                           format_size(file.uncommitted_bytes));
        if (file.restarted && file.outcome == Outcome::kRecovered)
            fmt::format_to(out, "  the machine was restarted, and the log may have lost bytes: check the file\n");
        if (file.mark == recover::Mark::kCleared) fmt::format_to(out, "  HDF5's mark of an open file was cleared\n");
        if (file.mark == recover::Mark::kUnreadable)
            fmt::format_to(out, "  its superblock has a wrong checksum, and was left as it is\n");
        if (const std::string todo = recover::advice(file); !todo.empty())
            fmt::format_to(out, "  what to do: {}\n", todo);
    }
    for (const recover::DirectoryReport& directory : report.refused)
        fmt::format_to(out, "{}\n  left alone: {}\n", printable(directory.path), directory.status.message());
    for (const std::string& directory : report.removed)
        fmt::format_to(out, "{}\n  {}\n", printable(directory), dry_run ? "would be removed" : "removed");
    for (const std::string& directory : report.living)
        fmt::format_to(out, "{}\n  in use by a living process; not touched\n", printable(directory));
    if (report.files.empty() && report.refused.empty() && report.removed.empty() && report.living.empty()) {
        // A complete survey is needed for this answer.
        fmt::format_to(out, "{}",
                       asked.unseen.empty() ? "There are no staged bytes of dead processes"
                                            : "No staged bytes of dead processes were found");
        if (asked.names_files())
            for (const recover::Wanted& file : wanted(asked)) fmt::format_to(out, " of {}", printable(file.path));
        fmt::format_to(out, " in");
        for (const std::string& each : asked.nls()) fmt::format_to(out, " {}", printable(each));
        fmt::format_to(out, ".\n");
    }
    if (!asked.others.empty()) fmt::format_to(out, "Not included: the logs of {}.\n", fmt::join(asked.others, ", "));
    text += unseen_as_text(asked.unseen);
    return text;
}

void print_report(const Survey& asked, const recover::Report& report, bool dry_run, bool json) {
    if (json)
        fmt::print("{}\n",
                   report_as_json(asked, report, dry_run).dump(2, ' ', false, ordered_json::error_handler_t::replace));
    else fmt::print("{}", report_as_text(asked, report, dry_run));
}

ordered_json report_as_json(const Survey& asked, const recover::Report& report, bool dry_run) {
    ordered_json result{{"nls", asked.nls()},
                        {"dry_run", dry_run},
                        {"files", ordered_json::array()},
                        {"refused_directories", ordered_json::array()},
                        {"living", report.living},
                        {"removed", report.removed},
                        {"unseen", asked.unseen}};
    for (const FileReport& file : report.files)
        result["files"].push_back({
            {"path", file.path},
            {"outcome", recover::outcome_name(file.outcome)},
            {"reason", recover::reason_name(file.reason)},
            {"message", file.status.message()},
            {"advice", recover::advice(file)},
            {"directories", file.directories},
            {"processes", file.processes},
            {"commit_sequence", file.commit_sequence},
            {"commit_time_ns", file.commit_time_ns},
            {"size", file.size},
            {"bytes", file.bytes},
            {"unchecked_bytes", file.unchecked_bytes},
            {"writes", file.writes},
            {"dropped_records", file.dropped_records},
            {"dropped_bytes", file.dropped_bytes},
            {"dropped_reason", recover::dropped_reason(file)},
            {"unread_bytes", file.unread_bytes},
            {"uncommitted_bytes", file.uncommitted_bytes},
            {"nodes", file.nodes},
            {"nodes_here", file.nodes_here},
            {"restarted", file.restarted},
            {"mark_cleared", file.mark == recover::Mark::kCleared},
        });
    for (const recover::DirectoryReport& directory : report.refused)
        result["refused_directories"].push_back({{"path", directory.path}, {"message", directory.status.message()}});
    return result;
}

}   // namespace forebay::cli
