#include "node/shared_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <set>
#include <string_view>

#include "base/attempt.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "io/posix_file.h"
#include "node/meeting.h"

namespace forebay::node {

// What a member tells the others of itself when a file is opened.
struct Introduction {
    area::ProcessIdentity process;
    std::uint64_t staged = 0;   // 0: this member cannot stage
    std::uint64_t log = 0;      // number of its log
    std::uint64_t segment_bytes = 0;
    std::uint64_t segments_max = 0;   // that its log can have
    std::uint64_t durable = 0;        // 1: durability=node
    std::string_view node;            // members that say the same share memory
    std::string_view directory;       // its process directory on the staging area
};

namespace {

// Between two questions to a node whose bytes a read waits for.
constexpr std::chrono::milliseconds kAskAgain{1};

using Bytes = std::vector<std::byte>;

void put(Bytes& to, const void* from, std::size_t size) {
    const auto* const at = static_cast<const std::byte*>(from);
    to.insert(to.end(), at, at + size);
}

Bytes encode(const Introduction& mine) {
    Bytes told;
    const std::array<std::uint64_t, 9> numbers{mine.process.pid, mine.process.start_ticks, mine.staged,
                                               mine.log,         mine.segment_bytes,       mine.segments_max,
                                               mine.node.size(), mine.directory.size(),    mine.durable};
    put(told, numbers.data(), sizeof numbers);
    put(told, mine.process.boot_id.data(), mine.process.boot_id.size());
    put(told, mine.node.data(), mine.node.size());
    put(told, mine.directory.data(), mine.directory.size());
    return told;
}

// What it names lies in `told`.
Result<Introduction> decode(io::Bytes told) {
    std::array<std::uint64_t, 9> numbers{};
    Introduction one;
    const std::size_t fixed = sizeof numbers + one.process.boot_id.size();
    if (told.size() >= fixed) std::memcpy(numbers.data(), told.data(), sizeof numbers);
    if (told.size() < fixed || told.size() - fixed != numbers[6] + numbers[7])
        return Status(Code::kInternal, "another rank runs another forebay");
    one.process.pid = numbers[0];
    one.process.start_ticks = numbers[1];
    std::memcpy(one.process.boot_id.data(), told.data() + sizeof numbers, one.process.boot_id.size());
    one.staged = numbers[2];
    one.log = numbers[3];
    one.segment_bytes = numbers[4];
    one.segments_max = numbers[5];
    one.durable = numbers[8];
    const auto* const text = reinterpret_cast<const char*>(told.data() + fixed);
    one.node = {text, numbers[6]};
    one.directory = {text + numbers[6], numbers[7]};
    return one;
}

Result<std::unique_ptr<io::File>> open_in(std::string_view directory, const std::string& name) {
    auto door = io::open_posix_directory(std::string(directory));
    if (!door) return door.status();
    return door.value()->open_file(name, io::OpenMode::kReadWrite);
}

using group::board_name;

std::string unstaged(const Status& why) { return why.message() + " (no rank stages the file)"; }

// Unlike that of any other shared file whose logs may lie in the same staging area.
std::uint64_t group_of(const Introduction& drainer) noexcept {
    std::array<std::byte, sizeof drainer.process + sizeof drainer.log> named;
    std::memcpy(named.data(), &drainer.process, sizeof drainer.process);
    std::memcpy(named.data() + sizeof drainer.process, &drainer.log, sizeof drainer.log);
    return checksum(named) | 1;
}

}   // namespace

SharedFile::SharedFile(std::shared_ptr<stage::Engine> engine, std::shared_ptr<Team> team)
    : engine_(std::move(engine)), team_(std::move(team)) {}

SharedFile::~SharedFile() {
    // Only after an open that failed: nothing is staged yet.
    if (attached_) (void)engine_->detach(file_, true);
}

// What this member can say of itself, and, in `warning`, to the user.
Status SharedFile::introduce(Result<stage::OpenTarget>&& opened, Introduction& me, std::string& warning) {
    FOREBAY_TRY(opened.status());
    forwarded_ = opened.value().file->forwarded() != nullptr;
    auto attached = engine_->attach(std::move(opened).value());
    FOREBAY_TRY(attached.status());
    file_ = std::move(attached.value().file);
    attached_ = true;
    warning = std::move(attached.value().warning);
    if (file_->shared())
        return {Code::kUnsupported, fmt::format("open {}: it is open for writing already, with another communicator "
                                                "or by an open that has not been closed",
                                                file_->path())};
    const Options& options = engine_->options().options;
    const auto process = area::identify_this_process();
    FOREBAY_TRY(process.status());
    me.process = process.value();
    me.staged = file_->staged() ? 1 : 0;
    // Without room for a log this member cannot stage, and so none of them does.
    if (const Status room = me.staged != 0 ? file_->take_first_segment() : Status::ok(); !room) {
        me.staged = 0;
        if (options.strict || room.code() != Code::kNoSpace) return room;
        warning = unstaged(room);
    }
    me.log = file_->log_number();
    me.segment_bytes = options.segment;
    me.segments_max = std::max<std::uint64_t>(2, options.size / options.segment) + 2;
    me.durable = options.durability == Durability::kNode ? 1 : 0;
    if (io::Directory* const directory = engine_->area().directory()) me.directory = directory->name();
    return Status::ok();
}

Result<SharedFile::Opened> SharedFile::open(std::shared_ptr<stage::Engine> engine, Result<stage::OpenTarget> opened,
                                            std::shared_ptr<Team> team) {
    Opened result;
    std::shared_ptr<SharedFile> self;
    Introduction me;
    std::string node;
    Bytes introduction;
    std::vector<Introduction> all;
    std::vector<std::size_t> members;
    const Status introduced = attempt([&] {
        all.resize(static_cast<std::size_t>(team->size()));
        members.reserve(all.size());
        node = engine->area().node_name();
        me.node = node;
        self = std::shared_ptr<SharedFile>(new SharedFile(std::move(engine), team));
        const Status mine = self->introduce(std::move(opened), me, result.warning);
        introduction = encode(me);
        return mine;
    });
    const auto told = team->gather(introduced, introduction);
    if (!told) return told.status();
    // All find the same, and need no memory for it.
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        auto one = decode(told.value()[rank]);
        if (!one) return one.status();
        all[rank] = one.value();
        if (all[rank].node == node) members.push_back(rank);
        else self->several_nodes_ = true;
    }
    // For all ranks; a warning is not worth failing for.
    const auto warn = [&](auto&& text) {
        if (team->rank() != 0) return;
        (void)attempt([&] { result.warning += (result.warning.empty() ? "" : "; ") + text(); });
    };
    self->drains_ = members.front() == static_cast<std::size_t>(team->rank());
    if (std::any_of(all.begin(), all.end(), [](const Introduction& one) { return one.staged == 0; })) {
        // All or none: nobody sees the other's staged bytes otherwise.
        FOREBAY_TRY(self->stay_unstaged());
    } else {
        const auto wants = [](const Introduction& one) { return one.durable != 0; };
        self->durable_ = !self->several_nodes_ && std::all_of(all.begin(), all.end(), wants);
        if (!self->durable_ && std::any_of(all.begin(), all.end(), wants))
            warn([&] {
                return fmt::format(
                    "{} is opened by {}: durability=node does not hold for it, a flush outlives the processes only",
                    self->file_->path(),
                    self->several_nodes_ ? "several nodes" : "ranks of which not all have durability=node");
            });
        if (self->several_nodes_) {
            const auto begun = self->begin_consistency(group_of(all.front()), me.process);
            if (!begun) return begun.status();
            if (!begun.value().empty()) warn([&] { return begun.value(); });
        }
        const Status joined = self->join_node(members, all);
        if (joined.code() == Code::kNoSpace && self->group_ == nullptr) {
            // That is the same for all, and none has joined: the drainer of a node has no room for the board.
            if (team->rank() == 0) result.warning.clear();
            warn([&] { return unstaged(joined); });
            FOREBAY_TRY(self->stay_unstaged());
        } else {
            if (!joined) self->leave_board(all[members.front()].log);
            FOREBAY_TRY(joined);
        }
    }
    self->attached_ = false;
    result.file = std::move(self);
    result.file->attached_ = true;
    return result;
}

// Everything is written through, as nobody has a log. What another member has written is there at once.
Status SharedFile::stay_unstaged() {
    durable_ = false;
    if (journal_ != nullptr) FOREBAY_TRY(end_consistency());
    return team_->agree(attempt([&] {
        if (!file_->staged()) return Status::ok();   // counted when it was attached
        engine_->count_never_staged(ledger::AsideReason::kStagingArea);
        return file_->step_aside(ledger::AsideReason::kStagingArea);
    }));
}

// The drainer makes the board, all others open it, and everybody the logs of everybody.
Status SharedFile::join_node(const std::vector<std::size_t>& members, const std::vector<Introduction>& all) {
    const Introduction& drainer = all[members.front()];
    engine_->area().share_reserve(members.size());
    Result<group::Board> board = Status(Code::kInternal, "no board");
    const Status mine = attempt([&] { return drains_ ? make_board(members, all, board) : Status::ok(); });
    Status made = team_->agree(mine);
    if (!made && mine) remove_board(drainer.log);   // that of another node failed
    if (!made) return made;
    FOREBAY_TRY(team_->agree(attempt([&] { return share_board(members, all, board); })));
    if (durable_) FOREBAY_TRY(team_->agree(attempt([&] { return drains_ ? begin_statements() : Status::ok(); })));
    return several_nodes_ ? expose_to_others(all) : Status::ok();
}

Status SharedFile::make_board(const std::vector<std::size_t>& members, const std::vector<Introduction>& all,
                              Result<group::Board>& board) {
    const Introduction& drainer = all[members.front()];
    std::uint64_t ring = 0;
    for (const std::size_t rank : members) ring = std::max(ring, all[rank].segments_max);
    auto file = engine_->area().directory()->open_file(board_name(drainer.log), io::OpenMode::kCreateNew);
    const Status made = attempt([&] {
        if (file) board = group::Board::create(std::move(file).value(), members.size(), ring, group_of(drainer));
        else board = file.status();
        return board.status();
    });
    if (file && !made) remove_board(drainer.log);
    // Not what all take for a reason to go on without staging.
    if (!made && engine_->options().options.strict) return {Code::kUnavailable, made.message(), made.sys_errno()};
    return made;
}

Status SharedFile::share_board(const std::vector<std::size_t>& members, const std::vector<Introduction>& all,
                               Result<group::Board>& board) {
    const Introduction& drainer = all[members.front()];
    const auto self = static_cast<std::uint64_t>(
        std::find(members.begin(), members.end(), static_cast<std::size_t>(team_->rank())) - members.begin());
    std::set<std::string_view> nodes;
    for (const Introduction& one : all) nodes.insert(one.node);
    if (!drains_) {
        auto file = open_in(drainer.directory, board_name(drainer.log));
        FOREBAY_TRY(file.status());
        board = group::Board::open(std::move(file).value(), members.size());
        FOREBAY_TRY(board.status());
    }
    std::vector<area::ProcessIdentity> processes;
    std::vector<std::string> directories;
    for (const std::size_t rank : members) {
        processes.push_back(all[rank].process);
        directories.emplace_back(all[rank].directory);
    }
    group_ = std::make_shared<group::Group>(group::Group::Setup{
        std::move(board).value(), self, 0, std::move(processes), file_->stripe(), several_nodes_, durable_,
        several_nodes_ ? group_of(all.front()) : 0, nodes.size(), journal_ != nullptr, std::move(directories)});
    Status mine;
    for (std::size_t i = 0; i < members.size() && mine; ++i) {
        const Introduction& one = all[members[i]];
        std::unique_ptr<io::File> pool;
        if (!drains_ || i != self) {
            auto file = open_in(one.directory, "log");
            mine = file.status();
            if (mine) pool = std::move(file).value();
        }
        group_->add_log(std::move(pool), one.segment_bytes);
    }
    FOREBAY_TRY(mine);
    FOREBAY_TRY(file_->join(group_, several_nodes_));
    FOREBAY_TRY(group_->lost());
    if (!drains_) return Status::ok();
    return group_->listen([file = std::weak_ptr(file_)](bool room_wanted) {
        if (const auto alive = file.lock()) alive->poll_group(room_wanted);
    });
}

// All come to nothing, and nobody has written. The board goes last: without it recovery could not tell what the logs
// mean.
void SharedFile::leave_board(std::uint64_t log) noexcept {
    remove_journal();
    attached_ = false;
    if (team_->agree(engine_->detach(file_, true))) remove_board(log);
}

// By the drainer, who made it. Where it cannot be removed recovery does.
void SharedFile::remove_board(std::uint64_t log) noexcept {
    if (!drains_) return;
    (void)attempt([&] { return engine_->area().directory()->remove_file(board_name(log)); });
}

// All have joined, and nobody has written: the board and the beginning of every log are on the device.
Status SharedFile::begin_statements() {
    FOREBAY_TRY(file_->begin_statements());
    return engine_->area().directory()->sync();
}

// The drainer of every node lets the others see what it has not drained yet.
Status SharedFile::expose_to_others(const std::vector<Introduction>& all) {
    const Status known = attempt([&] {
        std::set<std::string_view> seen{all[static_cast<std::size_t>(team_->rank())].node};
        for (std::size_t rank = 0; rank < all.size(); ++rank)
            if (seen.insert(all[rank].node).second) other_drainers_.push_back(static_cast<int>(rank));
    });
    std::span<std::byte> mine;
    if (drains_) mine = std::as_writable_bytes(std::span(&group_->exposed(), 1));
    const Status exposed = attempt([&] {
        auto window = team_->expose(mine);
        if (window) window_ = std::move(window).value();
        return window.status();
    });
    return team_->agree(known ? exposed : known);
}

// Until every other node has drained what it had staged for these places when the call began.
Status SharedFile::await_others(std::span<const ByteRange> places) {
    const auto region_of = [](std::uint64_t offset) { return offset / group::Exposed::kRegionBytes; };
    std::uint64_t first = UINT64_MAX, last = 0;
    for (const ByteRange& place : places) {
        first = std::min(first, region_of(place.begin));
        last = std::max(last, region_of(place.end - 1));
    }
    if (first > last) return Status::ok();
    const std::uint64_t count = std::min(last - first + 1, group::Exposed::kMarks);
    std::vector<std::uint64_t> marks(count);
    for (const int drainer : other_drainers_) {
        // Marks are a ring: at most two pieces.
        const std::uint64_t begin = first % group::Exposed::kMarks,
                            front = std::min(count, group::Exposed::kMarks - begin);
        const auto bytes = std::as_writable_bytes(std::span(marks));
        const auto offset_of = [](std::uint64_t mark) {
            return offsetof(group::Exposed, marks) + mark * sizeof(std::uint64_t);
        };
        FOREBAY_TRY(window_->read(drainer, offset_of(begin), bytes.first(front * sizeof(std::uint64_t))));
        if (front < count)
            FOREBAY_TRY(window_->read(drainer, offset_of(0), bytes.subspan(front * sizeof(std::uint64_t))));
        std::uint64_t needed = 0;
        for (const ByteRange& place : places) {
            const std::uint64_t from = region_of(place.begin), to = region_of(place.end - 1);
            for (std::uint64_t region = from; region <= to && region - from < count; ++region)
                needed = std::max(needed, marks[(region - first) % count]);
        }
        for (std::uint64_t clean = 0; needed > 0;) {
            FOREBAY_TRY(window_->read(drainer, offsetof(group::Exposed, clean),
                                      std::as_writable_bytes(std::span(&clean, 1))));
            if (clean == group::Exposed::kCannotDrain)
                return {
                    Code::kUnavailable,
                    fmt::format("read {}: rank {}, which drains for another node, cannot write what is staged there",
                                file_->path(), drainer)};
            if (clean >= needed) break;
            // Another node cannot wake this one. A word that nobody raises makes for a pause.
            static constexpr io::SharedWord kNobodyRaises{0};
            io::wait_while(kNobodyRaises, 0, kAskAgain);
        }
    }
    return Status::ok();
}

Status SharedFile::write(std::span<const stage::StagedFile::Part> parts, stage::ByteClass byte_class, bool together) {
    if (parts.empty()) return Status::ok();
    Status written = attempt([&] {
        return several_nodes_ && together ? file_->write_bypassing(parts) : file_->write(parts, byte_class);
    });
    if (written && group_ != nullptr && !group_->lost().is_ok())
        written = copy_of(group_->lost(), "board lost");   // nobody may see it
    if (written && read_around_ && byte_class == stage::ByteClass::kRaw)
        written = attempt([&] { return file_->drain_present(); });
    if (!written) defer_error(copy_of(written, "a write failed"), byte_class);
    return written;
}

void SharedFile::defer_error(Status failure, stage::ByteClass of) noexcept {
    Status& kept = of == stage::ByteClass::kMetadata ? incomplete_ : untold_;
    if (kept.is_ok()) kept = std::move(failure);
}

// For all ranks, at a commit or the close.
Status SharedFile::take_deferred_error() noexcept {
    Status told = std::exchange(untold_, Status::ok());
    if (!incomplete_) return copy_of(incomplete_, "a write failed");
    return told;
}

Status SharedFile::read(std::span<const stage::StagedFile::ReadPart> parts) {
    if (window_ != nullptr) {
        // One question for all of them: each is a message to every other node.
        std::vector<ByteRange> places;
        places.reserve(parts.size());
        for (const auto& part : parts)
            if (!part.into.empty()) places.push_back({part.offset, part.offset + part.into.size()});
        FOREBAY_TRY(await_others(places));
    }
    return file_->read(parts);
}

// A member alone cannot have all of them step aside.
Status SharedFile::expose_offsets() {
    if (group_ == nullptr) return file_->expose_offsets();
    file_->note_addresses_given();
    read_around_ = true;
    return file_->drain_present();
}

// By MPI, not asleep on the board: what another rank still waits for in MPI may need this one to be in MPI too.
Status SharedFile::meet() {
    const Meeting meeting(journal_.get());
    return team_->barrier();
}

Status SharedFile::agree(const Status& mine) {
    const Meeting meeting(journal_.get());
    return team_->agree(mine);
}

Status SharedFile::agree_on_write(const Status& mine) {
    const Status outcome = agree(mine);
    untold_ = Status::ok();   // all know
    if (group_ != nullptr && drains_ && !several_nodes_) (void)attempt([&] { file_->collective_write_done(); });
    return outcome;
}

// Whether this member does what one does for all of its node; or, of a file that a server has, for all.
bool SharedFile::acts() const noexcept { return forwarded_ ? team_->rank() == 0 : drains_ || group_ == nullptr; }

// Everybody has made its writes; the drainers act; nobody goes on before they have.
template <class Act>
Status SharedFile::by_drainers(Act&& act, Untold untold) {
    const std::uint64_t begin_ns = monotonic_ns();
    // With a write missing it is no state to come back to.
    FOREBAY_TRY(untold == Untold::kTell ? agree(take_deferred_error()) : meet());
    Status mine;
    if (acts()) mine = attempt(act);
    if (group_ != nullptr && drains_) group_->marked();
    if (mine && group_ != nullptr) mine = copy_of(group_->lost(), "board lost");
    Status all = agree(mine);
    if (group_ != nullptr && !drains_) file_->waited_since(begin_ns);   // those who drain have been timed in it
    return all;
}

Status SharedFile::truncate(std::uint64_t size) {
    if (several_nodes_ && group_ != nullptr) {
        // Nothing is staged anywhere after that, so the target alone is cut or extended.
        FOREBAY_TRY(settle());
        FOREBAY_TRY(agree(attempt([&] { return team_->rank() == 0 ? file_->resize_beside(size) : Status::ok(); })));
        const Status noted = attempt([&] { return file_->note_size(size); });
        if (drains_) group_->marked();
        return agree(noted);
    }
    FOREBAY_TRY(by_drainers([&] { return file_->truncate(size); }));
    if (forwarded_) return attempt([&] { return acts() ? Status::ok() : file_->note_size(size); });
    if (!drains_ && group_ != nullptr)
        if (Status followed = attempt([&] { return file_->truncate(size); }); !followed)
            defer_error(std::move(followed), stage::ByteClass::kRaw);
    return Status::ok();
}

Status SharedFile::commit() {
    if (journal_ != nullptr) {
        FOREBAY_TRY(agree(take_deferred_error()));
        return commit_consistently();
    }
    if (several_nodes_ && !forwarded_) return by_drainers([&] { return file_->drain(); }, Untold::kTell);
    // All at a time; the drainer syncs what was written since, if anything was.
    if (durable_) FOREBAY_TRY(agree(attempt([&] { return file_->sync_own_log(); })));
    return by_drainers(
        [&] {
            const Status committed = file_->commit();
            return committed ? file_->drain() : committed;
        },
        Untold::kTell);
}

Status SharedFile::settle() {
    if (!several_nodes_ || group_ == nullptr) return Status::ok();
    return by_drainers([&] { return file_->drain(); });
}

Status SharedFile::await_drained() {
    if (!on_several_nodes()) return Status::ok();
    FOREBAY_TRY(attempt([&] { return drains_ ? file_->drain() : group_->log().await_drained(); }));
    const ByteRange everything{0, group::Exposed::kMarks * group::Exposed::kRegionBytes};
    return attempt([&] { return await_others({&everything, 1}); });
}

Result<bool> SharedFile::any(bool mine) {
    const Meeting meeting(journal_.get());
    const auto all = team_->agree(Status::ok(), mine ? 1 : 0);
    if (!all) return all.status();
    return std::ranges::count(all.value(), 0u) < static_cast<std::ptrdiff_t>(all.value().size());
}

Status SharedFile::step_aside(ledger::AsideReason reason) {
    const Status outcome = by_drainers([&] { return file_->step_aside(reason); });
    if (!outcome || group_ == nullptr) return outcome;
    Status mine;
    // If this fails there may be something to be undone still; the file is written through all the same, as the
    // drainers do already.
    const Status ended = journal_ != nullptr ? end_consistency() : Status::ok();
    if (drains_) group_->stop_listening();
    else mine = attempt([&] { return file_->go_through(reason); });
    window_.reset();
    group_.reset();
    const Status met = team_->agree(mine);
    // Last, as when the file is closed.
    if (met) remove_board(file_->log_number());
    return met ? ended : met;
}

}   // namespace forebay::node
