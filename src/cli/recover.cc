// `forebay recover`: files as they were at their last flush, from what dead processes have left.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "base/options.h"
#include "cli/commands.h"
#include "cli/recover_view.h"
#include "cli/staging_areas.h"

namespace forebay::cli {

namespace {

struct Request {
    std::vector<std::string> names;
    std::string nls;
    bool dry_run = false, json = false, changed = false, accept_moved = false;
};

constexpr const char* kFooter =
    "\nExit status: 0 all that was asked for is recovered, or there was nothing; 1 something was left alone, and the\n"
    "report says why; 2 the command line is wrong. Run it on the node where the program ran, after it has ended.\n";

int complain(const Status& status) {
    fmt::print(stderr, "forebay recover: {}\n", status.message());
    return kExitProblem;
}

// One line, drawn over and over, on a terminal only.
void draw(const recover::Progress& progress) {
    constexpr std::uint64_t kCells = 30;
    const std::uint64_t full = progress.of_bytes == 0 ? kCells : progress.bytes * kCells / progress.of_bytes;
    fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] file {} of {}, {} of {}", "", full, "", kCells - full, progress.file + 1, progress.of_files,
               format_size(progress.bytes), format_size(progress.of_bytes));
    (void)std::fflush(stderr);
}

int run(const Request& request) {
    const auto selected = select(request.names, request.nls);
    if (!selected) return complain(selected.status());
    const Selection& selection = selected.value();
    if (!selection.missing.empty()) {
        fmt::print(stderr, "forebay recover: {}: there is no such file or directory\n", selection.missing.front());
        return kExitUsage;
    }
    const auto outside = recover::Outside::real();
    if (!outside) return complain(outside.status());
    recover::Request what;
    what.dry_run = request.dry_run;
    what.patience = kPatience;
    what.although_changed = request.changed;
    if (request.accept_moved && selection.files.empty()) {
        fmt::print(stderr, "forebay recover: --accept-moved needs the file\n");
        return kExitUsage;
    }
    what.accept_moved = request.accept_moved;
    if (!selection.files.empty()) what.only = selection.files;
    const bool terminal = !request.json && ::isatty(STDERR_FILENO) != 0;
    if (terminal) what.progress = draw;
    const auto areas = selection.open_areas();
    const auto report = recover::recover(areas, what, outside.value());
    if (terminal) fmt::print(stderr, "\r\033[K");
    if (!report) return complain(report.status());
    if (request.json)
        fmt::print("{}\n", report_as_json(selection.nls, report.value(), request.dry_run)
                               .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    else
        fmt::print("{}", report_as_text(selection.nls, report.value(), request.dry_run));
    return report.value().all_well() ? kExitFine : kExitProblem;
}

}   // namespace

void add_recover(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("recover", "Bring files to their last flush from the logs of processes that died");
    auto request = std::make_shared<Request>();
    command->add_option("what", request->names, "Staging areas, or files; default: all files of the area in effect here");
    command->add_option("--nls", request->nls, "The staging area to look in for files");
    command->add_flag("-n,--dry-run", request->dry_run, "Only tell what would be done");
    command->add_flag("--changed", request->changed, "Also files that seem to have been written since: what the log has wins");
    command->add_flag("--accept-moved", request->accept_moved,
                      "FILE is the one that the program wrote, though its device has another number: its file system was mounted again. Inode and name must be the same");
    command->add_flag("--json", request->json, "The report as JSON");
    command->footer(kFooter);
    command->callback([request, &exit_status] { exit_status = run(*request); });
}

}   // namespace forebay::cli
