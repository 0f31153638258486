#include "torture/server_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <memory>

#include "base/checksum.h"
#include "base/options.h"
#include "cli/exit_status.h"
#include "hdf5/driver/forwarding.h"
#include "io/lock_wait.h"
#include "io/made_file.h"
#include "io/open_existing.h"
#include "io/path.h"
#include "io/posix_file.h"
#include "stage/engine.h"
#include "torture/told.h"
#include "torture/workload.h"

namespace forebay::torture {

namespace {

constexpr std::uint64_t kReaderPauseNs = 100'000'000;
constexpr std::chrono::seconds kUnlocks{2};   // as in the driver

void pause_ns(std::uint64_t ns) {
    const timespec pause{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    (void)::ppoll(nullptr, 0, &pause, nullptr);
}

Result<LoadedOptions> options_of(const ClientOrder& order) {
    LoadedOptions loaded = load_options(fmt::format("nls={};registry={};server={};patience={};strict=on",
                                                    quote_connector_value(as_staging_device(order.nls)),
                                                    quote_connector_value(order.nls),
                                                    quote_connector_value(order.server), order.patience_s),
                                        [](const char*) -> const char* { return nullptr; });
    if (!loaded.problems.empty()) return loaded.problems.front();
    return loaded;
}

struct Opened {
    std::unique_ptr<stage::Engine> engine;
    hdf5::OpenFile open;
    std::shared_ptr<stage::StagedFile> file;                 // for reads
    std::shared_ptr<stage::ForwardedWriting> writing = {};   // null for a reader
    bool through_server = false;
};

// A client, or the server after it, may hold the lock. Then the driver waits for the written bytes.
Status lock(Opened& opened, int operation) {
    const hdf5::OpenFile& open = opened.open;
    const auto try_lock = [&](int) { return open.descriptor->lock(operation | LOCK_NB); };
    if (try_lock(0)) return Status::ok();
    const Status held = Status::from_errno(errno, "lock " + open.path);
    const Status written = hdf5::ask_for_writer(opened.engine->options().options, open);
    if (written.code() != Code::kUnsupported) return held;
    const auto use = open.descriptor->use();
    if (use && io::await_lock(use.value().number(), kUnlocks, try_lock)) return Status::ok();
    return held;
}

Status attach(Opened& opened, const hdf5::Opening& opening, std::function<Status()> prepare = {}) {
    stage::OpenTarget target{.file = io::make_posix_file(opened.open.descriptor, opened.open.path),
                             .writable = opened.open.writable,
                             .prepare = std::move(prepare)};
    FOREBAY_TRY(hdf5::forward(target, opened.engine->options(), opened.open, opening));
    opened.through_server = target.aside == ledger::AsideReason::kForwarded;
    if (target.forwarded != nullptr) {
        auto writing = opened.engine->attach_forwarded(std::move(target));
        if (!writing) return writing.status();
        opened.writing = std::move(writing).value();
        opened.file = opened.writing->reader();
        return Status::ok();
    }
    auto attached = opened.engine->attach(std::move(target));
    if (!attached) return attached.status();
    opened.file = std::move(attached.value().file);
    return Status::ok();
}

Result<std::unique_ptr<Opened>> begin(const ClientOrder& order, io::Access access) {
    auto loaded = options_of(order);
    if (!loaded) return loaded.status();
    auto existing = io::open_existing(order.file, access);
    if (!existing) return existing.status();
    auto opened = std::make_unique<Opened>();
    opened->engine = stage::Engine::create(std::move(loaded).value());
    opened->open.name = order.file;
    opened->open.path = io::complete_path(order.file);
    opened->open.descriptor = std::move(existing.value().descriptor);
    opened->open.identity = existing.value().identity;
    opened->open.writable = access == io::Access::kReadWrite;
    return opened;
}

// HDF5 empties a file before it locks it.
Status open_emptied(Opened& opened, const std::shared_ptr<std::atomic<bool>>& holds_lock) {
    const hdf5::OpenFile& open = opened.open;
    FOREBAY_TRY(opened.engine->leftovers().may_forget(open.identity, open.path));
    const auto prepare = [&]() -> Status {
        FOREBAY_TRY(io::empty(*open.descriptor, open.path));
        return opened.engine->leftovers().forget_before(open.identity, open.path, true);
    };
    FOREBAY_TRY(attach(opened, {.emptied = true, .holds_lock = holds_lock}, prepare));
    FOREBAY_TRY(lock(opened, LOCK_EX));
    *holds_lock = true;
    return opened.engine->leftovers().forget_before(open.identity, open.path, true);
}

Result<std::unique_ptr<Opened>> open_to_write(const ClientOrder& order) {
    auto begun = begin(order, io::Access::kReadWrite);
    if (!begun) return begun;
    Opened& opened = *begun.value();
    const auto holds_lock = std::make_shared<std::atomic<bool>>(false);
    if (order.session.empties) {
        FOREBAY_TRY(open_emptied(opened, holds_lock));
    } else {
        FOREBAY_TRY(lock(opened, LOCK_EX));
        *holds_lock = true;
        const auto recovered = opened.engine->leftovers().recover_opened({opened.open.identity, opened.open.path, true,
                                                                          true, opened.open.descriptor});
        if (!recovered) return recovered.status();
        FOREBAY_TRY(attach(opened, {.locked = hdf5::Locked::kForWriting, .holds_lock = holds_lock}));
    }
    if (opened.writing == nullptr) return Status(Code::kInternal, order.file + " is not written through the server");
    return begun;
}

// A reader can open the last flush that the server shows, even if a writer has locked the file.
Result<std::unique_ptr<Opened>> open_to_read(const ClientOrder& order) {
    auto begun = begin(order, io::Access::kRead);
    if (!begun) return begun;
    Opened& opened = *begun.value();
    const Status locked = lock(opened, LOCK_SH);
    if (locked) {
        const auto recovered = opened.engine->leftovers().recover_opened(
            {opened.open.identity, opened.open.path, false, true, {}, [&] { (void)lock(opened, LOCK_UN); }});
        if (!recovered) return recovered.status();
    }
    FOREBAY_TRY(attach(opened, {.locked = locked ? hdf5::Locked::kForReading : hdf5::Locked::kNot}));
    if (!locked && !opened.through_server) return locked;
    return begun;
}

Status tell_content(stage::StagedFile& file) {
    std::vector<std::byte> bytes(file.size());
    FOREBAY_TRY(file.read(0, bytes));
    (void)tell(fmt::format("s{};", checksum(bytes)));
    return Status::ok();
}

Status write(const ClientOrder& order) {
    auto opening = open_to_write(order);
    if (!opening) {
        (void)tell("r");
        return opening.status();
    }
    Opened& opened = *opening.value();
    Status failure = tell_content(*opened.file);
    Workload workload(order.session.seed);
    Dice dice(order.session.seed);
    std::vector<std::byte> buffer;
    for (std::uint64_t done = 0; failure && done < order.session.operations; ++done) {
        if (order.pause_us > 0) pause_ns(dice.below(order.pause_us) * 1000);
        const Operation operation = workload.next();
        if (order.spoil == Spoil::kLoss && operation.kind == Operation::Kind::kWrite && done % 3 == 2) continue;
        failure = perform(*opened.writing, operation, buffer);
        if (operation.kind == Operation::Kind::kCommit) (void)tell(failure ? "c" : "x");
        else if (!failure) (void)tell(fmt::format("w{};", done));
    }
    const Status closed = opened.engine->detach(opened.file, true);
    (void)tell(failure && closed ? "o" : "e");
    return failure ? closed : failure;
}

Status read(const ClientOrder& order) {
    auto opened = open_to_read(order);
    if (!opened) {
        (void)tell("r");
        return opened.status();
    }
    FOREBAY_TRY(tell_content(*opened.value()->file));
    pause_ns(kReaderPauseNs);
    return tell_content(*opened.value()->file);   // must be the same flush
}

Status run_under(const std::vector<std::string>& command) {
    FOREBAY_TRY(end_with_parent());   // exec keeps the setting
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execv(words.front(), words.data());
    return Status::from_errno(errno, "execute " + command.front());
}

void add_client(CLI::App& app, int& exit_status, const char* name, Status (*live)(const ClientOrder&)) {
    CLI::App* command = app.add_subcommand(name, "Use a file through a staging server; torture calls this");
    command->group("");
    auto order = std::make_shared<ClientOrder>();
    command->add_option("--server", order->server)->required();
    command->add_option("--file", order->file)->required();
    command->add_option("--nls", order->nls)->required();
    command->add_option("--patience", order->patience_s)->required();
    command->add_option("--seed", order->session.seed);
    command->add_option("--operations", order->session.operations);
    command->add_option("--pause-us", order->pause_us);
    command->add_option("--spoil", order->spoil);
    command->add_flag("--empty", order->session.empties);
    command->callback([order, live, &exit_status] {
        ::signal(SIGPIPE, SIG_IGN);
        Status ended = end_with_parent();
        if (ended) ended = live(*order);
        if (!ended) fmt::print(stderr, "{}\n", ended.message());
        exit_status = ended ? cli::kExitFine : cli::kExitProblem;
    });
}

}   // namespace

Status end_with_parent() {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0) return Status::ok();
    return Status::from_errno(errno, "ask for a signal at the parent's death");
}

std::vector<std::string> arguments_of(const ClientOrder& order) {
    std::vector<std::string> arguments{"--server",     order.server,
                                       "--file",       order.file,
                                       "--nls",        order.nls,
                                       "--patience",   std::to_string(order.patience_s),
                                       "--seed",       std::to_string(order.session.seed),
                                       "--operations", std::to_string(order.session.operations),
                                       "--pause-us",   std::to_string(order.pause_us),
                                       "--spoil",      std::to_string(static_cast<int>(order.spoil))};
    if (order.session.empties) arguments.push_back("--empty");
    return arguments;
}

void add_server_clients(CLI::App& app, int& exit_status) {
    add_client(app, exit_status, kClientCommand, write);
    add_client(app, exit_status, kReaderCommand, read);
    CLI::App* under = app.add_subcommand(kUnderCommand, "Run a program that ends with its parent; torture calls this");
    under->group("")->prefix_command();
    under->callback([under, &exit_status] {
        const Status failed = run_under(under->remaining());
        fmt::print(stderr, "{}\n", failed.message());
        exit_status = cli::kExitProblem;
    });
}

}   // namespace forebay::torture
