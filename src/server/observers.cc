#include "server/observers.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "io/forwarding_file.h"
#include "recover/superblock.h"

namespace forebay::server {

namespace {

constexpr std::size_t kHistoryMax = 4096;

// A snapshot as a file, for HDF5's consistency mark in it.
class SnapshotView final : public io::ForwardingFile {
  public:
    SnapshotView(Snapshot& snapshot, io::File& file)
        : ForwardingFile(std::shared_ptr<io::File>(std::shared_ptr<void>(), &file)), snapshot_(snapshot) {}
    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override {
        const std::uint64_t left = offset < snapshot_.size() ? snapshot_.size() - offset : 0;
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), left));
        FOREBAY_TRY(snapshot_.read(file(), offset, into.first(count)));
        return count;
    }
    Status write_at(std::uint64_t offset, io::Bytes bytes) override { return snapshot_.replace(offset, bytes); }
    Result<std::uint64_t> size() override { return snapshot_.size(); }

  private:
    Snapshot& snapshot_;
};

}   // namespace

void Observers::opened() {
    const std::lock_guard lock(mutex_);
    ++generation_;
    newest_.reset();
    given_up_ = written_ = commits_ = 0;
    previous_ = std::exchange(present_, {});
    ++writers_;
    for (io::Event* const follower : followers_) follower->signal();
}

void Observers::committed(const stage::StagedFile& file) {
    // Comes before the lock: the file's own lock is the outer one.
    const ledger::FileCounters counters = file.counters();
    const std::uint64_t size = file.size();
    const std::lock_guard lock(mutex_);
    if (counters.commits == commits_) return;
    ++generation_;
    newest_.reset();
    const std::uint64_t written = counters.staged + counters.through;
    present_.commits.push_back({present_.last_number + 1, realtime_ns(), size, written - written_});
    if (present_.commits.size() > kHistoryMax) present_.commits.pop_front();
    ++present_.last_number;
    commits_ = counters.commits;
    written_ = written;
    given_up_ = counters.guarantee_given_up;
    for (io::Event* const follower : followers_) follower->signal();
}

void Observers::failed() noexcept {
    std::shared_ptr<const Live> live;
    {
        const std::lock_guard lock(mutex_);
        live = live_;
    }
    if (live == nullptr) return;
    for (const auto& known : *live)
        if (const auto snapshot = known.lock())
            snapshot->give_up({Code::kUnavailable, "the file could not be flushed or closed"});
}

void Observers::ended(wire::Commits::Writer how) {
    std::shared_ptr<const Live> live;
    std::shared_ptr<Snapshot> newest;
    {
        const std::lock_guard lock(mutex_);
        present_.writer = how;
        for (io::Event* const follower : followers_) follower->signal();
        live = live_;
        newest = newest_.lock();
    }
    if (how != wire::Commits::Writer::kGone || live == nullptr) return;
    for (const auto& known : *live)
        if (const auto snapshot = known.lock(); snapshot != nullptr && snapshot != newest)
            snapshot->give_up({Code::kUnavailable, "its writer is gone, and the file is at a later flush"});
}

void Observers::before_write(io::File& file, ByteRange range) noexcept {
    std::shared_ptr<const Live> live;
    {
        const std::lock_guard lock(mutex_);
        live = live_;
    }
    if (live == nullptr) return;
    for (const auto& known : *live)
        if (const auto snapshot = known.lock()) snapshot->save(file, range);
}

class Observers::Keeper final : public stage::CommitKeeper {
  public:
    Keeper(Observers& observers, std::shared_ptr<Snapshot> snapshot) noexcept
        : observers_(observers), snapshot_(std::move(snapshot)) {}

    // From here on each write first calls the snapshot.
    Status begin(State state) override {
        const std::lock_guard lock(observers_.mutex_);
        if (state.given_up != observers_.given_up_)
            return {Code::kUnavailable,
                    "bytes reached the file after the last flush, for lack of room: there is no complete state before "
                    "the next flush"};
        if (state.size == 0) return {Code::kUnavailable, "its writer has not flushed it yet"};
        return attempt([&] {
            auto live = std::make_shared<Live>();
            if (observers_.live_ != nullptr)
                for (const auto& known : *observers_.live_)
                    if (!known.expired()) live->push_back(known);
            live->push_back(snapshot_);
            snapshot_->begin(state.size, state.elsewhere);
            observers_.live_ = std::move(live);
            generation_ = observers_.generation_;
        });
    }
    Status take(std::uint64_t offset, io::Bytes bytes) override { return snapshot_->put(offset, bytes); }
    [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }

  private:
    Observers& observers_;
    const std::shared_ptr<Snapshot> snapshot_;
    std::uint64_t generation_ = 0;
};

Result<std::shared_ptr<Snapshot>> Observers::open_snapshot(stage::StagedFile& file, io::File& target,
                                                           const MakeStore& make_store) {
    const std::lock_guard opening(opening_);
    {
        const std::lock_guard lock(mutex_);
        if (auto newest = newest_.lock(); newest != nullptr && newest->failure()) return newest;
    }
    auto store = make_store();
    if (!store) return store.status();
    const auto snapshot = std::make_shared<Snapshot>(std::move(store).value(), account_);
    Keeper keeper(*this, snapshot);
    FOREBAY_TRY(file.reader().copy_committed(keeper));
    SnapshotView view(*snapshot, target);
    if (const auto cleared = recover::clear_open_mark(view); !cleared) return cleared.status();
    FOREBAY_TRY(snapshot->failure());
    const std::lock_guard lock(mutex_);
    if (keeper.generation() == generation_) newest_ = snapshot;
    return snapshot;
}

Observers::Following::Following(Observers& observers, io::Event& event) : observers_(observers), event_(event) {
    const std::lock_guard lock(observers_.mutex_);
    observers_.followers_.insert(&event_);
}

Observers::Following::~Following() {
    const std::lock_guard lock(observers_.mutex_);
    observers_.followers_.erase(&event_);
}

std::uint64_t Observers::writers() const {
    const std::lock_guard lock(mutex_);
    return writers_;
}

wire::Commits Observers::after(std::uint64_t number, std::uint64_t writer) const {
    const std::lock_guard lock(mutex_);
    if (writer + 1 < writers_) return {{}, wire::Commits::Writer::kGone, 0};
    const Story& story = writer == writers_ ? present_ : previous_;
    wire::Commits news{{}, story.writer, 0};
    const std::uint64_t oldest = story.commits.empty() ? story.last_number + 1 : story.commits.front().number;
    if (number < oldest - 1) news.missed = oldest - number - 1;
    for (const wire::Commit& commit : story.commits) {
        if (commit.number <= number) continue;
        // The writer's end comes with its last commit.
        if (news.commits.size() == wire::kCommitsMax) {
            news.writer = wire::Commits::Writer::kWrites;
            break;
        }
        news.commits.push_back(commit);
    }
    return news;
}

}   // namespace forebay::server
