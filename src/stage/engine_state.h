// What an Engine is made of: the table of open files, the process's part of the staging area, the drain threads, and
// what dead processes have left. For the files that implement it, and nobody else:
//
//   engine.cc            the Engine's own calls, attaching and detaching files, what the files ask for
//   engine_area.cc       the staging area: opening it once, refusing it, leaving it; statistics
//   engine_leftovers.cc  what other processes have left of a file, or claim now
//   engine_deadline.cc   the end of the job
//   engine_closing.cc    closes that the program does not wait for
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "area/registry.h"
#include "area/run_record.h"
#include "base/attempt.h"
#include "base/clock.h"
#include "cache/read_cache.h"
#include "drain/deadline.h"
#include "io/trace.h"
#include "ledger/ledger_writer.h"
#include "recover/leftovers.h"
#include "stage/async_requests.h"
#include "stage/engine.h"
#include "stage/fork.h"

namespace forebay::stage {

class Engine::State final : public FileContext, public ForkParty {
  public:
    // `registers`: the area is where the options say, and is noted for commands (area/registry.h).
    State(LoadedOptions loaded, OpenArea open_area, bool registers, std::shared_ptr<WaitClock> clock)
        : loaded_(std::move(loaded)),
          trace_(loaded_.options.trace),
          open_area_(std::move(open_area)),
          registers_(registers),
          progress_(std::move(clock)),
          leftovers_([this] { return recover::find_area(loaded_.options.nls); },
                     [this] { return recover::find_areas_of_others(loaded_.options.nls); }, patience_with_others()),
          read_cache_(loaded_.options, [this] { return open_area_of_cache(); }),
          scheduler_(loaded_.options.drain_threads),
          async_requests_(loaded_.options.drain_threads),
          deadline_(deadline_of(loaded_.options)) {
        join_forks();
    }
    ~State() override {
        leave_forks();
        close_area();
    }
    // A process that only reads stages nothing, and commands are to find what it caches.
    Result<std::unique_ptr<io::Directory>> open_area_of_cache() {
        auto area = open_area_();
        if (area && registers_) (void)area::note_area(loaded_.options, loaded_.options.nls);
        return area;
    }
    // Before it is destroyed: no drain thread is at work any more. False: one is in a call that does not return, so
    // everything has to stay as it is, to the end of the process.
    [[nodiscard]] bool come_to_rest();
    void await_rest() noexcept;   // the same, however long it takes
    std::vector<std::string> end_of_process(const LeaveTo& leave_to);
    [[nodiscard]] bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }

    Result<Attached> attach(OpenTarget target);
    void prefetch_opened(cache::CachedFile& file) noexcept { read_cache_.prefetch_opened(file); }
    Detached detach(const std::shared_ptr<StagedFile>& file, bool writable, AfterClose afterwards) noexcept;
    Status await_closed(const io::Identity& identity, Before before);
    void await_own_closed(const io::Identity& identity, Before before);
    Status await_all_closed() noexcept;
    void stop_closing() noexcept;
    std::optional<WaitedClose> why_close_waits(const StagedFile& file);
    void count_waited_close(WaitedClose why) noexcept {
        if (loaded_.options.close != OnClose::kWait)
            waited_closes_[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
    }
    void finish_later(const std::shared_ptr<StagedFile>& file, SharedClose close) noexcept;
    Status take_deferred_failure() noexcept;
    void end_closes_of_threads() noexcept;
    Status await_end_of_process(const StagedFile& file) noexcept;
    bool await_a_close() noexcept override;
    std::shared_ptr<StagedFile> find(const io::Identity& identity);
    std::shared_ptr<cache::CachedFile> cached(const io::Identity& identity);
    void opened_again(const io::Identity& identity) noexcept {
        if (loaded_.options.read_cache == ReadCacheMode::kOff) return;
        if (const auto file = cached(identity)) read_cache_.opened_again(*file);
    }
    void compare_cached() noexcept;
    std::shared_ptr<cache::LeasedFile> leased(const std::string& name) noexcept;
    void removes(const std::string& name) noexcept;
    bool only_read(const StagedFile& file) noexcept;
    std::string statistics();
    AsyncRequests& async_requests() noexcept { return async_requests_; }
    void count_aside(ledger::AsideReason reason) {
        const std::lock_guard opening(opening_);
        tell_began_opening();
        count_left_alone(reason);
        anything_to_tell_ = true;
    }
    void count_unstaged() noexcept {
        ledger_.header().files_staged.fetch_sub(1, std::memory_order_relaxed);
        tally_.tally().files_staged.fetch_sub(1, std::memory_order_relaxed);
    }
    const LoadedOptions& loaded() const noexcept { return loaded_; }
    io::Directory* directory() noexcept {
        const std::lock_guard opening(opening_);
        return directory_.get();
    }
    void warn_by(Warn warn) {
        const std::lock_guard lock(mutex_);
        warn_ = std::move(warn);
    }
    void find_peers_by(cache::FindPeers find) { read_cache_.find_peers_by(std::move(find)); }
    void share_reserve(std::uint64_t processes) noexcept {
        const std::lock_guard opening(opening_);
        if (pool_) pool_->lower_reserve(reserve_bytes(processes));
    }

    // FileContext
    const Options& options() const noexcept override { return loaded_.options; }
    log::SegmentPool* pool() noexcept override { return pool_.get(); }
    drain::Scheduler& scheduler() noexcept override { return scheduler_; }
    std::uint64_t next_sequence() noexcept override { return sequence_.fetch_add(1, std::memory_order_relaxed); }
    bool inherited() const noexcept override { return ForkParty::inherited(); }
    bool press_files(const StagedFile& asking) override;
    bool promote_held() override;
    void addresses_given(const io::Identity& identity) override;
    drain::Progress& progress() noexcept override { return progress_; }
    SpareTime& spare_time() noexcept override { return spare_time_; }
    void wrote(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) override;
    void count_made_good() noexcept override { made_good_.fetch_add(1, std::memory_order_relaxed); }
    const io::Trace* trace() const noexcept override { return trace_.is_on() ? &trace_ : nullptr; }
    bool deadline_presses() noexcept override;
    bool too_much_for_deadline() noexcept override;

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
        if (!loaded_.options.stage)
            return Obstacle{ledger::AsideReason::kDisabled, {Code::kUnavailable, "staging is switched off"}};
        look_opening();
        return obstacle_;
    }

    Result<std::unique_ptr<io::Claim>> claim(const io::Identity& identity, const std::string& node);
    void keep_claim(std::shared_ptr<io::Claim> claim) noexcept {
        const std::lock_guard lock(mutex_);
        (void)attempt([&] { claims_kept_.push_back(std::move(claim)); });
    }
    Result<std::string> recover_before_open(const std::string& path, bool writable);
    Result<std::string> recover_opened(const OpenedFile& file);
    Result<std::string> await_settled(const OpenedFile& file);
    Result<std::string> tell_of_stranded_looking(const io::Identity& identity, const std::string& path,
                                                 const log::Birth& born);
    Status admit_emptying(const std::string& path);
    Status may_forget(const io::Identity& identity, const std::string& path);
    Status forget_before(const io::Identity& identity, const std::string& path, bool open_here);
    std::uint64_t listings() {
        const std::lock_guard looking(looking_);
        return leftovers_.listings();
    }

    void forget_threads() noexcept {
        async_requests_.forget_threads();
        scheduler_.forget_threads();
        read_cache_.forget_threads();
        if (pool_) pool_->forget_thread();
    }

  private:
    struct Entry {
        std::shared_ptr<StagedFile> file;
        std::shared_ptr<cache::CachedFile> cached;   // what `file` reads, if that is through the read cache
        std::unique_ptr<io::Lock> being_written;     // tells readers of this node that they should store nothing
        std::uint64_t handles = 0, writers = 0;
        bool closing = false;          // the last writer is finishing
        std::thread::id closed_by{};   // in this thread's call; none: behind the program
        ledger::LedgerSlot* slot = nullptr;
        std::unique_ptr<ledger::LedgerSlot> own_slot;   // where the ledger has none left
    };

    // A close that the program does not wait for.
    struct Deferred {
        std::shared_ptr<StagedFile> file;
        AfterClose afterwards;
        std::unique_ptr<io::Claim> claim;   // tells other processes of the node; null: there are none to tell
        std::function<Status()> finish;     // of a file that several processes write; else empty
    };

    // engine_deadline.cc
    [[nodiscard]] static std::uint64_t deadline_of(const Options& options) noexcept;
    [[nodiscard]] std::uint64_t pending_bytes() noexcept;
    void look_at_deadline() noexcept;

    // engine_closing.cc
    Status defer(const std::shared_ptr<StagedFile>& file, AfterClose afterwards);
    bool is_forked() noexcept;
    bool too_many_closes() noexcept;
    std::optional<WaitedClose> why_not_deferred(StagedFile& file);
    bool closing_thread() noexcept;
    void hand_over(Deferred&& close);
    void tell_nameless(const StagedFile& file);
    void end_one_close(std::unique_lock<std::mutex>& lock) noexcept;
    [[nodiscard]] std::string closing_folder() const;
    [[nodiscard]] std::string closing_name(const io::Identity& identity) const;
    Status claim_closing(const io::Identity& identity, std::unique_ptr<io::Claim>& claim);
    Status await_others_closed(const io::Identity& identity);
    void run_closing_thread();
    void end_deferred(Deferred close) noexcept;
    Status end_all_closes() noexcept;
    bool leave_closes(const LeaveTo& leave_to);
    bool end_handle(const std::shared_ptr<StagedFile>& file, bool last_writer) noexcept;
    [[nodiscard]] std::string closes_as_json() const;
    std::vector<std::shared_ptr<cache::CachedFile>> files_read();
    std::string reads_as_json();

    [[nodiscard]] bool looks_for_leftovers() const noexcept;
    [[nodiscard]] bool may_be_staged(const io::Identity& identity, const std::string& path);
    Result<std::string> recover_file_looking(const OpenedFile& opened, const log::Birth& born);
    Status refuse_unread_looking(const io::Identity& identity, const std::string& path, const log::Birth& born = {});
    Result<std::string> tell_of_unread_looking(std::string said);
    [[nodiscard]] std::uint64_t reserve_bytes(std::uint64_t processes) const noexcept;
    Result<std::optional<ledger::AsideReason>> staging_opening(std::string& warning);
    [[nodiscard]] io::Directory::Patience patience_with_others() const noexcept;
    void look_opening();
    std::optional<Obstacle> open_area_opening();
    std::optional<Obstacle> make_process_directory_opening();
    Status make_living_directory_opening(const area::ProcessIdentity& process);
    Status start_writing(Entry& entry, std::unique_ptr<io::File> target, std::optional<ledger::AsideReason> aside,
                         const std::function<Status()>& prepare);
    [[nodiscard]] bool were_addresses_given(const io::Identity& identity);
    void forget_locked(std::map<io::Identity, Entry>::iterator found);
    void tell_began_opening() noexcept;
    // In the ledger of the process, and for its `forebay run`.
    void count_left_alone(ledger::AsideReason reason) noexcept {
        ledger_.header().aside[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
        tally_.tally().aside[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    }
    void report_closed(const ledger::FileCounters& counters);
    void tell_statistics();
    void tell_line(const std::string& line);
    std::vector<std::shared_ptr<StagedFile>> open_files();
    std::vector<std::shared_ptr<StagedFile>> files_written();
    void close_area() noexcept;
    void leave_area() noexcept;
    void remove_process_directory();

    const LoadedOptions loaded_;
    const io::Trace trace_;
    const OpenArea open_area_;
    const bool registers_;
    const area::RunRecord run_ = area::RunRecord::of_environment();
    bool began_ = false;   // run_ has been told; guarded by opening_
    area::TallyWriter tally_;
    std::atomic<std::uint64_t> sequence_{1};
    drain::Progress progress_;   // and the clock of waits for it
    SpareTime spare_time_{monotonic_ns()};
    std::atomic<bool> ended_{false};            // see end_of_process
    std::atomic<std::uint64_t> stranded_{0};    // files opened of whose name a log of another file is left
    std::atomic<std::uint64_t> nameless_{0};    // files that lost their last name before they had drained
    std::atomic<std::uint64_t> made_good_{0};   // failures of the background that have become void
    std::atomic<std::uint64_t> unread_{0};      // directories of dead processes whose content is unknown

    // Lock order: opening_, a file's writer_, mutex_, a file's mutex_, the pool's.
    std::mutex opening_;               // serialises attach and what it finds out once
    std::mutex mutex_;                 // the map of files
    std::condition_variable closed_;   // an entry's closing has become false
    std::map<io::Identity, Entry> files_;
    std::vector<std::shared_ptr<io::Claim>> claims_kept_;   // guarded by mutex_
    bool files_ended_ = false;                              // by end_of_process; guarded by mutex_
    std::set<io::Identity> read_around_;                    // files of which the program knows where its data are
    bool any_read_around_ = false;                          // more of them than that set takes: it may be any file
    std::uint64_t next_log_ = 1;
    // Guarded by mutex_. Those that the closing thread has not come to, and all that have not ended.
    std::deque<Deferred> closes_waiting_;
    std::multiset<io::Identity> closes_under_way_;
    std::size_t closes_max_ = 0;   // at a time; 0: not known yet
    std::optional<bool> forked_;   // none: not known yet
    bool closing_stops_ = false, closing_looked_at_ = false;
    bool closes_left_ = false;               // to another process
    Status deferred_failure_;                // the first that nobody was told of
    std::condition_variable close_wanted_;   // closes_waiting_ or closing_stops_ has changed
    std::jthread closing_thread_;
    std::atomic<std::uint64_t> deferred_closes_{0}, left_closes_{0};
    std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(WaitedClose::kCount)> waited_closes_{};
    bool area_tried_ = false, warned_ = false, anything_to_tell_ = false, claims_looked_at_ = false;
    std::optional<Obstacle> obstacle_;
    std::unique_ptr<io::Directory> area_;        // forebay-<uid>
    std::unique_ptr<io::Directory> directory_;   // of this process and engine
    std::string directory_name_;
    std::unique_ptr<io::Lock> alive_;   // there, for as long as this lives, or this image of the process
    std::mutex looking_;                // guards leftovers_; no other lock is taken below it
    recover::Leftovers leftovers_;
    ledger::LedgerWriter ledger_;
    std::unique_ptr<log::SegmentPool> pool_;
    std::uint64_t usable_memory_bytes_ = 0;   // by the process, when the staging area was opened
    cache::ReadCache read_cache_;
    drain::Scheduler scheduler_;
    AsyncRequests async_requests_;   // the last that has threads: they end first
    drain::Deadline deadline_;
    Warn warn_;   // guarded by mutex_
};

}   // namespace forebay::stage
