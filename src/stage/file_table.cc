#include "stage/file_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/attempt.h"

namespace forebay::stage {

namespace {

constexpr std::size_t kGivenAddressesMax = 65536;

}   // namespace

void GivenAddresses::note(const io::Identity& identity) {
    const LockGuard lock(mutex_);
    if (files_.size() < kGivenAddressesMax) files_.insert(identity);
    else any_ = any_ || !files_.contains(identity);
}

void GivenAddresses::forget(const io::Identity& identity) {
    const LockGuard lock(mutex_);
    files_.erase(identity);
}

bool GivenAddresses::contains(const io::Identity& identity) {
    const LockGuard lock(mutex_);
    return any_ || files_.contains(identity);
}

Result<Attached> FileTable::attach(OpenTarget target, const io::Identity& identity) {
    const std::string path = target.file->name();
    const LockGuard opening(area_.opening());
    statistics_.tell_began();
    Attached attached;
    const bool writable = target.writable;
    const ledger::AsideReason unstaged = target.aside.value_or(ledger::AsideReason::kReadOnly);
    std::optional<ledger::AsideReason> aside = target.aside;
    if (writable && !aside) {
        auto decision = area_.decide(attached.warning);
        if (!decision) return decision.status();
        aside = decision.value();
        if (!aside && !target.prepare && given_addresses_.contains(identity))
            aside = ledger::AsideReason::kAddressGiven;
    }
    Source source;
    if (!writable) source = open_source(target, identity, attached.warning);
    const auto handle = add_handle(target, identity, path, std::move(source));
    if (!handle) return handle.status();
    const auto [entry, first, first_writer] = handle.value();
    // Without memory the handle must not go on counting.
    const Status outcome = attempt([&, entry = entry, first = first, first_writer = first_writer] {
        if (first_writer) return start_writing(*entry, std::move(target.file), aside, target.prepare);
        if (!first && entry->cached != nullptr) read_cache_.opened_again(*entry->cached);
        return writable ? Status::ok() : entry->file->lifecycle().refresh();
    });
    if (!outcome) {
        drop_handle(*entry, writable);
        return outcome;
    }
    if (first) {
        statistics_.count_opened();
        // A file that is read through the cache has not stepped aside.
        if (!writable && entry->cached == nullptr) statistics_.count_aside(unstaged);
    }
    attached.file = entry->file;
    attached.cached = entry->cached;
    return attached;
}

Result<std::shared_ptr<ForwardedWriting>> FileTable::attach_forwarded(OpenTarget target, const io::Identity& identity) {
    const std::string path = target.forwarded->name();
    const LockGuard opening(area_.opening());
    statistics_.tell_began();
    const auto handle = add_handle(target, identity, path, {});
    if (!handle) return handle.status();
    Entry& entry = *handle.value().entry;
    Result<std::shared_ptr<ForwardedWriting>> writing = out_of_memory();
    (void)attempt([&] { writing = start_forwarding(entry, std::move(target)); });
    if (!writing) drop_handle(entry, true);
    else if (handle.value().first) statistics_.count_opened();
    return writing;
}

Result<std::shared_ptr<ForwardedWriting>> FileTable::start_forwarding(Entry& entry, OpenTarget target) {
    const std::shared_ptr<io::ForwardedTarget> at_server = std::move(target.forwarded);
    auto writing = std::make_shared<ForwardedWriting>(entry.file, at_server);
    prepare_writing(entry, *at_server);
    FOREBAY_TRY(entry.file->lifecycle().read_through(at_server, entry.slot, at_server->traits(), target.prepare));
    entry.file->state().count_aside(ledger::AsideReason::kForwarded);
    note_writing(entry, writing, ledger::AsideReason::kForwarded);
    return writing;
}

// An open has failed after its handle was counted.
void FileTable::drop_handle(Entry& entry, bool writable) {
    const LockGuard lock(mutex_);
    if (writable) --entry.writers;
    if (--entry.handles == 0 && !entry.file->lifecycle().failed()) forget(files_.find(entry.file->identity()));
}

// No other thread attaches meanwhile. The table is not locked: the file's server may not answer.
FileTable::Source FileTable::open_source(OpenTarget& target, const io::Identity& identity, std::string& warning) {
    Source source{std::move(target.file), nullptr};
    if (!target.aside && find(identity) == nullptr)
        source.cached = read_cache_.open(source.file, warning, !target.with_peers, target.leased.get());
    if (source.cached != nullptr && !target.with_peers && target.leased == nullptr)
        read_cache_.prefetch_opened(*source.cached);
    return source;
}

// The handle is counted first, so that no other thread forgets the file meanwhile. Nodes of the map do not move.
Result<FileTable::NewHandle> FileTable::add_handle(const OpenTarget& target, const io::Identity& identity,
                                                   const std::string& path, Source source) {
    const LockGuard lock(mutex_);
    auto found = files_.find(identity);
    while (found != files_.end() && found->second.closing) {
        closed_.wait(mutex_);
        found = files_.find(identity);
    }
    const bool first = found == files_.end();
    if (first) {
        Entry fresh;
        std::shared_ptr<io::File> read_from;
        if (!target.writable) read_from = source.cached != nullptr ? source.cached : source.file;
        fresh.cached = std::move(source.cached);
        fresh.file = std::make_shared<StagedFile>(context_, FileState::Name{identity, path, next_log_++},
                                                  std::move(read_from));
        found = files_.emplace(identity, std::move(fresh)).first;
    }
    Entry& entry = found->second;
    const bool first_writer = target.writable && entry.writers == 0;
    if (target.prepare && !first_writer) {
        if (first) forget(found);
        return Status(Code::kUnsupported, fmt::format("empty {}: it is open for writing already", path), EEXIST);
    }
    // A handle that stages, or bypasses the log, would write beside the server.
    if (target.writable && !first_writer && (target.forwarded != nullptr || entry.forwarded))
        return Status(Code::kUnsupported,
                      fmt::format("open {}: this process has it open for writing already, and a staging server stages "
                                  "only one open",
                                  path),
                      EBUSY);
    ++entry.handles;
    if (target.writable) ++entry.writers;
    if (first_writer) entry.forwarded = target.forwarded != nullptr;
    return NewHandle{&entry, first, first_writer};
}

Status FileTable::start_writing(Entry& entry, std::unique_ptr<io::File> target,
                                std::optional<ledger::AsideReason> aside, const std::function<Status()>& prepare) {
    const io::FileTraits traits = target->traits();
    prepare_writing(entry, *target);
    FOREBAY_TRY(entry.file->lifecycle().open_for_writing(std::move(target), entry.slot, aside, traits, prepare));
    note_writing(entry, {entry.file, &entry.file->lifecycle()}, aside);
    return Status::ok();
}

void FileTable::prepare_writing(Entry& entry, io::File& target) {
    const io::Identity& identity = entry.file->identity();
    entry.being_written = read_cache_.begin_writing(target);
    // A file that readers kept open between two writers keeps its slot.
    if (entry.slot == nullptr)
        entry.slot = area_.ledger().take_slot(entry.file->path(), identity.device, identity.inode);
    if (entry.slot == nullptr) {
        entry.own_slot = std::make_unique<ledger::LedgerSlot>();
        entry.slot = entry.own_slot.get();
    }
    // The slot of a file that failed goes on telling what is left in the log: the next call refuses.
    if (!entry.file->lifecycle().failed()) {
        ledger::open_slot(*entry.slot, entry.file->path(), identity.device, identity.inode);
        ledger::set_use(*entry.slot, ledger::FileUse::kOpen);
    }
}

void FileTable::note_writing(Entry& entry, std::shared_ptr<Writing> writing, std::optional<ledger::AsideReason> aside) {
    std::shared_ptr<cache::CachedFile> cached;
    {
        const LockGuard lock(mutex_);
        entry.writing = std::move(writing);
        cached = std::move(entry.cached);
    }
    if (cached != nullptr) read_cache_.note_closed(*cached);
    statistics_.begin_writing();
    aside ? statistics_.count_aside(*aside) : statistics_.count_staged();
}

FileTable::Handle FileTable::begin_close(const StagedFile& file, bool writable) noexcept {
    const LockGuard lock(mutex_);
    if (context_.ended()) return Handle::kProcessEnds;
    Entry& entry = files_.at(file.identity());
    if (!writable || --entry.writers > 0) return Handle::kOneOfSeveral;
    entry.closing = true;
    entry.closed_by = std::this_thread::get_id();
    return Handle::kLastWriter;
}

std::shared_ptr<Writing> FileTable::writing(const StagedFile& file) noexcept {
    const LockGuard lock(mutex_);
    return files_.at(file.identity()).writing;
}

void FileTable::begin_shared_close(const StagedFile& file) noexcept {
    const LockGuard lock(mutex_);
    Entry& entry = files_.at(file.identity());
    --entry.writers;
    entry.closing = true;
}

void FileTable::hand_over(const StagedFile& file) noexcept {
    {
        const LockGuard lock(mutex_);
        files_.at(file.identity()).closed_by = {};
    }
    closed_.notify_all();   // the end of the process waits for threads of the program
}

bool FileTable::end_handle(const std::shared_ptr<StagedFile>& file, bool last_writer) noexcept {
    std::optional<ledger::FileCounters> closed;
    std::shared_ptr<cache::CachedFile> cached;
    bool gone = false;
    {
        const LockGuard lock(mutex_);
        const auto found = files_.find(file->identity());
        Entry& entry = found->second;
        if (last_writer) {
            // Without memory there is no line of statistics.
            (void)attempt([&] { closed = file->counters(); });
            entry.closing = false;
            entry.closed_by = {};
            entry.being_written.reset();
            entry.writing.reset();
        }
        // A file whose newest bytes are in the log only stays known.
        const bool left = file->lifecycle().failed() || file->lifecycle().leaves_log();
        // Another program's content is not written over: nothing of ours can be in flight.
        if (left && !file->lifecycle().left_to_others() && entry.writers == 0 && entry.slot != nullptr)
            ledger::set_use(*entry.slot, ledger::FileUse::kLeft);
        if (--entry.handles == 0 && !left) {
            cached = std::move(entry.cached);
            forget(found);
            gone = true;
        }
    }
    if (cached != nullptr) {
        cached->close();
        read_cache_.note_closed(*cached);
    }
    closed_.notify_all();
    if (closed) (void)attempt([&] { statistics_.tell_closed(*closed); });
    return gone;
}

void FileTable::forget(std::map<io::Identity, Entry>::iterator found) {
    const Entry& entry = found->second;
    if (entry.slot != nullptr && entry.slot != entry.own_slot.get()) area_.ledger().give_back(entry.slot);
    files_.erase(found);
}

std::shared_ptr<StagedFile> FileTable::find(const io::Identity& identity) {
    const LockGuard lock(mutex_);
    const auto found = files_.find(identity);
    return found == files_.end() ? nullptr : found->second.file;
}

std::shared_ptr<cache::CachedFile> FileTable::cached(const io::Identity& identity) {
    const LockGuard lock(mutex_);
    const auto found = files_.find(identity);
    return found == files_.end() ? nullptr : found->second.cached;
}

void FileTable::opened_again(const io::Identity& identity) noexcept {
    if (context_.options().read_cache == ReadCacheMode::kOff) return;
    if (const auto file = cached(identity)) read_cache_.opened_again(*file);
}

void FileTable::compare_cached() noexcept {
    if (context_.options().read_cache == ReadCacheMode::kOff || context_.inherited()) return;
    (void)attempt([&] {
        for (const auto& file : read_through_cache()) (void)attempt([&] { file->look_again(); });
    });
}

bool FileTable::only_read(const StagedFile& file) noexcept {
    const LockGuard lock(mutex_);
    const auto found = files_.find(file.identity());
    return found != files_.end() && found->second.writers == 0 && !found->second.closing &&
           !file.lifecycle().failed() && !file.lifecycle().leaves_log() && !file.staged();
}

std::vector<std::shared_ptr<StagedFile>> FileTable::all() {
    const LockGuard lock(mutex_);
    std::vector<std::shared_ptr<StagedFile>> files;
    files.reserve(files_.size());
    for (const auto& [identity, entry] : files_) files.push_back(entry.file);
    return files;
}

std::vector<FileTable::Written> FileTable::written() {
    const LockGuard lock(mutex_);
    std::vector<Written> files;
    for (const auto& [identity, entry] : files_)
        if (entry.writers > 0 && entry.writing != nullptr) files.push_back({entry.file, entry.writing});
    return files;
}

Status FileTable::step_aside(const io::Identity& identity, ledger::AsideReason reason) {
    std::shared_ptr<Writing> writing;
    {
        const LockGuard lock(mutex_);
        if (const auto found = files_.find(identity); found != files_.end()) writing = found->second.writing;
    }
    return writing != nullptr ? writing->step_aside(reason) : Status::ok();
}

std::vector<std::shared_ptr<cache::CachedFile>> FileTable::read_through_cache() {
    const LockGuard lock(mutex_);
    std::vector<std::shared_ptr<cache::CachedFile>> files;
    for (const auto& [identity, entry] : files_)
        if (entry.cached != nullptr) files.push_back(entry.cached);
    return files;
}

std::uint64_t FileTable::pending_bytes() noexcept {
    const LockGuard lock(mutex_);
    std::uint64_t bytes = 0;
    for (const auto& [identity, entry] : files_)
        if (entry.slot != nullptr) bytes += entry.slot->pending.load(std::memory_order_relaxed);
    return bytes;
}

void FileTable::await_threads_closing() noexcept {
    const auto self = std::this_thread::get_id();
    {
        const LockGuard lock(mutex_);
        const auto other_thread_closes = [&](const auto& item) {
            return item.second.closed_by != std::thread::id() && item.second.closed_by != self;
        };
        while (std::any_of(files_.begin(), files_.end(), other_thread_closes)) closed_.wait(mutex_);
        ended_ = true;
    }
    closed_.notify_all();
}

Status FileTable::await_process_end(const StagedFile& file) noexcept {
    {
        const LockGuard lock(mutex_);
        while (!ended_) closed_.wait(mutex_);
    }
    if (!file.lifecycle().failed() && !file.lifecycle().leaves_log()) return Status::ok();
    return attempt([&] {
        return Status(
            Code::kUnavailable,
            fmt::format("close {}: the process ends, and some staged bytes were not written; run `forebay recover`",
                        file.path()));
    });
}

void FileTable::note_all_left() noexcept {
    const LockGuard lock(mutex_);
    for (const auto& [identity, entry] : files_)
        if (entry.slot != nullptr) ledger::set_use(*entry.slot, ledger::FileUse::kLeft);
}

void FileTable::clear() noexcept {
    std::map<io::Identity, Entry> files;
    const LockGuard lock(mutex_);
    files.swap(files_);
}

void FileTable::lock_for_fork() {
    mutex_.lock();
    given_addresses_.mutex_.lock();
    for (auto& [identity, entry] : files_) entry.file->state().mutex().lock();
}

void FileTable::unlock_after_fork() {
    for (auto& [identity, entry] : files_) entry.file->state().mutex().unlock();
    given_addresses_.mutex_.unlock();
    mutex_.unlock();
}

}   // namespace forebay::stage
