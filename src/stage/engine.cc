#include "stage/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "area/staging_area.h"
#include "base/attempt.h"
#include "cache/small_copy.h"
#include "io/path.h"

namespace forebay::stage {

namespace {

// At the end drain threads get so long to come back, however long nothing has come of them.
constexpr std::chrono::milliseconds kLastMoment{200};

}   // namespace

// The parts, in the order in which they are made. Those that have threads are the last ones: they end first.
struct Engine::State final : ForkParty {
    State(LoadedOptions options, OpenArea open_area, bool registers, std::shared_ptr<WaitClock> clock)
        : loaded(std::move(options)),
          area(loaded, std::move(open_area), registers, run),
          files(context, area, read_cache, statistics),
          statistics(context, run, area, read_cache, async_requests),
          context({loaded.options, scheduler, area, files, closes, statistics}, std::move(clock)),
          leftovers(context, files, statistics),
          closes(context, area, files, leftovers, async_requests, statistics),
          read_cache(loaded.options, [this] { return area.open_for_cache(); }),
          scheduler(loaded.options.drain_threads),
          async_requests(loaded.options.drain_threads) {
        join_forks();
    }
    ~State() override {
        leave_forks();
        leave_area();
        files.clear();   // before the pool that their logs live in
    }

    using ForkParty::leave_forks;
    void lock_for_fork() NO_THREAD_SAFETY_ANALYSIS override {
        closes.lock_for_fork();
        files.lock_for_fork();
    }
    void unlock_after_fork() NO_THREAD_SAFETY_ANALYSIS override {
        files.unlock_after_fork();
        closes.unlock_after_fork();
    }

    // Before the destruction: no drain thread is at work. False: one hangs in a call, so all stays to the end.
    [[nodiscard]] bool come_to_rest();
    [[nodiscard]] bool stop_threads(std::chrono::steady_clock::time_point until,
                                    std::chrono::steady_clock::time_point drain_until);
    void tell_statistics();
    void leave_area() noexcept;
    void forget_threads() noexcept;

    const LoadedOptions loaded;
    const area::RunRecord run = area::RunRecord::of_environment();
    ProcessArea area;
    FileTable files;
    Statistics statistics;
    FileContext context;
    Leftovers leftovers;
    DeferredCloses closes;
    cache::ReadCache read_cache;
    drain::Scheduler scheduler;
    AsyncRequests async_requests;
};

Result<std::string> Engine::recover_before_open(const std::string& name, bool writable) {
    const std::string path = io::usable_path(name);
    const auto identity = io::identify(path);
    if (!identity) return std::string();
    FOREBAY_TRY(state_->closes.await(identity.value()));
    auto recovered = state_->leftovers.recover_opened({identity.value(), path, writable});
    // A program that only reads is told, and goes on.
    if (!recovered && !writable && recovered.status().retryable()) return recovered.status().message();
    return recovered;
}

// Before `file` is attached. Returns its identity once closes of it by this process have ended.
Result<io::Identity> Engine::admit(io::File& file, const OpenTarget& target) {
    const std::string& path = file.name();
    if (inherited())
        return Status(Code::kUnsupported, fmt::format("open {}: HDF5 was in use before this process was forked", path));
    if (state_->context.ended()) return Status(Code::kUnavailable, fmt::format("open {}: the process ends", path));
    const auto identified = file.identity();
    if (!identified) return identified.status();
    const io::Identity identity = target.known_as.value_or(identified.value());
    using Before = DeferredCloses::Before;
    state_->closes.await_own(identity, target.prepare ? Before::kDrop : Before::kUse);
    return identity;
}

Result<Attached> Engine::attach(OpenTarget target) {
    const auto identity = admit(*target.file, target);
    return identity ? state_->files.attach(std::move(target), identity.value()) : identity.status();
}

Result<std::shared_ptr<ForwardedWriting>> Engine::attach_forwarded(OpenTarget target) {
    const auto identity = admit(*target.forwarded, target);
    if (!identity) return identity.status();
    return state_->files.attach_forwarded(std::move(target), identity.value());
}

// A reader that does not open its file has no lock of it, either.
std::shared_ptr<cache::LeasedFile> Engine::leased(const std::string& name) noexcept {
    std::shared_ptr<cache::LeasedFile> found;
    State& state = *state_;
    if (!state.read_cache.has_leases() || options().options.forwards() || inherited() || state.context.ended())
        return found;
    const Status looked = attempt([&] {
        found = state.read_cache.leased(io::complete_path(name));
        if (found == nullptr) return;
        const io::Identity& identity = found->lease.version.identity;
        const auto own = state.files.find(identity);
        if ((own != nullptr && !state.files.only_read(*own)) || state.closes.may_be_under_way(identity) ||
            state.leftovers.may_be_staged(identity, found->path))
            found.reset();
    });
    return looked ? found : nullptr;
}

void Engine::removes(const std::string& name) noexcept {
    if (state_->read_cache.has_leases()) (void)attempt([&] { state_->read_cache.drop_lease(io::complete_path(name)); });
}

Status Engine::detach(const std::shared_ptr<StagedFile>& file, bool writable) noexcept {
    return detach(file, writable, {}).outcome;
}

// Draining may take long; other files go on meanwhile. The handle still counts, so the file stays in the table.
Engine::Detached Engine::detach(const std::shared_ptr<StagedFile>& file, bool writable,
                                AfterClose afterwards) noexcept {
    if (inherited()) return {};
    if (!state_->context.ended()) state_->async_requests.await(file.get());
    DeferredCloses& closes = state_->closes;
    const FileTable::Handle handle = state_->files.begin_close(*file, writable);
    if (handle == FileTable::Handle::kProcessEnds)
        return {writable ? state_->files.await_process_end(*file) : Status::ok()};
    const bool last_writer = handle == FileTable::Handle::kLastWriter;
    if (last_writer && afterwards && attempt([&] { return closes.defer(file, std::move(afterwards)); }))
        return {closes.take_failure(), true};
    Status outcome;
    if (last_writer) outcome = attempt([&] { return state_->files.writing(*file)->finish(); });
    (void)state_->files.end_handle(file, last_writer);
    if (last_writer && outcome) outcome = closes.take_failure();
    return {std::move(outcome), false};
}

std::vector<std::string> Engine::end_of_process(const LeaveTo& leave_to) {
    std::vector<std::string> left;
    State& state = *state_;
    if (inherited() || !state.context.end()) return left;
    for (const FileTable::Written& open : state.files.written()) {
        const Status finished = attempt([&] { return open.writing->finish_unclosed(); });
        if (!finished)
            left.push_back(
                fmt::format("{}: the program ended without closing it, and some staged bytes were not written: {}; run "
                            "`forebay recover`",
                            open.file->path(), finished.message()));
        state.statistics.tell_closed(open.file->counters());
    }
    state.files.await_threads_closing();
    if (leave_to && state.closes.leave(leave_to)) {
        const auto now = std::chrono::steady_clock::now();
        (void)state.read_cache.stop(now);
        (void)state.scheduler.stop(now);
        state.leave_forks();
        (void)attempt([&] { state.tell_statistics(); });
        return left;
    }
    if (const Status failed = state.closes.end_all(); !failed) left.push_back(failed.message());
    state.closes.stop();
    if (state.come_to_rest()) state.leave_area();
    return left;
}

bool Engine::State::stop_threads(std::chrono::steady_clock::time_point until,
                                 std::chrono::steady_clock::time_point drain_until) {
    const bool requests_rest = async_requests.stop(until);
    const bool cache_rests = read_cache.stop(until);
    return requests_rest && cache_rests && scheduler.stop(drain_until);
}

bool Engine::State::come_to_rest() {
    const std::uint64_t patience_ns = drain::patience_ns(loaded.options);
    if (patience_ns == 0) return true;   // the destructor waits
    // Each close has waited for so long already. A thread that hangs now belongs to a file that was given up.
    const auto all = files.all();
    const bool wanted = std::any_of(all.begin(), all.end(), [](const auto& file) { return file->staged(); });
    const auto last_moment = std::chrono::steady_clock::now() + kLastMoment;
    drain::Progress& progress = context.progress();
    if (stop_threads(last_moment,
                     wanted ? std::max(last_moment, progress.clock().wake_at(progress.last_ns() + patience_ns))
                            : last_moment))
        return true;
    files.note_all_left();
    leave_forks();
    tell_statistics();
    return false;
}

void Engine::await_rest() noexcept {
    if (inherited() || state_->context.ended()) return;
    (void)state_->closes.await_all();
    state_->closes.stop();
    constexpr auto kHoweverLong = std::chrono::steady_clock::time_point::max();
    (void)state_->stop_threads(kHoweverLong, kHoweverLong);
}

void Engine::State::tell_statistics() { statistics.tell(files.read_through_cache()); }

// Statistics, and the process's directory unless recovery needs it.
void Engine::State::leave_area() noexcept {
    // Without memory a process loses its line of statistics, or leaves a directory in which nothing is staged.
    (void)attempt([&] { tell_statistics(); });
    (void)attempt([&] {
        const auto open = files.all();
        if (std::ranges::none_of(open, [](const auto& file) { return file->lifecycle().leaves_log(); })) area.leave();
    });
}

void Engine::State::forget_threads() noexcept {
    async_requests.forget_threads();
    scheduler.forget_threads();
    read_cache.forget_threads();
    if (log::SegmentPool* const pool = area.pool()) pool->forget_thread();
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}

Engine::~Engine() {
    if (state_->context.ended()) {
        (void)state_.release();   // its threads have come to rest or never will; the process ends
        return;
    }
    if (!inherited()) {
        (void)state_->closes.await_all();
        state_->closes.stop();
        if (!state_->come_to_rest()) (void)state_.release();
        return;
    }
    // A child ends what its parent began by leaving it alone.
    state_->forget_threads();
    (void)state_.release();
}

std::unique_ptr<Engine> Engine::create(LoadedOptions options, std::shared_ptr<WaitClock> clock) {
    area::fit_to_staging_area(options);
    auto shared = std::make_shared<const LoadedOptions>(options);
    OpenArea open_area = [shared]() -> Result<std::unique_ptr<io::Directory>> {
        auto area = area::open_staging_area(*shared);
        if (!area) return area.status();
        return std::move(std::move(area).value().directory);
    };
    return std::unique_ptr<Engine>(new Engine(std::make_unique<State>(std::move(options), std::move(open_area), true,
                                                                      std::move(clock))));
}

std::unique_ptr<Engine> Engine::create(LoadedOptions options, OpenArea open_area, std::shared_ptr<WaitClock> clock) {
    return std::unique_ptr<Engine>(new Engine(std::make_unique<State>(std::move(options), std::move(open_area), false,
                                                                      std::move(clock))));
}

const LoadedOptions& Engine::options() const noexcept { return state_->loaded; }
bool Engine::inherited() const noexcept { return state_->context.inherited(); }
void Engine::warn_by(Statistics::Warn warn) { state_->statistics.warn_by(std::move(warn)); }

FileTable& Engine::files() noexcept { return state_->files; }
ProcessArea& Engine::area() noexcept { return state_->area; }
Leftovers& Engine::leftovers() noexcept { return state_->leftovers; }
DeferredCloses& Engine::closes() noexcept { return state_->closes; }
AsyncRequests& Engine::async_requests() noexcept { return state_->async_requests; }
cache::ReadCache& Engine::read_cache() noexcept { return state_->read_cache; }

void Engine::count_aside(ledger::AsideReason reason) {
    const LockGuard opening(state_->area.opening());
    state_->statistics.tell_began();
    state_->statistics.count_aside(reason);
}

void Engine::count_never_staged(ledger::AsideReason reason) {
    count_aside(reason);
    state_->statistics.count_never_staged();
}

std::string Engine::statistics() { return state_->statistics.line(state_->files.read_through_cache()); }

}   // namespace forebay::stage
