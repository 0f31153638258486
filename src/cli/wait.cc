// `forebay wait`: until everything that programs have staged of some files is in the files, and the files are on their device.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "base/options.h"
#include "cli/commands.h"
#include "cli/staging_areas.h"
#include "io/posix_file.h"
#include "log/ledger.h"
#include "log/process.h"
#include "log/scan.h"
#include "log/undo_format.h"

namespace forebay::cli {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What makes the counters change is mostly seen: writes to the files, closing them, directories that come and go on the staging area. Counters
// alone, and what another machine does to a file, are not: so often it is looked at in any case.
constexpr milliseconds kLookInterval{500};
// Events come in heaps, and a counter is lowered a moment after the write that it tells of.
constexpr milliseconds kSettle{10};
// A process that is just beginning has a directory before it has a ledger.
constexpr milliseconds kUnclear{2000};

struct Request {
    std::vector<std::string> names;
    std::string nls;
    double timeout_s = -1;
    bool no_sync = false;
};

int complain(std::string_view what, int exit_status = kExitProblem) {
    fmt::print(stderr, "forebay wait: {}\n", what);
    return exit_status;
}

// What keeps one of the files from being known to be complete. In order: what comes later is told only if nothing before it is to be told.
struct Pending {
    enum class Kind { kAlive, kDead, kUnknown };
    Kind kind;
    std::string text;
};

class Look {
  public:
    explicit Look(const Selection& selection) : selection_(selection) {}

    // Nothing: all that was staged of the files is in them.
    Result<std::optional<Pending>> operator()() {
        std::optional<Pending> worst;
        for (const std::string& nls : selection_.nls) {
            auto area = recover::find_area(nls);
            if (!area) return area.status();
            if (area.value() == nullptr) continue;
            const auto names = area.value()->list();
            if (!names) return names.status();
            for (const std::string& name : names.value())
                if (const auto owner = log::owner_of_directory(name))
                    if (auto found = look_into(*area.value(), name, *owner); found && (!worst || found->kind < worst->kind)) worst = std::move(found);
        }
        return worst;
    }

  private:
    using Kind = Pending::Kind;

    std::optional<Pending> look_into(io::Directory& area, const std::string& name, const log::ProcessIdentity& owner) {
        const std::string path = fmt::format("{}/{}", area.name(), name);
        const auto unknown = [&](const Status& why) -> std::optional<Pending> {
            if (why.code() == Code::kNotFound && area.facts(name).status().code() == Code::kNotFound) return std::nullopt;   // it has ended
            return Pending{Kind::kUnknown, fmt::format("{}: {}", path, why.message())};
        };
        const auto directory = area.open_directory(name);
        if (!directory) return unknown(directory.status());
        const auto view = log::read_ledger(*directory.value());
        if (view ? !view.value().alive : !log::owner_is_alive(owner, path)) return look_into_dead(*directory.value(), path, owner, unknown);
        if (view) {
            bool listed = false;
            for (const log::FileCounters& file : view.value().files) {
                if (!named({file.device, file.inode})) continue;
                listed = true;
                if (file.pending > 0) return Pending{Kind::kAlive, fmt::format("{}: {} are not in the file yet", file.path, format_size(file.pending))};
            }
            if (listed || view.value().files_without_slot == 0) return std::nullopt;
        }
        // The counters do not have it; its log tells.
        const auto log = directory.value()->open_file("log", io::OpenMode::kRead);
        if (!log) return log.status().code() == Code::kNotFound && view ? std::nullopt : unknown(log.status());
        const auto targets = log::scan_targets(*log.value());
        if (!targets) return unknown(targets.status());
        for (const log::OpenPayload& target : targets.value())
            if (named({target.device, target.inode}))
                return Pending{Kind::kAlive, fmt::format("{}: process {}, which has too many files open for its table, has a log of it", target.path, owner.pid)};
        return view ? std::nullopt : unknown(view.status());
    }

    template <class Unknown>
    std::optional<Pending> look_into_dead(io::Directory& directory, const std::string& path, const log::ProcessIdentity& owner, const Unknown& unknown) {
        if (empty_.contains(path)) return std::nullopt;
        const auto died = [&](const std::string& file) {
            return Pending{Kind::kDead, fmt::format("{}: process {} died and left a log of it in {}: `forebay recover`", file, owner.pid, path)};
        };
        const auto names = directory.list();
        if (!names) return unknown(names.status());
        for (const std::string& name : names.value()) {
            if (!name.starts_with(log::kUndoPrefix)) continue;
            const auto journal = directory.open_file(name, io::OpenMode::kRead);
            if (!journal) return unknown(journal.status());
            const auto bytes = journal.value()->size();
            if (bytes && bytes.value() < log::kUndoFrontBytes) continue;   // none yet
            const auto header = log::read_undo_header(*journal.value());
            if (!header) return unknown(header.status());
            if (named({header.value().device, header.value().inode})) return died(header.value().path);
        }
        if (const auto log = directory.open_file("log", io::OpenMode::kRead)) {
            const auto logs = log::scan(*log.value(), log::Payloads::kLeft);
            if (!logs) return unknown(logs.status());
            for (const log::ScannedLog& each : logs.value()) {
                if (named({each.target.device, each.target.inode})) return died(each.target.path);
                if (each.target.path.empty() && !each.damage.empty()) return unknown(each.damage.front());   // it may be anybody's
            }
        } else if (log.status().code() != Code::kNotFound) {
            return unknown(log.status());
        }
        empty_.insert(path);
        return std::nullopt;
    }

    [[nodiscard]] bool named(const io::Identity& identity) const {
        return std::any_of(selection_.files.begin(), selection_.files.end(), [&](const recover::Wanted& wanted) { return wanted.identity == identity; });
    }

    const Selection& selection_;
    std::set<std::string> empty_;   // of dead processes, that hold nothing of the files
};

// Wakes when something happens to the files, or on the staging areas.
class Events {
  public:
    explicit Events(const Selection& selection) : descriptor_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
        if (descriptor_ < 0) return;   // then there is the interval only
        for (const recover::Wanted& file : selection.files) (void)::inotify_add_watch(descriptor_, file.path.c_str(), IN_MODIFY | IN_CLOSE_WRITE);
        for (const auto& area : selection.areas) (void)::inotify_add_watch(descriptor_, area->name().c_str(), IN_CREATE | IN_DELETE | IN_ONLYDIR);
    }
    ~Events() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    Events(const Events&) = delete;
    Events& operator=(const Events&) = delete;

    void wait(milliseconds at_most) const {
        pollfd waiting{descriptor_, POLLIN, 0};
        if (::poll(&waiting, 1, static_cast<int>(at_most.count())) <= 0) return;
        (void)::poll(nullptr, 0, static_cast<int>(std::min(kSettle, at_most).count()));
        std::array<char, 4096> told;
        while (::read(descriptor_, told.data(), told.size()) > 0) {
        }
    }

  private:
    int descriptor_;
};

// The file, and its name in its directory, are on the device.
Status make_durable(const recover::Wanted& file) {
    const auto sync = [](const std::string& path, int flags, const io::Identity* expected) -> Status {
        const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
        if (descriptor < 0) return Status::from_errno(errno, "open " + path);
        Status outcome;
        const auto identity = io::identify(descriptor, path);
        if (!identity) outcome = identity.status();
        else if (expected != nullptr && identity.value() != *expected) outcome = {Code::kNotFound, path + ": another file has taken its place meanwhile"};
        else if (::fsync(descriptor) != 0 && (expected != nullptr || errno != EINVAL)) outcome = Status::from_errno(errno, "sync " + path);
        ::close(descriptor);
        return outcome;
    };
    FOREBAY_TRY(sync(file.path, 0, &file.identity));
    return sync(std::filesystem::path(file.path).parent_path().string(), O_DIRECTORY, nullptr);
}

int run(const Request& request) {
    const auto selected = select(request.names, request.nls);
    if (!selected) return complain(selected.status().message());
    const Selection& selection = selected.value();
    if (!selection.missing.empty()) return complain(selection.missing.front() + ": there is no such file", kExitUsage);
    const auto begin = Clock::now();
    const auto deadline = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::max(0.0, request.timeout_s)));
    const Events events(selection);
    Look look(selection);
    auto clear = begin;   // when it was last clear what is to be waited for
    for (;;) {
        const auto pending = look();
        if (!pending) return complain(pending.status().message(), kExitUnknown);
        if (!pending.value()) break;
        const Pending& what = *pending.value();
        const auto now = Clock::now();
        if (what.kind == Pending::Kind::kDead) return complain(what.text);
        if (what.kind == Pending::Kind::kAlive) clear = now;
        const bool over = request.timeout_s >= 0 && now >= deadline;
        if (what.kind == Pending::Kind::kUnknown && (over || now - clear >= kUnclear))
            return complain("cannot tell whether anything is staged: " + what.text, kExitUnknown);
        if (over) return complain(what.text);
        auto at_most = kLookInterval;
        if (request.timeout_s >= 0) at_most = std::min(at_most, std::chrono::ceil<milliseconds>(deadline - now));
        events.wait(at_most);
    }
    if (request.no_sync) return kExitFine;
    for (const recover::Wanted& file : selection.files)
        if (const Status durable = make_durable(file); !durable) return complain(durable.message());
    return kExitFine;
}

}   // namespace

void add_wait(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("wait", "Wait until nothing of some files is staged any more, and they are on their device");
    auto request = std::make_shared<Request>();
    command->add_option("files", request->names, "Files")->required();
    command->add_option("--nls", request->nls, "The staging area to look in; default: the one in effect here");
    command->add_option("--timeout", request->timeout_s, "Give up after so many seconds")->check(CLI::NonNegativeNumber);
    command->add_flag("--no-sync", request->no_sync, "Do not sync the files at the end: they hold everything, but a loss of power may take it");
    command->footer(
        "\nOf this node only. A file counts from the moment that all that was staged of it is in it; what is written later is not waited for.\n"
        "\nExit status: 0 the files hold everything, synced; 1 a process died and left something, the time is over, or a sync failed;\n"
        "2 the command line is wrong; 3 nobody can tell, for the reason given.\n");
    command->callback([request, &exit_status] { exit_status = run(*request); });
}

}   // namespace forebay::cli
