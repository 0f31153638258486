// `forebay wait`: until everything that programs have staged of some files is in the files.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/options.h"
#include "cli/commands.h"
#include "cli/staging_areas.h"
#include "io/futex.h"
#include "log/ledger.h"

namespace forebay::cli {

namespace {

using Clock = std::chrono::steady_clock;

// A program wakes whoever waits when it closes a file. One that died, or that drains a file which stays open,
// does not: so often it is looked at.
constexpr std::chrono::milliseconds kLookInterval{500};

struct Request {
    std::vector<std::string> names;
    std::string nls;
    double timeout_s = -1;
};

int complain(std::string_view what) {
    fmt::print(stderr, "forebay wait: {}\n", what);
    return kExitProblem;
}

// What is still on its way to one of the files.
struct Pending {
    std::string path, directory;
    std::uint64_t pid = 0, bytes = 0;
    bool alive = false;
};

std::optional<Pending> find_pending(const std::vector<log::ProcessView>& processes, const Selection& selection) {
    std::optional<Pending> dead;
    for (const log::ProcessView& process : processes)
        for (const log::FileCounters& file : process.files) {
            const bool named = std::any_of(selection.files.begin(), selection.files.end(), [&](const recover::Wanted& wanted) {
                return wanted.identity == io::Identity{file.device, file.inode};
            });
            if (!named || (file.pending == 0 && process.alive)) continue;
            Pending pending{file.path, process.directory, process.pid, file.pending, process.alive};
            if (process.alive) return pending;
            if (!dead) dead = std::move(pending);
        }
    return dead;
}

// The ledger of a living process; null if it has just gone away.
std::unique_ptr<io::Mapping> map_ledger(const std::string& directory) {
    auto opened = io::open_posix_directory(directory);
    if (!opened) return nullptr;
    auto file = opened.value()->open_file("ledger", io::OpenMode::kReadWrite);
    if (!file) return nullptr;
    const auto size = file.value()->size();
    if (!size || size.value() < sizeof(log::LedgerHeader)) return nullptr;
    auto mapping = file.value()->map(0, sizeof(log::LedgerHeader));
    return mapping ? std::move(mapping).value() : nullptr;
}

// Its word is raised when a file has been closed.
const io::SharedWord& closed_word(const io::Mapping& ledger) {
    return reinterpret_cast<const log::LedgerHeader*>(ledger.bytes().data())->closed;
}

int run(const Request& request) {
    const auto selected = select(request.names, request.nls);
    if (!selected) return complain(selected.status().message());
    const Selection& selection = selected.value();
    if (!selection.missing.empty()) {
        (void)complain(selection.missing.front() + ": there is no such file");
        return kExitUsage;
    }
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::max(0.0, request.timeout_s)));
    std::unique_ptr<io::Mapping> ledger;
    for (;;) {
        const std::uint32_t seen = ledger != nullptr ? closed_word(*ledger).load() : 0;
        std::optional<Pending> pending;
        for (const std::string& nls : selection.nls) {
            const auto scan = log::scan_ledgers(nls);
            if (!scan) return complain(scan.status().message());
            if (auto found = find_pending(scan.value().processes, selection); found && (!pending || found->alive)) pending = std::move(found);
        }
        if (!pending) return kExitFine;
        if (!pending->alive)
            return complain(fmt::format("{}: process {} died and left a log of it in {}: `forebay recover`", pending->path, pending->pid, pending->directory));
        if (ledger == nullptr && (ledger = map_ledger(pending->directory)) != nullptr) continue;   // it may have been closed before that
        auto at_most = kLookInterval;
        if (request.timeout_s >= 0) {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
            if (left.count() <= 0) return complain(fmt::format("{}: {} are not in the file yet", pending->path, format_size(pending->bytes)));
            at_most = std::min(at_most, left);
        }
        static constexpr io::SharedWord kNobodyRaises{0};
        io::wait_while(ledger != nullptr ? closed_word(*ledger) : kNobodyRaises, seen, at_most);
        ledger.reset();   // the next one may be another process's
    }
}

}   // namespace

void add_wait(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("wait", "Wait until nothing of some files is staged any more");
    auto request = std::make_shared<Request>();
    command->add_option("files", request->names, "Files")->required();
    command->add_option("--nls", request->nls, "The staging area to look in; default: the one in effect here");
    command->add_option("--timeout", request->timeout_s, "Give up after so many seconds")->check(CLI::NonNegativeNumber);
    command->footer("\nExit status: 0 everything that was staged of the files is in them; 1 it is not, in time or because a process\n"
                    "died; 2 the command line is wrong. Nothing is synced to a device.\n");
    command->callback([request, &exit_status] { exit_status = run(*request); });
}

}   // namespace forebay::cli
