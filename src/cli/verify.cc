// `forebay verify`: whether the logs and undo journals that dead processes have left can be read.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/options.h"
#include "cli/commands.h"
#include "cli/staging_areas.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;

struct Request {
    std::string nls;
    bool json = false;
};

bool is_sound(const recover::VerifiedDirectory& directory) {
    return directory.refused.is_ok() &&
           std::all_of(directory.logs.begin(), directory.logs.end(), [](const recover::VerifiedLog& log) { return log.damage.empty(); });
}

void print_text(const std::vector<recover::VerifiedDirectory>& directories, const std::vector<std::string>& nls) {
    if (directories.empty()) fmt::print("No process has logs in {}.\n", fmt::join(nls, ", "));
    for (const recover::VerifiedDirectory& directory : directories) {
        fmt::print("{}\n", directory.path);
        if (!directory.refused) fmt::print("  NOT READ: {}\n", directory.refused.message());
        if (directory.alive) fmt::print("  process {} is at work: not looked into\n", directory.pid);
        for (const recover::VerifiedLog& log : directory.logs) {
            fmt::print("  {}\n    {} {}, {}, in {} {}; {} without a checksum\n", log.path.empty() ? "(nothing written)" : log.path,
                       log.records, log.records == 1 ? "record" : "records", format_size(log.bytes), log.segments, log.segments == 1 ? "segment" : "segments", format_size(log.unchecked_bytes));
            for (const std::string& damage : log.damage) fmt::print("    DAMAGED: {}\n", damage);
            if (!log.damage.empty())
                fmt::print("    {} could not be read; {}\n", format_size(log.unread_bytes),
                           log.damaged_before_commit ? "it may belong to the last commit: `forebay recover` refuses this log"
                                                     : "all of it was written after the last commit");
        }
        for (const recover::VerifiedJournal& journal : directory.journals)
            fmt::print("  {}\n    undo journal of rank {} of {}: {} records, {}; {}\n", journal.path, journal.member, journal.members, journal.records,
                       format_size(journal.bytes), journal.closed ? "closed" : fmt::format("last commit {}", journal.commit));
    }
}

ordered_json as_json(const std::vector<recover::VerifiedDirectory>& directories) {
    ordered_json result{{"directories", ordered_json::array()}};
    for (const recover::VerifiedDirectory& directory : directories) {
        ordered_json one{{"path", directory.path}, {"pid", directory.pid}, {"alive", directory.alive}, {"refused", directory.refused.message()},
                         {"logs", ordered_json::array()}, {"journals", ordered_json::array()}};
        for (const recover::VerifiedLog& log : directory.logs)
            one["logs"].push_back({{"path", log.path},
                                   {"log", log.log},
                                   {"segments", log.segments},
                                   {"records", log.records},
                                   {"bytes", log.bytes},
                                   {"unchecked_bytes", log.unchecked_bytes},
                                   {"commit_sequence", log.commit_sequence},
                                   {"unread_bytes", log.unread_bytes},
                                   {"damage", log.damage},
                                   {"damaged_before_commit", log.damaged_before_commit}});
        for (const recover::VerifiedJournal& journal : directory.journals)
            one["journals"].push_back({{"path", journal.path},
                                       {"member", journal.member},
                                       {"members", journal.members},
                                       {"records", journal.records},
                                       {"bytes", journal.bytes},
                                       {"commit", journal.commit},
                                       {"closed", journal.closed}});
        result["directories"].push_back(std::move(one));
    }
    return result;
}

int run(const Request& request) {
    const auto complain = [](const Status& status) {
        fmt::print(stderr, "forebay verify: {}\n", status.message());
        return kExitProblem;
    };
    const auto selected = select({}, request.nls);
    if (!selected) return complain(selected.status());
    const auto outside = recover::Outside::real();
    if (!outside) return complain(outside.status());
    const auto areas = selected.value().open_areas();
    const auto verified = recover::verify(areas, outside.value());
    if (!verified) return complain(verified.status());
    if (request.json) fmt::print("{}\n", as_json(verified.value()).dump(2, ' ', false, ordered_json::error_handler_t::replace));
    else print_text(verified.value(), selected.value().nls);
    return std::all_of(verified.value().begin(), verified.value().end(), is_sound) ? kExitFine : kExitProblem;
}

}   // namespace

void add_verify(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("verify", "Check the logs and undo journals that dead processes left: headers, tables, checksums");
    auto request = std::make_shared<Request>();
    command->add_option("nls,--nls", request->nls, "The staging area; default: the one in effect here");
    command->add_flag("--json", request->json, "As JSON");
    command->footer("\nExit status: 0 all of it can be read; 1 something cannot; 2 the command line is wrong.\n");
    command->callback([request, &exit_status] { exit_status = run(*request); });
}

}   // namespace forebay::cli
