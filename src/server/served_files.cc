#include "server/served_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "area/staging_area.h"
#include "base/attempt.h"
#include "io/made_file.h"
#include "io/open_existing.h"
#include "io/posix_file.h"
#include "server/opening.h"
#include "server/saving_target.h"

namespace forebay::server {

namespace {

Status another_file(const std::string& path) {
    return {Code::kUnsupported, fmt::format("{}: the server finds another file there", path)};
}

// The client has stopped waiting, and may use the file itself.
Status client_gone(const std::string& path) {
    return {Code::kUnavailable, fmt::format("open {}: its client is gone", path), ECONNRESET};
}

// A server that cannot see or write the file has no bytes of it.
Result<io::OpenedExisting> open_named(const std::string& path) {
    auto opened = io::open_existing(path);
    const Code why = opened.status().code();
    if (why != Code::kNotFound && why != Code::kPermissionDenied && why != Code::kInvalidArgument) return opened;
    return Status(Code::kUnsupported, opened.status().message(), opened.status().sys_errno());
}

bool of_one_team(const wire::Open::Team& one, const wire::Open::Team& other) noexcept {
    return one.id == other.id && one.members == other.members;
}

Status not_at_its_end(const std::string& path) {
    return {Code::kUnavailable, fmt::format("open {}: the server still drains the bytes of its writer", path)};
}

Status unknown_team(const std::string& path) {
    return {
        Code::kUnavailable,
        fmt::format(
            "open {}: no other rank of the program has opened it at this server; name the same server for all ranks",
            path)};
}

}   // namespace

Result<io::OpenedExisting> open_as_named(const wire::Open& request) {
    auto opened = open_named(request.path);
    if (opened && opened.value().identity != request.identity) return another_file(request.path);
    return opened;
}

// The inode number could belong to another file, on a file system of another machine. The birth time decides if both
// sides know it. Otherwise a file opened for writing must look as the client sees it, unless this server changes it.
Status ServedFiles::recognise(wire::Open& request) {
    auto opened = open_named(request.path);
    if (!opened) return opened.status();
    const io::Identity& here = opened.value().identity;
    const auto file = io::make_posix_file(opened.value().descriptor, request.path);
    const auto state = file->state();
    if (!state) return state.status();
    const io::FileState& now = state.value();
    const wire::Open::Seen seen = request.seen;
    const bool births = seen.born_ns != 0 && now.born_ns != 0;
    if (here.inode != request.identity.inode || file->traits().local || (births && seen.born_ns != now.born_ns))
        return another_file(request.path);
    request.identity = here;
    const bool as_seen = seen.modified_ns == 0 ||
                         seen == wire::Open::Seen{seen.born_ns, now.size, now.modified_ns, now.changed_ns};
    if (births || as_seen) return Status::ok();
    const std::lock_guard lock(mutex_);
    if (open_.contains(here)) return Status::ok();
    return {Code::kUnavailable,
            fmt::format("{}: size or times differ from those that the client sees, so it may be another file",
                        request.path)};
}

void ServedFiles::forget_unrecovered(const io::Identity& identity) noexcept {
    const std::lock_guard lock(mutex_);
    unrecovered_.erase(identity);
}

// A program that reads the file natively often has it locked. Recovery then fails again.
Status ServedFiles::recover_file_late(const wire::Open& request) {
    const auto recovered = stage::Engine::create(options_)->leftovers().recover_opened({request.identity, request.path,
                                                                                        true});
    if (recovered) forget_unrecovered(request.identity);
    return recovered.status();
}

std::set<io::Identity> ServedFiles::unrecovered() const {
    const std::lock_guard lock(mutex_);
    return unrecovered_;
}

std::size_t ServedFiles::clients() const {
    std::size_t all = 0;
    for (const auto& [identity, written] : open_) all += written.clients;
    return all;
}

LoadedOptions ServedFiles::options_of(const wire::Open::Team& team) const {
    LoadedOptions loaded = options_;
    loaded.options.size *= std::max<std::uint64_t>(1, team.members);
    return loaded;
}

// Returns null if the request is not that of a further member.
Result<std::shared_ptr<ServedFile>> ServedFiles::join(const wire::Open& request) {
    if (!request.team.joins) return std::shared_ptr<ServedFile>();
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(request.identity);
    if (found == open_.end() || !of_one_team(found->second.team, request.team) || found->second.ends)
        return unknown_team(request.path);
    std::shared_ptr<ServedFile> served = found->second.served.lock();
    if (served == nullptr) return unknown_team(request.path);
    if (found->second.sessions >= request.team.members)
        return Status(Code::kInvalidArgument, fmt::format("open {}: its team is complete", request.path));
    ++found->second.sessions;
    return served;
}

Result<bool> ServedFiles::enter(const wire::Open& request) {
    const io::Identity& identity = request.identity;
    const std::string& path = request.path;
    const std::size_t members = std::max<std::size_t>(1, request.team.members);
    std::unique_lock lock(mutex_);
    const auto left = [&] { return !open_.contains(identity); };
    const auto ends = [&] {
        const auto found = open_.find(identity);
        return found == open_.end() || (found->second.ends && !found->second.failed);
    };
    if (!wait_at_most(lock, kUnknown, ends))
        return Status(Code::kUnavailable, fmt::format("open {}: another client writes it", path), EBUSY);
    if (!wait_with_patience(lock, left))
        return Status(
            Code::kUnavailable,
            fmt::format(
                "open {}: another client wrote it, and its bytes did not drain within {} seconds (option patience)",
                path, options_.options.patience),
            EBUSY);
    if (ends_) return Status(Code::kUnavailable, fmt::format("open {}: this server is ending", path));
    const bool room = clients() + members <= clients_max_;
    Written& written = open_.emplace(identity, Written{}).first->second;
    written.team = request.team;
    written.clients = room ? members : 0;
    return room;
}

void ServedFiles::await_writers() noexcept {
    std::unique_lock lock(mutex_);
    left_.wait(lock, [&] { return std::ranges::all_of(open_, [](const auto& each) { return each.second.failed; }); });
    ends_ = true;
}

std::shared_ptr<Observers> ServedFiles::observers_of(const wire::Open& request) {
    const std::lock_guard lock(mutex_);
    std::erase_if(observers_, [](const auto& known) { return known.second.expired(); });
    auto& known = observers_[request.identity];
    auto observers = known.lock();
    if (observers == nullptr) known = observers = std::make_shared<Observers>(options_of(request.team).options.size);
    return observers;
}

// Makes a file without a name, which ends with the server.
Result<std::unique_ptr<io::File>> ServedFiles::make_store() {
    auto area = area::enter_staging_area(options_);
    if (!area) return area.status();
    std::string name;
    {
        const std::lock_guard lock(mutex_);
        name = fmt::format("snapshot-{}-{}", ::getpid(), ++stores_);
    }
    (void)area.value().directory->remove_file(name);   // left by a dead server with the same process number
    auto store = area.value().directory->open_file(name, io::OpenMode::kCreateNew);
    if (!store) return store.status();
    FOREBAY_TRY(area.value().directory->remove_file(name));
    return store;
}

// A native read needs the complete file, so this recovers it first. Drops the lock.
Status ServedFiles::nobody_writes(const wire::Open& request, std::unique_lock<std::mutex>& lock) {
    const bool unrecovered = unrecovered_.contains(request.identity);
    lock.unlock();
    if (unrecovered)
        if (const Status late = recover_file_late(request); !late) return {Code::kUnavailable, late.message()};
    return {Code::kUnsupported, fmt::format("{}: no client of this server writes it", request.path)};
}

template <class Over>
bool ServedFiles::wait_with_patience(std::unique_lock<std::mutex>& lock, Over over) {
    const std::uint64_t patience = options_.options.patience;
    if (patience != 0) return wait_at_most(lock, std::chrono::seconds(patience), over);
    left_.wait(lock, over);
    return true;
}

template <class Over>
bool ServedFiles::wait_at_most(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds at_most, Over over) {
    const std::uint64_t end_ns = clock_->now_ns() + static_cast<std::uint64_t>(at_most.count());
    while (!over()) {
        if (clock_->now_ns() >= end_ns) return false;
        left_.wait_until(lock, clock_->wake_at(end_ns));
    }
    return true;
}

// A file that is being closed is complete in a moment. A file that is being opened may need recovery first.
bool ServedFiles::await_settled(std::unique_lock<std::mutex>& lock, const io::Identity& identity) {
    const auto settled = [&] {
        const auto found = open_.find(identity);
        return found == open_.end() || found->second.file != nullptr || found->second.failed;
    };
    if (!wait_with_patience(lock, settled)) return false;
    const auto found = open_.find(identity);
    return found == open_.end() || found->second.file != nullptr;
}

Result<std::unique_ptr<ServedSnapshot>> ServedFiles::open_to_read(const wire::Open& request) {
    auto opened = open_as_named(request);
    if (!opened) return opened.status();
    const io::Identity& identity = request.identity;
    std::unique_ptr<io::File> target = io::make_posix_file(opened.value().descriptor, request.path);
    if (reach_) target = reach_(std::move(target));
    std::shared_ptr<stage::StagedFile> file;
    std::shared_ptr<Observers> observers;
    {
        std::unique_lock lock(mutex_);
        if (const auto known = team_snapshots_.find(request.team.id); known != team_snapshots_.end()) {
            auto shared = known->second.snapshot.lock();
            if (shared == nullptr || known->second.identity != identity) return unknown_team(request.path);
            return std::make_unique<ServedSnapshot>(known->second.observers, std::move(shared), std::move(target));
        }
        if (request.team.joins) return unknown_team(request.path);
        if (!await_settled(lock, identity)) return not_at_its_end(request.path);
        const auto found = open_.find(identity);
        if (found == open_.end()) return nobody_writes(request, lock);
        file = found->second.file;
        observers = found->second.observers;
        ++found->second.copying;
    }
    std::shared_ptr<Snapshot> snapshot;
    Status outcome = attempt([&]() -> Status {
        auto made = observers->open_snapshot(*file, *target, [this] { return make_store(); });
        if (made) snapshot = std::move(made).value();
        return made.status();
    });
    file.reset();
    {
        const std::lock_guard lock(mutex_);
        --open_.at(identity).copying;
        std::erase_if(team_snapshots_, [](const auto& known) { return known.second.snapshot.expired(); });
        if (outcome && request.team.id != 0)
            outcome = attempt([&] {
                team_snapshots_[request.team.id] = {identity, observers, snapshot};
                return Status::ok();
            });
    }
    left_.notify_all();
    if (!outcome) return Status(Code::kUnavailable, fmt::format("{}: {}", request.path, outcome.message()));
    return std::make_unique<ServedSnapshot>(std::move(observers), std::move(snapshot), std::move(target));
}

Result<std::shared_ptr<Observers>> ServedFiles::open_to_follow(const wire::Open& request) {
    if (const auto opened = open_as_named(request); !opened) return opened.status();
    std::unique_lock lock(mutex_);
    if (!await_settled(lock, request.identity)) return not_at_its_end(request.path);
    const auto found = open_.find(request.identity);
    if (found == open_.end()) return nobody_writes(request, lock);
    return found->second.observers;
}

Result<std::shared_ptr<ServedFile>> ServedFiles::open(const wire::Open& request, wire::Connection& client) {
    auto opened = open_as_named(request);
    if (!opened) return opened.status();
    auto joined = join(request);
    if (!joined || joined.value() != nullptr) return joined;
    std::shared_ptr<ServedFile> served(new ServedFile(*this, request.identity, request.path));
    const auto room = enter(request);
    if (!room) return room.status();
    served->entered_ = true;   // nothing between may throw: an entry without an owner would stay
    if (client.socket().hung_up()) return client_gone(request.path);
    if (request.continues) FOREBAY_TRY(last_writers_.may_continue(request));
    served->descriptor_ = std::move(opened.value().descriptor);
    // A member of a team may end before the others, and has nothing locked.
    const int passed = request.team.id == 0 ? client.take_passed() : -1;
    served->writers_ = std::make_shared<Writers>(std::make_unique<io::HandedLock>(served->descriptor_, request.identity,
                                                                                  passed));
    if (!room.value()) {
        FOREBAY_TRY(recover_file(*served, request, *stage::Engine::create(options_)));
        return leave_to_client(
            *served, request, fmt::format("this server would have more than {} clients (--clients-max)", clients_max_));
    }
    served->observers_ = observers_of(request);
    FOREBAY_TRY(attach(*served, request, client));
    served->ended_ = false;
    {
        const std::lock_guard lock(mutex_);
        unrecovered_.erase(request.identity);   // it has been recovered, or emptied
        Written& written = open_.at(request.identity);
        written.served = served;
        written.file = served->file_;
        written.observers = served->observers_;
    }
    left_.notify_all();
    return served;
}

Status ServedFiles::leave_to_client(ServedFile& served, const wire::Open& request, const std::string& why) {
    FOREBAY_TRY(last_writers_.leaves(request));
    served.noted_ = request.writer;
    forget_unrecovered(request.identity);
    return {Code::kUnsupported, fmt::format("open {}: {}", request.path, why), EUSERS};
}

// Recovery uses the client's lock. A team and a program without locks have none, so recovery takes it, or fails.
Status ServedFiles::recover_file(ServedFile& served, const wire::Open& request, stage::Engine& engine) {
    auto descriptor = request.locked ? served.descriptor_ : nullptr;
    stage::Leftovers::OpenedFile file{served.identity_, served.path_, true, request.locked, std::move(descriptor)};
    file.all_readable = request.continues;   // an unreadable log may have what the client has flushed
    const auto told = engine.leftovers().recover_opened(std::move(file));
    if (told && !told.value().empty()) report_(told.value());
    return told.status();
}

Status ServedFiles::attach(ServedFile& served, const wire::Open& request, wire::Connection& client) {
    served.engine_ = stage::Engine::create(options_of(request.team));
    stage::Engine& engine = *served.engine_;
    if (!request.empty) FOREBAY_TRY(recover_file(served, request, engine));   // this may make room
    const auto obstacle = engine.area().obstacle();
    if (obstacle && options_.options.stage) {
        if (request.empty) FOREBAY_TRY(recover_file(served, request, engine));
        return leave_to_client(served, request, "this server cannot stage it: " + obstacle->status.message());
    }
    std::unique_ptr<io::File> itself = io::make_posix_file(served.descriptor_, served.path_);
    const std::shared_ptr<io::File> file = reach_ ? reach_(std::move(itself)) : std::move(itself);
    stage::OpenTarget target{std::make_unique<SavingTarget>(file, served.observers_, served.writers_), true};
    if (request.empty) {
        FOREBAY_TRY(engine.leftovers().may_forget(served.identity_, served.path_));
        target.prepare = [&]() -> Status {
            if (client.socket().hung_up()) return client_gone(served.path_);
            served.observers_->before_write(*file, {0, kOffsetMax});
            FOREBAY_TRY(io::empty(*served.descriptor_, served.path_));
            return engine.leftovers().forget_before(served.identity_, served.path_, true);
        };
    }
    FOREBAY_TRY(last_writers_.opens(request));
    served.noted_ = request.writer;
    auto attached = engine.attach(std::move(target));
    if (!attached) return attached.status();
    served.file_ = std::move(attached.value().file);
    served.observers_->opened();
    return Status::ok();
}

}   // namespace forebay::server
