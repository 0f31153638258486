// `forebay recover`: restores files to their last flush, from the logs of dead processes.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "base/options.h"
#include "cli/acting_as.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/progress_bar.h"
#include "cli/recover_view.h"
#include "cli/staging_areas.h"

namespace forebay::cli {

namespace {

struct RecoverRequest {
    std::vector<std::string> names;
    std::string nls;
    bool dry_run = false, json = false, changed = false, accept_moved = false, all_users = false;
};

int complain_of_recover(const Status& status) {
    fmt::print(stderr, "forebay recover: {}\n", status.message());
    return exit_status(status);
}

void draw(const recover::Progress& progress) {
    draw_progress({progress.file, progress.of_files, progress.bytes, progress.of_bytes});
}

Result<recover::Report> recover_all(const Survey& asked, const recover::Request& what,
                                    const recover::Outside& outside) {
    recover::Report all;
    for (const UserAreas& user : asked.users) {
        const auto acting = ActingAs::user(user.user);
        if (!acting) return acting.status();
        const auto areas = user.open_areas();
        if (areas.empty()) continue;
        auto report = recover::recover(areas, what, outside);
        if (!report) return report.status();
        append(all, std::move(report).value());
    }
    return all;
}

int recover_files(const RecoverRequest& request) {
    const auto asked = survey({request.names, request.nls, request.all_users});
    if (!asked) return complain_of_recover(asked.status());
    const Survey& where = asked.value();
    const auto outside = recover::Outside::real(recover::kOthersLook);
    if (!outside) return complain_of_recover(outside.status());
    recover::Request what;
    what.dry_run = request.dry_run;
    what.patience = kPatience;
    const auto options = options_here();
    if (!options) return complain_of_recover(options.status());
    const std::uint64_t patience = options.value().options.patience;   // as long as an open of the file waits
    what.ending = patience == 0 ? io::Directory::Patience::kWait
                                : io::Directory::Patience{std::chrono::seconds(patience)};
    what.waiting = [](const area::ProcessIdentity& process) {
        fmt::print(stderr, "forebay recover: process {} is ending; waiting for it\n", process.pid);
    };
    what.although_changed = request.changed;
    if (request.accept_moved && where.files.empty()) {
        fmt::print(stderr, "forebay recover: --accept-moved needs the name of a file\n");
        return kExitUsage;
    }
    what.accept_moved = request.accept_moved;
    if (where.names_files()) what.only = wanted(where);
    const bool terminal = !request.json && progress_is_shown();
    if (terminal) what.progress = draw;
    const auto report = recover_all(where, what, outside.value());
    if (terminal) erase_progress();
    if (!report) return complain_of_recover(report.status());
    if (const std::string missing = unknown_file(where, report.value()); !missing.empty())
        return complain_of_recover(no_such_file(missing));
    print_report(where, report.value(), request.dry_run, request.json);
    return exit_status(report.value().all_well() && report.value().owners == 0, where.unseen);
}

}   // namespace

void add_recover(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("recover",
                                           "Bring files to their last flush from the logs of dead processes");
    auto request = std::make_shared<RecoverRequest>();
    command->add_option("WHAT", request->names,
                        "Files, or staging areas; default: all files of all areas of this user on this node");
    command->add_option("--nls", request->nls, "Also search this staging area")->type_name("DIR");
    command->add_flag("-n,--dry-run", request->dry_run, "Only show the planned actions");
    command->add_flag("--changed", request->changed,
                      "Also recover files that seem to have been written since then; the bytes of the log win");
    command->add_flag(
        "--accept-moved", request->accept_moved,
        "The file system was mounted again, so the device has another number: accept a file with the same inode "
        "and name");
    command->add_flag("--all-users", request->all_users, "The processes of all users (root only)");
    command->add_flag("--json", request->json, "Print the report as JSON");
    command->footer(
        "Run it on the node where the program ran, after it has ended.\n\n" +
        exit_statuses({{"0", "recovered, or there was nothing to do"},
                       {"1", "a file was left alone, or a living process uses it; the report says why"},
                       {"2", "the command line or an option is wrong, or a file or staging area does not exist"},
                       {"3", "a directory could not be read, so logs may be left"}}));
    command->callback([request, &exit_status] { exit_status = recover_files(*request); });
}

}   // namespace forebay::cli
