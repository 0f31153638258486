// `forebay verify`: checks that the logs and undo journals of dead processes are readable.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/options.h"
#include "cli/acting_as.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/staging_areas.h"
#include "io/path.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;

struct VerifyRequest {
    std::vector<std::string> names;
    std::string nls;
    bool json = false, all_users = false;
};

bool is_sound(const recover::VerifiedDirectory& directory) {
    return directory.refused.is_ok() && std::all_of(directory.logs.begin(), directory.logs.end(),
                                                    [](const recover::VerifiedLog& log) { return log.damage.empty(); });
}

std::string verdict(const std::vector<recover::VerifiedDirectory>& directories, const Survey& asked) {
    const auto damaged = std::count_if(directories.begin(), directories.end(),
                                       [](const auto& directory) { return !is_sound(directory); });
    if (damaged > 0)
        return fmt::format("Verdict: {} of {} process directories cannot be read completely.", damaged,
                           directories.size());
    if (!asked.unseen.empty()) return "Verdict: none, since a directory could not be read.";
    return directories.empty() ? "Verdict: there are no logs of dead processes."
                               : "Verdict: all logs of dead processes can be read.";
}

void print_verified(const std::vector<recover::VerifiedDirectory>& directories, const Survey& asked) {
    if (directories.empty())
        fmt::print("{} {}{}.\n", asked.unseen.empty() ? "No process has logs in" : "No logs were found in",
                   fmt::join(asked.nls(), ", "), asked.names_files() ? " of the named files" : "");
    fmt::print("{}", unseen_as_text(asked.unseen));
    for (const recover::VerifiedDirectory& directory : directories) {
        fmt::print("{}\n", directory.path);
        if (!directory.refused) fmt::print("  NOT READ: {}\n", directory.refused.message());
        if (directory.alive) fmt::print("  process {} is alive: not checked\n", directory.pid);
        for (const recover::VerifiedLog& log : directory.logs) {
            fmt::print("  {}\n    {} {}, {}, in {} {}; {} without a checksum\n",
                       log.path.empty() ? "(nothing written)" : log.path, log.records,
                       log.records == 1 ? "record" : "records", format_size(log.bytes), log.segments,
                       log.segments == 1 ? "segment" : "segments", format_size(log.unchecked_bytes));
            for (const std::string& damage : log.damage) fmt::print("    DAMAGED: {}\n", damage);
            if (!log.damage.empty())
                fmt::print("    {} could not be read; {}\n", format_size(log.unread_bytes),
                           log.damaged_before_commit
                               ? "it may belong to the last commit: `forebay recover` refuses this log"
                               : "all of it was written after the last commit");
        }
        for (const recover::VerifiedJournal& journal : directory.journals)
            fmt::print("  {}\n    undo journal of rank {} of {}: {} records, {}; {}\n", journal.path, journal.member,
                       journal.members, journal.records, format_size(journal.bytes),
                       journal.closed ? "closed" : fmt::format("last commit {}", journal.commit));
    }
    fmt::print("{}\n", verdict(directories, asked));
}

ordered_json verified_as_json(const std::vector<recover::VerifiedDirectory>& directories,
                              const std::vector<std::string>& unseen) {
    ordered_json result{{"directories", ordered_json::array()}, {"unseen", unseen}};
    for (const recover::VerifiedDirectory& directory : directories) {
        ordered_json one{{"path", directory.path},        {"pid", directory.pid},
                         {"alive", directory.alive},      {"refused", directory.refused.message()},
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

// A log may know a file that does not exist.
bool is_known_to_verify(const std::vector<recover::VerifiedDirectory>& directories, const std::string& path) {
    const auto names = [&](const auto& one) { return io::same_place(one.path, path); };
    return std::any_of(directories.begin(), directories.end(), [&](const recover::VerifiedDirectory& directory) {
        return !directory.refused || std::ranges::any_of(directory.logs, names) ||
               std::ranges::any_of(directory.journals, names) || std::ranges::any_of(directory.open_files, names);
    });
}

bool concerns(const Survey& asked, const recover::VerifiedDirectory& directory) {
    if (!asked.names_files())
        return asked.directories.empty() ||
               std::find(asked.directories.begin(), asked.directories.end(), directory.path) != asked.directories.end();
    const auto named = [&](const io::Identity& identity, const std::string& path) {
        return std::any_of(asked.files.begin(), asked.files.end(),
                           [&](const recover::Wanted& file) { return file.identity == identity; }) ||
               std::any_of(asked.missing.begin(), asked.missing.end(),
                           [&](const std::string& missing) { return io::same_place(missing, path); });
    };
    return !directory.refused || std::any_of(directory.logs.begin(), directory.logs.end(), [&](const auto& log) {
        return named(log.identity, log.path);
    }) || std::any_of(directory.journals.begin(), directory.journals.end(), [&](const auto& journal) {
        return named(journal.identity, journal.path);
    }) || std::any_of(directory.open_files.begin(), directory.open_files.end(), [&](const auto& file) {
        return named({file.device, file.inode}, file.path);
    });
}

int verify(const VerifyRequest& request) {
    const auto complain = [](const Status& status) {
        fmt::print(stderr, "forebay verify: {}\n", status.message());
        return exit_status(status);
    };
    const auto asked = survey({request.names, request.nls, request.all_users});
    if (!asked) return complain(asked.status());
    const Survey& where = asked.value();
    const auto outside = recover::Outside::real();
    if (!outside) return complain(outside.status());
    std::vector<recover::VerifiedDirectory> directories;
    for (const UserAreas& user : where.users) {
        const auto acting = ActingAs::user(user.user);
        if (!acting) return complain(acting.status());
        const auto verified = recover::verify(user.open_areas(), outside.value());
        if (!verified) return complain(verified.status());
        for (const recover::VerifiedDirectory& directory : verified.value())
            if (concerns(where, directory)) directories.push_back(directory);
    }
    for (const std::string& path : where.missing)
        if (!is_known_to_verify(directories, path)) return complain(no_such_file(path));
    if (request.json)
        fmt::print(
            "{}\n",
            verified_as_json(directories, where.unseen).dump(2, ' ', false, ordered_json::error_handler_t::replace));
    else print_verified(directories, where);
    return exit_status(std::all_of(directories.begin(), directories.end(), is_sound), where.unseen);
}

}   // namespace

void add_verify(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand(
        "verify", "Check the logs and undo journals of dead processes: headers, tables, checksums");
    auto request = std::make_shared<VerifyRequest>();
    command->add_option("WHAT", request->names,
                        "Files, or staging areas; default: all areas of this user on this node");
    command->add_option("--nls", request->nls, "Also search this staging area")->type_name("DIR");
    command->add_flag("--all-users", request->all_users, "The processes of all users (root only)");
    command->add_flag("--json", request->json, "Print JSON");
    command->footer(
        exit_statuses({{"0", "all of them can be read"},
                       {"1", "some cannot"},
                       {"2", "the command line or an option is wrong, or a file or staging area does not exist"},
                       {"3", "a directory could not be read, so more logs may exist"}}));
    command->callback([request, &exit_status] { exit_status = verify(*request); });
}

}   // namespace forebay::cli
