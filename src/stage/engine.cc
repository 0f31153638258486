#include "stage/engine.h"

#include <fmt/format.h>

#include <chrono>

#include "area/process.h"
#include "area/staging_area.h"
#include "base/attempt.h"
#include "io/append.h"
#include "io/path.h"
#include "stage/engine_state.h"

namespace forebay::stage {

namespace {

// At the end drain threads get so long to come back, however long nothing has come of them.
constexpr std::chrono::milliseconds kLastMoment{200};
constexpr std::size_t kReadAroundMax = 65536;

}   // namespace

// ---- attaching and detaching -----------------------------------------------------------------------

Result<Engine::Attached> Engine::State::attach(OpenTarget target) {
    const std::string& path = target.file->name();
    if (inherited())
        return Status(Code::kUnsupported, fmt::format("open {}: HDF5 was in use before this process was forked", path));
    if (ended()) return Status(Code::kUnavailable, fmt::format("open {}: the process ends", path));
    const auto identified = target.file->identity();
    if (!identified) return identified.status();
    const io::Identity identity = target.known_as.value_or(identified.value());
    const bool writable = target.writable;
    std::optional<ledger::AsideReason> aside = target.aside;
    await_own_closed(identity, target.prepare ? Before::kDrop : Before::kUse);
    const std::lock_guard opening(opening_);
    tell_began_opening();
    Attached attached;
    const ledger::AsideReason unstaged = aside.value_or(ledger::AsideReason::kReadOnly);
    if (writable && !aside) {
        auto decision = staging_opening(attached.warning);
        if (!decision) return decision.status();
        aside = decision.value();
        if (!aside && !target.prepare && were_addresses_given(identity)) aside = ledger::AsideReason::kAddressGiven;
    }
    // Nobody else attaches meanwhile. The table is not locked: the file's server may not answer.
    std::shared_ptr<io::File> source;
    std::shared_ptr<cache::CachedFile> cached;
    if (!writable) {
        source = std::move(target.file);
        if (!aside && find(identity) == nullptr)
            cached = read_cache_.open(source, attached.warning, !target.with_peers, target.leased.get());
        if (cached != nullptr && !target.with_peers && target.leased == nullptr) read_cache_.prefetch_opened(*cached);
    }
    // The handle is counted first, so that nobody forgets the file meanwhile; map nodes do not move.
    Entry* entry;
    bool first, first_writer;
    {
        std::unique_lock lock(mutex_);
        closed_.wait(lock, [&] {
            const auto found = files_.find(identity);
            return found == files_.end() || !found->second.closing;
        });
        auto found = files_.find(identity);
        first = found == files_.end();
        if (first) {
            StagedFile::Setup setup{identity, path, nullptr, next_log_++};
            Entry fresh;
            if (!writable) setup.target = cached != nullptr ? cached : source;
            fresh.cached = std::move(cached);
            fresh.file = std::make_shared<StagedFile>(*this, std::move(setup));
            found = files_.emplace(identity, std::move(fresh)).first;
        }
        entry = &found->second;
        first_writer = writable && entry->writers == 0;
        if (target.prepare && !first_writer) {
            if (first) forget_locked(found);
            return Status(Code::kUnsupported, fmt::format("empty {}: it is open for writing already", path), EEXIST);
        }
        ++entry->handles;
        if (writable) ++entry->writers;
    }
    // Without memory the handle must not go on counting.
    const Status outcome = attempt([&] {
        if (first_writer) return start_writing(*entry, std::move(target.file), aside, target.prepare);
        if (!first && entry->cached != nullptr) read_cache_.opened_again(*entry->cached);
        return writable ? Status::ok() : entry->file->refresh();
    });
    if (!outcome) {
        const std::lock_guard lock(mutex_);
        if (writable) --entry->writers;
        if (--entry->handles == 0 && !entry->file->failed()) forget_locked(files_.find(identity));
        return outcome;
    }
    if (first) {
        ledger_.header().files_opened.fetch_add(1, std::memory_order_relaxed);
        tally_.tally().files_opened.fetch_add(1, std::memory_order_relaxed);
        // A file that is read through the cache has not stepped aside.
        if (!writable && entry->cached == nullptr) count_left_alone(unstaged);
    }
    attached.file = entry->file;
    attached.cached = entry->cached;
    return attached;
}

Status Engine::State::start_writing(Entry& entry, std::unique_ptr<io::File> target,
                                    std::optional<ledger::AsideReason> aside, const std::function<Status()>& prepare) {
    const io::FileTraits traits = target->traits();
    const io::Identity& identity = entry.file->identity();
    entry.being_written = read_cache_.begin_writing(*target);
    // A file that readers kept open between two writers keeps its slot.
    if (entry.slot == nullptr) entry.slot = ledger_.take_slot(entry.file->path(), identity.device, identity.inode);
    if (entry.slot == nullptr) {
        entry.own_slot = std::make_unique<ledger::LedgerSlot>();
        entry.slot = entry.own_slot.get();
    }
    // That of a file that failed goes on telling what is left in the log: the next call refuses.
    if (!entry.file->failed()) {
        ledger::open_slot(*entry.slot, entry.file->path(), identity.device, identity.inode);
        ledger::set_use(*entry.slot, ledger::FileUse::kOpen);
    }
    FOREBAY_TRY(entry.file->open_for_writing(std::move(target), entry.slot, aside, traits, prepare));
    if (const auto cached = std::exchange(entry.cached, nullptr)) read_cache_.note_closed(*cached);
    tally_.tally().files_written.fetch_add(1, std::memory_order_relaxed);
    if (aside) {
        count_left_alone(*aside);
        return Status::ok();
    }
    ledger_.header().files_staged.fetch_add(1, std::memory_order_relaxed);
    tally_.tally().files_staged.fetch_add(1, std::memory_order_relaxed);
    return Status::ok();
}

Engine::Detached Engine::State::detach(const std::shared_ptr<StagedFile>& file, bool writable,
                                       AfterClose afterwards) noexcept {
    if (inherited()) return {};
    if (ended()) return {writable ? await_end_of_process(*file) : Status::ok()};
    async_requests_.await(file.get());
    bool last_writer = false;
    {
        std::unique_lock lock(mutex_);
        if (ended()) {
            lock.unlock();
            return {writable ? await_end_of_process(*file) : Status::ok()};
        }
        Entry& entry = files_.at(file->identity());
        last_writer = writable && --entry.writers == 0;
        entry.closing = entry.closing || last_writer;
        if (last_writer) entry.closed_by = std::this_thread::get_id();
    }
    // Draining may take long; other files go on meanwhile. The handle still counts, so the entry stays.
    if (last_writer && afterwards && attempt([&] { return defer(file, std::move(afterwards)); }))
        return {take_deferred_failure(), true};   // `closed_by` went when it was handed over
    Status outcome;
    if (last_writer) outcome = attempt([&] { return file->finish(); });
    (void)end_handle(file, last_writer);
    if (last_writer && outcome) outcome = take_deferred_failure();
    return {std::move(outcome), false};
}

// The file is finished, if that was its last writer. True: nobody uses it any more.
bool Engine::State::end_handle(const std::shared_ptr<StagedFile>& file, bool last_writer) noexcept {
    std::optional<ledger::FileCounters> closed;
    std::shared_ptr<cache::CachedFile> cached;
    bool gone = false;
    {
        const std::lock_guard lock(mutex_);
        const auto found = files_.find(file->identity());
        Entry& entry = found->second;
        if (last_writer) {
            // Without memory there is no line of statistics.
            (void)attempt([&] { closed = file->counters(); });
            entry.closing = false;
            entry.closed_by = {};
            entry.being_written.reset();
        }
        // A file whose newest bytes are in the log only stays known.
        const bool left = file->failed() || file->leaves_log();
        // Another program's content is not written over: nothing of ours can be in flight.
        if (left && !file->left_to_others() && entry.writers == 0 && entry.slot != nullptr)
            ledger::set_use(*entry.slot, ledger::FileUse::kLeft);
        if (--entry.handles == 0 && !left) {
            cached = std::move(entry.cached);
            forget_locked(found);
            gone = true;
        }
    }
    if (cached != nullptr) {
        cached->close();
        read_cache_.note_closed(*cached);
    }
    closed_.notify_all();
    if (closed) (void)attempt([&] { report_closed(*closed); });
    return gone;
}

void Engine::State::addresses_given(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    if (read_around_.size() < kReadAroundMax) read_around_.insert(identity);
    else any_read_around_ = any_read_around_ || !read_around_.contains(identity);
}

bool Engine::State::were_addresses_given(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    return any_read_around_ || read_around_.contains(identity);
}

void Engine::State::forget_locked(std::map<io::Identity, Entry>::iterator found) {
    const Entry& entry = found->second;
    if (entry.slot != nullptr && entry.slot != entry.own_slot.get()) ledger_.give_back(entry.slot);
    files_.erase(found);
}

std::shared_ptr<StagedFile> Engine::State::find(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(identity);
    return found == files_.end() ? nullptr : found->second.file;
}

std::shared_ptr<cache::CachedFile> Engine::State::cached(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(identity);
    return found == files_.end() ? nullptr : found->second.cached;
}

void Engine::State::compare_cached() noexcept {
    if (loaded_.options.read_cache == ReadCacheMode::kOff || inherited()) return;
    (void)attempt([&] {
        for (const auto& file : files_read()) (void)attempt([&] { file->look_again(); });
    });
}

bool Engine::State::only_read(const StagedFile& file) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(file.identity());
    return found != files_.end() && found->second.writers == 0 && !found->second.closing && !file.failed() &&
           !file.leaves_log() && !file.staged();
}

std::vector<std::string> Engine::State::end_of_process(const LeaveTo& leave_to) {
    std::vector<std::string> left;
    if (inherited() || ended_.exchange(true)) return left;
    for (const auto& file : files_written()) {
        const Status finished = attempt([&] { return file->finish_unclosed(); });
        if (!finished)
            left.push_back(fmt::format("{}: the program ended without closing it, and not all that was "
                                       "staged of it could be written: {}; `forebay recover` does that",
                                       file->path(), finished.message()));
        report_closed(file->counters());
    }
    end_closes_of_threads();
    if (leave_to && leave_closes(leave_to)) return left;
    if (const Status failed = end_all_closes(); !failed) left.push_back(failed.message());
    stop_closing();
    const bool at_rest = come_to_rest();
    if (at_rest) leave_area();
    return left;
}

// Waits for the closes of other threads. A handler of a signal may have called exit in the midst of this one's close.
void Engine::State::end_closes_of_threads() noexcept {
    const auto self = std::this_thread::get_id();
    std::unique_lock lock(mutex_);
    closed_.wait(lock, [&] {
        return std::none_of(files_.begin(), files_.end(), [&](const auto& item) {
            return item.second.closed_by != std::thread::id() && item.second.closed_by != self;
        });
    });
    files_ended_ = true;
    lock.unlock();
    closed_.notify_all();
}

// A close that comes while the process ends: the end brings the file home.
Status Engine::State::await_end_of_process(const StagedFile& file) noexcept {
    {
        std::unique_lock lock(mutex_);
        closed_.wait(lock, [&] { return files_ended_; });
    }
    if (!file.failed() && !file.leaves_log()) return Status::ok();
    return attempt([&] {
        return Status(Code::kUnavailable, fmt::format("close {}: the process ends, and not all that was staged of it "
                                                      "could be written; `forebay recover` does that",
                                                      file.path()));
    });
}

bool Engine::State::come_to_rest() {
    const std::uint64_t patience_ns = drain::patience_ns(loaded_.options);
    if (patience_ns == 0) return true;   // the destructor waits
    // Whoever closed a file has waited for so long already. What hangs then is of files that were given up, however
    // well others do.
    const auto now = std::chrono::steady_clock::now();
    const auto files = open_files();
    const bool wanted = std::any_of(files.begin(), files.end(), [](const auto& file) { return file->staged(); });
    const auto last_moment = now + kLastMoment;
    const bool requests_rest = async_requests_.stop(last_moment);
    const bool cache_rests = read_cache_.stop(last_moment);
    if (requests_rest && cache_rests &&
        scheduler_.stop(wanted ? std::max(last_moment, progress_.clock().wake_at(progress_.last_ns() + patience_ns))
                               : last_moment))
        return true;
    // A thread may write to any of them as long as its call lasts.
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [identity, entry] : files_)
            if (entry.slot != nullptr) ledger::set_use(*entry.slot, ledger::FileUse::kLeft);
    }
    leave_forks();
    tell_statistics();
    return false;
}

void Engine::State::await_rest() noexcept {
    if (inherited() || ended()) return;
    (void)await_all_closed();
    stop_closing();
    constexpr auto kHoweverLong = std::chrono::steady_clock::time_point::max();
    (void)async_requests_.stop(kHoweverLong);
    (void)read_cache_.stop(kHoweverLong);
    (void)scheduler_.stop(kHoweverLong);
}

// ---- what files ask for ----------------------------------------------------------------------------

std::vector<std::shared_ptr<StagedFile>> Engine::State::open_files() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<StagedFile>> files;
    files.reserve(files_.size());
    for (const auto& [identity, entry] : files_) files.push_back(entry.file);
    return files;
}

std::vector<std::shared_ptr<StagedFile>> Engine::State::files_written() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<StagedFile>> files;
    for (const auto& [identity, entry] : files_)
        if (entry.writers > 0) files.push_back(entry.file);
    return files;
}

bool Engine::State::press_files(const StagedFile& asking) {
    bool under_way = false;
    for (const auto& file : open_files())
        if (file.get() != &asking) under_way = file->press() || under_way;
    const std::lock_guard lock(mutex_);
    return under_way || !closes_under_way_.empty();   // the end of a close gives segments back, too
}

bool Engine::State::promote_held() {
    bool any = false;
    for (const auto& file : open_files()) any = file->promote_held() > 0 || any;
    return any;
}

void Engine::State::wrote(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) {
    ledger_.header().wrote_ns.store(realtime_ns(), std::memory_order_relaxed);
    trace_.wrote(begin_ns, end_ns, range.begin, range.size());
    deadline_.wrote(begin_ns, end_ns, range.size());
    look_at_deadline();
}

void Engine::State::report_closed(const ledger::FileCounters& counters) {
    tell_line(fmt::format(R"({{"file":{}}})", ledger::to_json(counters)));
    tally_.tally().files_written.fetch_sub(1, std::memory_order_relaxed);
}

// ---- Engine ----------------------------------------------------------------------------------------

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}

Engine::~Engine() {
    if (state_->ended()) {
        (void)state_.release();   // its threads have come to rest or never will; the process ends
        return;
    }
    if (!state_->inherited()) {
        (void)state_->await_all_closed();
        state_->stop_closing();
        if (!state_->come_to_rest()) (void)state_.release();
        return;
    }
    // A child ends what its parent began by leaving it alone.
    state_->forget_threads();
    (void)state_.release();
}

bool Engine::inherited() const noexcept { return state_->inherited(); }

std::vector<std::string> Engine::end_of_process(const LeaveTo& leave_to) { return state_->end_of_process(leave_to); }

void Engine::await_rest() noexcept { state_->await_rest(); }

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

Result<Engine::Attached> Engine::attach(OpenTarget target) { return state_->attach(std::move(target)); }
std::shared_ptr<cache::LeasedFile> Engine::leased(const std::string& name) noexcept { return state_->leased(name); }
void Engine::removes(const std::string& name) noexcept { state_->removes(name); }
void Engine::prefetch_opened(cache::CachedFile& file) noexcept { state_->prefetch_opened(file); }

Status Engine::admit() { return state_->admit(); }

Status Engine::detach(const std::shared_ptr<StagedFile>& file, bool writable) noexcept {
    return state_->detach(file, writable, {}).outcome;
}

Engine::Detached Engine::detach(const std::shared_ptr<StagedFile>& file, bool writable,
                                AfterClose afterwards) noexcept {
    return state_->detach(file, writable, std::move(afterwards));
}

Status Engine::await_closed(const io::Identity& identity, Before before) {
    return state_->await_closed(identity, before);
}

Status Engine::await_all_closed() noexcept { return state_->await_all_closed(); }

std::optional<WaitedClose> Engine::why_close_waits(const StagedFile& file) { return state_->why_close_waits(file); }

void Engine::count_waited_close(WaitedClose why) noexcept { state_->count_waited_close(why); }

void Engine::finish_later(const std::shared_ptr<StagedFile>& file, SharedClose close) noexcept {
    state_->finish_later(file, std::move(close));
}

Status Engine::take_deferred_failure() noexcept { return state_->take_deferred_failure(); }

std::shared_ptr<StagedFile> Engine::find(std::uint64_t device, std::uint64_t inode) {
    return state_->find({device, inode});
}

std::shared_ptr<cache::CachedFile> Engine::cached(const io::Identity& identity) { return state_->cached(identity); }

void Engine::opened_again(const io::Identity& identity) noexcept { state_->opened_again(identity); }

AsyncRequests& Engine::async_requests() noexcept { return state_->async_requests(); }

void Engine::compare_cached() noexcept { state_->compare_cached(); }

bool Engine::only_read(const StagedFile& file) const noexcept { return state_->only_read(file); }

std::string Engine::statistics() { return state_->statistics(); }

std::string Engine::node_name() const {
    const std::string& named = state_->loaded().options.node;
    if (!named.empty()) return named;
    const auto process = area::identify_this_process();
    return process ? area::to_text(process.value().boot_id) : std::string("unknown");
}

Result<std::string> Engine::recover_before_open(const std::string& path, bool writable) {
    return state_->recover_before_open(io::usable_path(path), writable);
}

Result<std::string> Engine::recover_opened(const OpenedFile& file) {
    OpenedFile named = file;
    named.path = io::usable_path(file.path);
    return state_->recover_opened(named);
}

Status Engine::admit_emptying(const std::string& path) { return state_->admit_emptying(io::usable_path(path)); }

Status Engine::may_forget(const io::Identity& identity, const std::string& path) {
    if (const auto known = state_->find(identity); known != nullptr && known->failed())
        return {Code::kUnavailable,
                fmt::format("open {}: closed with bytes that could not be written; they are in the staging log", path)};
    return state_->may_forget(identity, io::usable_path(path));
}

Status Engine::forget_before(const io::Identity& identity, const std::string& path, bool open_here) {
    return state_->forget_before(identity, io::usable_path(path), open_here);
}

std::uint64_t Engine::listings() const { return state_->listings(); }

std::optional<Engine::Obstacle> Engine::obstacle() { return state_->obstacle(); }
Result<std::unique_ptr<io::Claim>> Engine::claim(const io::Identity& identity) {
    return state_->claim(identity, node_name());
}

void Engine::keep_claim(std::shared_ptr<io::Claim> claim) noexcept { state_->keep_claim(std::move(claim)); }

io::Directory* Engine::directory() noexcept { return state_->directory(); }

void Engine::share_reserve(std::uint64_t processes) noexcept { state_->share_reserve(processes); }

void Engine::warn_by(Warn warn) { state_->warn_by(std::move(warn)); }

void Engine::find_peers_by(cache::FindPeers find) { state_->find_peers_by(std::move(find)); }

void Engine::count_aside(ledger::AsideReason reason, const std::string&) { state_->count_aside(reason); }

void Engine::count_never_staged(ledger::AsideReason reason) {
    state_->count_aside(reason);
    state_->count_unstaged();
}

const LoadedOptions& Engine::options() const noexcept { return state_->loaded(); }

}   // namespace forebay::stage
