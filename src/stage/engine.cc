#include "stage/engine.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "io/append.h"
#include "io/posix_file.h"
#include "io/stripe_size.h"
#include "log/ledger_writer.h"
#include "log/process.h"
#include "log/staging_area.h"
#include "recover/leftovers.h"
#include "stage/fork.h"

namespace forebay::stage {

namespace {

// A process, or all of a node that share a file, take no more than this share of the machine's memory for pages touched ahead.
constexpr std::uint64_t kReserveMemoryShare = 32;
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

// Who recovers a file may be stuck in it.
io::Directory::Patience patience_with_others(const Options& options) {
    return options.patience == 0 ? io::Directory::Patience::kWait : io::Directory::Patience{std::chrono::seconds(options.patience)};
}

std::uint64_t physical_memory_bytes() {
    const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
    return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
}

}   // namespace

class Engine::State final : public Surroundings, public ForkParty {
  public:
    State(LoadedOptions loaded, OpenArea open_area)
        : loaded_(std::move(loaded)),
          open_area_(std::move(open_area)),
          leftovers_([this] { return recover::find_area(loaded_.options.nls); }, patience_with_others(loaded_.options)),
          scheduler_(loaded_.options.drain_threads) {
        join_forks();
    }
    ~State() override {
        leave_forks();
        close_area();
    }
    // Before it is destroyed: no drain thread is at work any more. False: one is in a call that does not return, so everything
    // has to stay as it is, to the end of the process.
    [[nodiscard]] bool come_to_rest() {
        const std::uint64_t patience = loaded_.options.patience;
        if (patience == 0) return true;   // whoever destroys it waits
        // Whoever closed a file has waited for so long already.
        const auto now = std::chrono::steady_clock::now();
        const std::chrono::steady_clock::time_point progress{std::chrono::nanoseconds(progress_ns())};
        if (scheduler_.stop(std::max(now + kLastMoment, progress + std::chrono::seconds(patience)))) return true;
        leave_forks();
        tell_statistics();
        return false;
    }

    Result<Attached> attach(std::unique_ptr<io::File> file, const io::Identity& identity, const std::string& path,
                            bool writable, std::optional<log::AsideReason> aside, StagedFile::TargetTraits traits);
    Status detach(const std::shared_ptr<StagedFile>& file, bool writable);
    std::shared_ptr<StagedFile> find(const io::Identity& identity);
    void count_aside(log::AsideReason reason) {
        const std::lock_guard opening(opening_);
        ledger_.header().aside[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
        anything_to_tell_ = true;
    }
    const LoadedOptions& loaded() const noexcept { return loaded_; }
    io::Directory* directory() noexcept {
        const std::lock_guard opening(opening_);
        return directory_.get();
    }
    void share_reserve(std::uint64_t processes) noexcept {
        const std::lock_guard opening(opening_);
        if (pool_) pool_->lower_reserve(reserve_bytes() / processes);
    }

    // Surroundings
    const Options& options() const noexcept override { return loaded_.options; }
    log::SegmentPool* pool() noexcept override { return pool_.get(); }
    drain::Scheduler& scheduler() noexcept override { return scheduler_; }
    std::uint64_t next_sequence() noexcept override { return sequence_.fetch_add(1, std::memory_order_relaxed); }
    bool inherited() const noexcept override { return ForkParty::inherited(); }
    bool press_files(const StagedFile& asking) override;
    bool promote_held() override;
    void progressed() noexcept override { progress_ns_.store(monotonic_ns(), std::memory_order_relaxed); }
    std::uint64_t progress_ns() const noexcept override { return progress_ns_.load(std::memory_order_relaxed); }
    void trace(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) override;

    // ForkParty
    void lock_for_fork() override {
        mutex_.lock();
        for (auto& [identity, entry] : files_) entry.file->lock_for_fork();
    }
    void unlock_after_fork() override {
        for (auto& [identity, entry] : files_) entry.file->unlock_after_fork();
        mutex_.unlock();
    }

    Status admit() {
        const std::lock_guard opening(opening_);
        std::string warning;
        if (!loaded_.options.strict) return Status::ok();
        return staging_opening(warning).status();
    }

    std::optional<Obstacle> obstacle() {
        const std::lock_guard opening(opening_);
        if (!loaded_.options.stage) return Obstacle{log::AsideReason::kDisabled, {Code::kUnavailable, "staging is switched off"}};
        look_opening();
        return obstacle_;
    }

    Result<std::unique_ptr<io::Claim>> claim(const io::Identity& identity, const std::string& node);
    Result<std::string> recover_before_open(const std::string& path, bool writable);
    Result<std::string> tell_of_stranded_looking(const io::Identity& identity, const std::string& path);
    Status forget_before(const io::Identity& identity, const std::string& path);
    std::uint64_t listings() {
        const std::lock_guard looking(looking_);
        return leftovers_.listings();
    }

    void forget_threads() noexcept {
        scheduler_.forget_threads();
        if (pool_) pool_->forget_thread();
    }

  private:
    struct Entry {
        std::shared_ptr<StagedFile> file;
        std::uint64_t handles = 0, writers = 0;
        bool closing = false;                        // the last writer is finishing
        log::LedgerSlot* slot = nullptr;
        std::unique_ptr<log::LedgerSlot> own_slot;   // where the ledger has none left
    };

    [[nodiscard]] std::uint64_t reserve_bytes() const {
        return std::min({loaded_.options.reserve, loaded_.options.size / 2, physical_memory_bytes() / kReserveMemoryShare});
    }
    Result<std::optional<log::AsideReason>> staging_opening(std::string& warning);
    void look_opening();
    std::optional<Obstacle> open_area_opening();
    std::optional<Obstacle> make_process_directory_opening();
    Status start_writing(Entry& entry, std::unique_ptr<io::File> target,
                                std::optional<log::AsideReason> aside, StagedFile::TargetTraits traits);
    void forget_locked(std::map<io::Identity, Entry>::iterator found);
    void report_closed(const log::FileCounters& counters);
    void tell_statistics();
    std::vector<std::shared_ptr<StagedFile>> open_files();
    void close_area();

    const LoadedOptions loaded_;
    const OpenArea open_area_;
    std::atomic<std::uint64_t> sequence_{1};
    std::atomic<std::uint64_t> progress_ns_{0};
    std::atomic<std::uint64_t> stranded_{0};       // files opened of whose name a log of another file is left

    // Lock order: opening_, a file's writer_, mutex_, a file's mutex_, the pool's.
    std::mutex opening_;   // serialises attach and what it finds out once
    std::mutex mutex_;     // the map of files
    std::condition_variable closed_;   // an entry's closing has become false
    std::map<io::Identity, Entry> files_;
    std::uint64_t next_log_ = 1;
    bool area_tried_ = false, warned_ = false, anything_to_tell_ = false, claims_looked_at_ = false;
    std::optional<Obstacle> obstacle_;
    std::unique_ptr<io::Directory> area_;          // forebay-<uid>
    std::unique_ptr<io::Directory> directory_;     // of this process and engine
    std::string directory_name_;
    std::mutex looking_;                           // guards leftovers_; no other lock is taken below it
    recover::Leftovers leftovers_;
    log::LedgerWriter ledger_;
    std::unique_ptr<log::SegmentPool> pool_;
    drain::Scheduler scheduler_;                   // last: its threads end first
};

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
    Status outcome;
    try {
        if (first_writer) outcome = start_writing(*entry, std::move(file), aside, traits);
        else if (!writable) outcome = entry->file->refresh();
    } catch (const std::bad_alloc&) {
        outcome = {Code::kUnavailable, "out of memory", ENOMEM};   // the handle must not go on counting
    }
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

Status Engine::State::detach(const std::shared_ptr<StagedFile>& file, bool writable) {
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
    if (last_writer) {
        try {
            outcome = file->finish();
        } catch (const std::bad_alloc&) {
            outcome = {Code::kUnavailable, "out of memory", ENOMEM};   // short enough to need none
        }
    }

    std::optional<log::FileCounters> closed;
    {
        const std::lock_guard lock(mutex_);
        const auto found = files_.find(file->identity());
        Entry& entry = found->second;
        if (last_writer) {
            closed = file->counters();
            entry.closing = false;
        }
        // A file whose newest bytes are in the log only stays known.
        if (--entry.handles == 0 && !file->failed() && !file->leaves_log()) forget_locked(found);
    }
    closed_.notify_all();
    if (closed) report_closed(*closed);
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

// ---- what others write now -----------------------------------------------------------------------------

// In a folder of their own: whoever looks for what dead processes have left looks when the area itself has changed.
Result<std::unique_ptr<io::Claim>> Engine::State::claim(const io::Identity& identity, const std::string& node) {
    if (const auto why = obstacle()) {   // whoever attaches a file says it
        if (loaded_.options.strict && loaded_.options.stage) return why->status;
        return std::unique_ptr<io::Claim>();
    }
    const std::lock_guard opening(opening_);
    const std::string folder = area_->name() + "/claims";
    if (!std::exchange(claims_looked_at_, true)) io::Claim::remove_leftovers(folder);
    return io::Claim::make(folder, fmt::format("{:x}-{:x}-{:x}", identity.device, identity.inode, checksum(std::as_bytes(std::span(node)))));
}

// ---- what others have left ---------------------------------------------------------------------------

Result<std::string> Engine::State::recover_before_open(const std::string& path, bool writable) {
    if (!loaded_.options.recover || !loaded_.options.stage || inherited()) return std::string();
    const auto identity = io::identify(path);
    if (!identity || find(identity.value()) != nullptr) return std::string();
    const std::lock_guard looking(looking_);
    if (!leftovers_.concern(identity.value())) return tell_of_stranded_looking(identity.value(), path);
    const auto report = leftovers_.recover({identity.value(), path});
    const std::string whose = path + ": a process that died had staged bytes of it";
    const auto refuse = [&](const Status& why, const std::string& advice, bool in_use = false) -> Result<std::string> {
        const std::string text = fmt::format("{}, which cannot be recovered: {}{}", whose, why.message(), advice.empty() ? "" : "; " + advice);
        if (writable) return Status(Code::kUnavailable, text, 0, in_use);
        return text;
    };
    if (!report) return refuse(report.status(), "");
    if (!report.value()) return std::string();
    const recover::FileReport& file = *report.value();
    switch (file.outcome) {
        case recover::Outcome::kRecovered:
            if (file.nodes > 1 || file.commit_sequence == 0)   // several nodes: nothing was held back for a commit
                return fmt::format("{}; those of this node are in it now ({} written){}{}", whose, format_size(file.bytes),
                                   recover::about_nodes(file).empty() ? "" : "; ", recover::about_nodes(file));
            return fmt::format("{}; it is at its last flush now ({} written)", whose, format_size(file.bytes));
        case recover::Outcome::kRolledBack: return fmt::format("{}, and never flushed; it is as it was when it was opened", whose);
        case recover::Outcome::kComplete:
        case recover::Outcome::kDiscarded: return std::string();
        case recover::Outcome::kRefused:
        case recover::Outcome::kWaiting:
        case recover::Outcome::kFailed: break;
    }
    return refuse(file.status, recover::advice(file), file.reason == recover::Reason::kInUse);
}

// Its old state must not pass for the newest one.
Result<std::string> Engine::State::tell_of_stranded_looking(const io::Identity& identity, const std::string& path) {
    const std::string directory = leftovers_.stranded(identity, path);
    if (directory.empty()) return std::string();
    stranded_.fetch_add(1, std::memory_order_relaxed);
    std::string text = fmt::format("{}: a process that died has left a log of a file of this name, with another identity, in {}; what the log holds is not in this file. "
                                   "If its file system was mounted again, `forebay recover --accept-moved {}`; if the file was replaced, `forebay discard {}`",
                                   path, directory, path, directory);
    if (loaded_.options.strict) return Status(Code::kUnavailable, std::move(text));
    return text;
}

Status Engine::State::forget_before(const io::Identity& identity, const std::string& path) {
    if (!loaded_.options.recover || !loaded_.options.stage || inherited()) return Status::ok();
    if (find(identity) != nullptr) return Status::ok();
    const std::lock_guard looking(looking_);
    if (!leftovers_.concern(identity)) return Status::ok();
    return leftovers_.void_log({identity, path}).with_context(path + ": a process that died has left a log of it, which cannot be removed");
}

// ---- the staging area ------------------------------------------------------------------------------

// Whether a file may be staged: nothing, or the reason why not. An error only with option strict.
Result<std::optional<log::AsideReason>> Engine::State::staging_opening(std::string& warning) {
    if (!loaded_.options.stage) return std::optional(log::AsideReason::kDisabled);
    look_opening();
    if (!obstacle_) return std::optional<log::AsideReason>();
    if (loaded_.options.strict) return obstacle_->status;
    if (!warned_) {
        warned_ = true;
        warning = obstacle_->status.message() + " (writing without staging)";
    }
    return std::optional(obstacle_->reason);
}

void Engine::State::look_opening() {
    if (std::exchange(area_tried_, true)) return;
    try {
        obstacle_ = open_area_opening();
    } catch (const std::bad_alloc&) {
        // What was made of it is of no use. Short enough to need no memory.
        obstacle_ = Obstacle{log::AsideReason::kStagingArea, {Code::kUnavailable, "out of memory", ENOMEM}};
    }
}

std::optional<Engine::Obstacle> Engine::State::open_area_opening() {
    if (!loaded_.problems.empty()) return Obstacle{log::AsideReason::kBadOption, loaded_.problems.front()};
    auto area = open_area_();
    if (!area) return Obstacle{log::AsideReason::kStagingArea, area.status()};
    area_ = std::move(area).value();
    return make_process_directory_opening();
}

std::optional<Engine::Obstacle> Engine::State::make_process_directory_opening() {
    const auto refuse = [](const Status& status) { return Obstacle{log::AsideReason::kStagingArea, status}; };
    const auto process = log::identify_this_process();
    if (!process) return refuse(process.status());
    log::remove_leftovers(*area_);
    // A second engine of the process (another libhdf5) takes the next number.
    for (unsigned number = 0;; ++number) {
        directory_name_ = fmt::format("{}-{}-{}", process.value().pid, process.value().start_ticks, number);
        auto directory = area_->create_directory(directory_name_);
        if (directory) {
            directory_ = std::move(directory).value();
            break;
        }
        if (directory.status().code() != Code::kAlreadyExists) return refuse(directory.status());
    }
    const Options& options = loaded_.options;
    const bool durable = options.durability == Durability::kNode;
    if (const Status synced = durable ? area_->sync() : Status::ok(); !synced) return refuse(synced);
    auto ledger = directory_->open_file("ledger", io::OpenMode::kCreateNew);
    if (!ledger) return refuse(ledger.status());
    if (const Status published = ledger_.publish(std::move(ledger).value(), process.value(), options.size, options.segment);
        !published)
        return refuse(published);
    auto log = directory_->open_file("log", io::OpenMode::kCreateNew);
    if (!log) return refuse(log.status());
    if (const Status synced = durable ? directory_->sync() : Status::ok(); !synced) return refuse(synced);
    const log::PoolLimits limits{options.size, options.segment, reserve_bytes()};
    pool_ = std::make_unique<log::SegmentPool>(
        std::move(log).value(), limits, process.value(),
        log::PoolGauges{&ledger_.header().segments_allocated, &ledger_.header().segments_free});
    pool_->warm_up();
    return std::nullopt;
}

void Engine::State::tell_statistics() {
    if (!loaded_.options.stats.empty() && (anything_to_tell_ || stranded_.load() > 0 || ledger_.header().files_opened.load() > 0)) {
        auto reasons = nlohmann::ordered_json::object();
        for (std::size_t i = 0; i < log::kReasonCount; ++i)
            if (const auto count = ledger_.header().aside[i].load(); count > 0)
                reasons[std::string(log::reason_name(static_cast<log::AsideReason>(i)))] = count;
        const nlohmann::ordered_json line{{"process",
                                           {{"pid", ::getpid()},
                                            {"files_opened", ledger_.header().files_opened.load()},
                                            {"files_staged", ledger_.header().files_staged.load()},
                                            {"aside", reasons},
                                            {"stranded", stranded_.load()}}}};
        // Statistics that cannot be written must not make a program fail that has lost nothing.
        (void)io::append_line(loaded_.options.stats, line.dump());
    }
}

void Engine::State::close_area() {
    tell_statistics();
    const bool keep = std::any_of(files_.begin(), files_.end(), [](const auto& item) { return item.second.file->leaves_log(); });
    files_.clear();   // before the pool that their logs live in
    if (!directory_ || keep) return;
    // A board or a journal that was left tells others, and recovery, what their logs mean.
    const auto names = directory_->list();
    if (!names || std::any_of(names.value().begin(), names.value().end(), [](const std::string& name) { return name != "log" && name != "ledger"; })) return;
    // What cannot be removed is found, and reported, by `forebay status`.
    (void)directory_->remove_file("log");
    (void)directory_->remove_file("ledger");
    (void)area_->remove_directory(directory_name_);
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

Status Engine::detach(const std::shared_ptr<StagedFile>& file, bool writable) { return state_->detach(file, writable); }

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
