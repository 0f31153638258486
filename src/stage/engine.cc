#include "stage/engine.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <chrono>
#include <filesystem>

#include "base/attempt.h"
#include "io/append.h"
#include "io/posix_file.h"
#include "io/stripe_size.h"
#include "log/process.h"
#include "log/staging_area.h"
#include "stage/engine_state.h"

namespace forebay::stage {

namespace {

// At the end drain threads get so long to come back, however long nothing has come of them.
constexpr std::chrono::milliseconds kLastMoment{200};

std::string absolute(const std::string& path) {
    std::error_code error;
    const auto full = std::filesystem::absolute(path, error);
    return error ? path : full.lexically_normal().string();
}

// A file system may never answer unless it is known to be on a local device.
StagedFile::TargetTraits traits_of(int descriptor) {
    struct statfs facts {};
    const bool local = ::fstatfs(descriptor, &facts) == 0 && log::file_system_kind(static_cast<std::uint32_t>(facts.f_type)).local;
    return {!local, io::ask_stripe_size(descriptor)};
}

}   // namespace

// ---- attaching and detaching -----------------------------------------------------------------------

Result<Engine::Attached> Engine::State::attach(std::unique_ptr<io::File> file, const io::Identity& identity,
                                               const std::string& path, bool writable, std::optional<log::AsideReason> aside,
                                               StagedFile::TargetTraits traits) {
    if (inherited())
        return Status(Code::kUnsupported, fmt::format("open {}: HDF5 was in use before this process was forked", path));
    const std::lock_guard opening(opening_);
    Attached attached;
    const log::AsideReason unstaged = aside.value_or(log::AsideReason::kReadOnly);
    if (writable && !aside) {
        auto decision = staging_opening(attached.warning);
        if (!decision) return decision.status();
        aside = decision.value();
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
            if (!writable) setup.target = std::move(file);
            Entry fresh;
            fresh.file = std::make_shared<StagedFile>(*this, std::move(setup));
            found = files_.emplace(identity, std::move(fresh)).first;
        }
        entry = &found->second;
        first_writer = writable && entry->writers == 0;
        ++entry->handles;
        if (writable) ++entry->writers;
    }
    // Without memory the handle must not go on counting.
    const Status outcome = attempt([&] {
        if (first_writer) return start_writing(*entry, std::move(file), aside, traits);
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
        if (!writable)
            ledger_.header()
                .aside[static_cast<std::size_t>(unstaged)]
                .fetch_add(1, std::memory_order_relaxed);
    }
    attached.file = entry->file;
    return attached;
}

Status Engine::State::start_writing(Entry& entry, std::unique_ptr<io::File> target,
                                           std::optional<log::AsideReason> aside, StagedFile::TargetTraits traits) {
    const io::Identity& identity = entry.file->identity();
    // A file that readers kept open between two writers keeps its slot.
    if (entry.slot == nullptr) entry.slot = ledger_.take_slot(entry.file->path(), identity.device, identity.inode);
    if (entry.slot == nullptr) {
        entry.own_slot = std::make_unique<log::LedgerSlot>();
        entry.slot = entry.own_slot.get();
    }
    // That of a file that failed goes on telling what is left in the log: the next call refuses.
    if (!entry.file->failed()) log::open_slot(*entry.slot, entry.file->path(), identity.device, identity.inode);
    FOREBAY_TRY(entry.file->open_for_writing(std::move(target), entry.slot, aside, traits));
    if (aside)
        ledger_.header().aside[static_cast<std::size_t>(*aside)].fetch_add(1, std::memory_order_relaxed);
    else
        ledger_.header().files_staged.fetch_add(1, std::memory_order_relaxed);
    return Status::ok();
}

Status Engine::State::detach(const std::shared_ptr<StagedFile>& file, bool writable) noexcept {
    if (inherited()) return Status::ok();
    bool last_writer = false;
    {
        const std::lock_guard lock(mutex_);
        Entry& entry = files_.at(file->identity());
        last_writer = writable && --entry.writers == 0;
        entry.closing = entry.closing || last_writer;
    }
    // Draining may take long; other files go on meanwhile. The handle still counts, so the entry stays.
    Status outcome;
    if (last_writer) outcome = attempt([&] { return file->finish(); });

    std::optional<log::FileCounters> closed;
    {
        const std::lock_guard lock(mutex_);
        const auto found = files_.find(file->identity());
        Entry& entry = found->second;
        if (last_writer) {
            // Without memory there is no line of statistics.
            (void)attempt([&] {
                closed = file->counters();
            });
            entry.closing = false;
        }
        // A file whose newest bytes are in the log only stays known.
        if (--entry.handles == 0 && !file->failed() && !file->leaves_log()) forget_locked(found);
    }
    closed_.notify_all();
    if (closed)
        (void)attempt([&] {
            report_closed(*closed);
        });
    return outcome;
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

bool Engine::State::come_to_rest() {
    const std::uint64_t patience = loaded_.options.patience;
    if (patience == 0) return true;   // whoever destroys it waits
    // Whoever closed a file has waited for so long already. What hangs then is of files that were given up, however well others do.
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::steady_clock::time_point progress{std::chrono::nanoseconds(progress_ns())};
    const auto files = open_files();
    const bool wanted = std::any_of(files.begin(), files.end(), [](const auto& file) { return file->staged(); });
    const auto last_moment = now + kLastMoment;
    if (scheduler_.stop(wanted ? std::max(last_moment, progress + std::chrono::seconds(patience)) : last_moment)) return true;
    leave_forks();
    tell_statistics();
    return false;
}

// ---- what files ask for ----------------------------------------------------------------------------

std::vector<std::shared_ptr<StagedFile>> Engine::State::open_files() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<StagedFile>> files;
    files.reserve(files_.size());
    for (const auto& [identity, entry] : files_) files.push_back(entry.file);
    return files;
}

bool Engine::State::press_files(const StagedFile& asking) {
    bool under_way = false;
    for (const auto& file : open_files())
        if (file.get() != &asking) under_way = file->press() || under_way;
    return under_way;
}

bool Engine::State::promote_held() {
    bool any = false;
    for (const auto& file : open_files()) any = file->promote_held() > 0 || any;
    return any;
}

void Engine::State::trace(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) {
    ledger_.header().wrote_ns.store(realtime_ns(), std::memory_order_relaxed);
    if (loaded_.options.trace.empty()) return;
    try {
        (void)io::append_line(loaded_.options.trace,
                              fmt::format(R"({{"begin_ns":{},"end_ns":{},"offset":{},"bytes":{}}})", begin_ns, end_ns,
                                          range.begin, range.size()));
    } catch (const std::bad_alloc&) {
        // A trace is no reason to fail.
    }
}

void Engine::State::report_closed(const log::FileCounters& counters) {
    if (loaded_.options.stats.empty()) return;
    (void)io::append_line(loaded_.options.stats, fmt::format(R"({{"file":{}}})", log::to_json(counters)));
}

// ---- Engine ----------------------------------------------------------------------------------------

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}

Engine::~Engine() {
    if (!state_->inherited()) {
        if (!state_->come_to_rest()) (void)state_.release();
        return;
    }
    // A child ends what its parent began by leaving it alone.
    state_->forget_threads();
    (void)state_.release();
}

std::unique_ptr<Engine> Engine::create(LoadedOptions options) {
    auto shared = std::make_shared<const LoadedOptions>(options);
    return create(std::move(options), [shared]() -> Result<std::unique_ptr<io::Directory>> {
        auto area = log::open_staging_area(*shared);
        if (!area) return area.status();
        return std::move(std::move(area).value().directory);
    });
}

std::unique_ptr<Engine> Engine::create(LoadedOptions options, OpenArea open_area) {
    return std::unique_ptr<Engine>(new Engine(std::make_unique<State>(std::move(options), std::move(open_area))));
}

Result<Engine::Attached> Engine::attach(const OpenTarget& target) {
    const std::string path = absolute(target.path);
    struct stat facts {};
    if (::fstat(target.descriptor, &facts) != 0) return Status::from_errno(errno, "stat " + path);
    const io::Identity identity{static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino)};
    auto file = io::duplicate_posix_file(target.descriptor, path);
    if (!file) return file.status();
    const auto aside = S_ISREG(facts.st_mode) ? target.aside : log::AsideReason::kNotRegular;
    return state_->attach(std::move(file).value(), identity, path, target.writable, aside, target.writable ? traits_of(target.descriptor) : StagedFile::TargetTraits{.may_hang = false});
}

Result<Engine::Attached> Engine::attach(std::unique_ptr<io::File> file, const io::Identity& identity,
                                        const std::string& path, bool writable) {
    return state_->attach(std::move(file), identity, path, writable, std::nullopt, {});
}

Status Engine::admit() { return state_->admit(); }

Status Engine::detach(const std::shared_ptr<StagedFile>& file, bool writable) noexcept { return state_->detach(file, writable); }

std::shared_ptr<StagedFile> Engine::find(std::uint64_t device, std::uint64_t inode) {
    return state_->find({device, inode});
}

std::string Engine::node_name() const {
    const std::string& named = state_->loaded().options.node;
    if (!named.empty()) return named;
    const auto process = log::identify_this_process();
    return process ? log::to_text(process.value().boot_id) : std::string("unknown");
}

Result<std::string> Engine::recover_before_open(const std::string& path, bool writable) {
    return state_->recover_before_open(absolute(path), writable);
}

Status Engine::forget_before(const io::Identity& identity, const std::string& path) {
    return state_->forget_before(identity, absolute(path));
}

std::uint64_t Engine::listings() const { return state_->listings(); }

std::optional<Engine::Obstacle> Engine::obstacle() { return state_->obstacle(); }
Result<std::unique_ptr<io::Claim>> Engine::claim(const io::Identity& identity) { return state_->claim(identity, node_name()); }

io::Directory* Engine::directory() noexcept { return state_->directory(); }

void Engine::share_reserve(std::uint64_t processes) noexcept { state_->share_reserve(processes); }

void Engine::count_aside(log::AsideReason reason, const std::string&) { state_->count_aside(reason); }

const LoadedOptions& Engine::options() const noexcept { return state_->loaded(); }

}   // namespace forebay::stage
