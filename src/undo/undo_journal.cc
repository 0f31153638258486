#include "undo/undo_journal.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/checksum.h"
#include "base/clock.h"
#include "io/forwarding_file.h"

namespace forebay::undo {

UndoJournal::UndoJournal(std::unique_ptr<io::File> file, std::uint64_t size, std::uint64_t bytes_max)
    : file_(std::move(file)), bytes_max_(bytes_max), limit_(size) {
    state_.decided_size = state_.prepared_size = size;
}

Result<std::unique_ptr<UndoJournal>> UndoJournal::create(std::unique_ptr<io::File> file, const UndoHeader& header,
                                                         std::uint64_t size, std::uint64_t bytes_max) {
    if (header.path.size() > kUndoPathMax)
        return Status(Code::kUnsupported, header.path + ": its path is too long for an undo journal");
    std::vector<std::byte> front(kUndoFrontBytes);
    encode(header, front);
    std::unique_ptr<UndoJournal> journal(new UndoJournal(std::move(file), size, bytes_max));
    journal->state_.serial = 1;
    encode(journal->state_, std::span(front).subspan(undo_state_at(1), kUndoStateBytes));
    // One call writes the front: a shorter file is no journal yet, and no rank has overwritten anything then.
    FOREBAY_TRY(journal->file_->write_at(0, front));
    return journal;
}

Status UndoJournal::write_state(const UndoState& state) {
    FOREBAY_TRY(write_undo_state(*file_, state_.serial, state));
    const std::uint64_t serial = state_.serial + 1;
    state_ = state;
    state_.serial = serial;
    return Status::ok();
}

std::uint64_t UndoJournal::number() const {
    const std::lock_guard lock(mutex_);
    return epoch_;
}

std::uint64_t UndoJournal::decided() const {
    const std::lock_guard lock(mutex_);
    return state_.decided;
}

bool UndoJournal::is_being_copied(ByteRange range) const noexcept {
    return std::any_of(being_copied_.begin(), being_copied_.end(),
                       [&](ByteRange other) { return !range.intersect(other).empty(); });
}

std::uint64_t UndoJournal::begin_overwriting(ByteRange range, io::File& target) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !preparing_; });
    ++overwriting_;
    range = range.intersect({0, limit_});
    if (range.empty()) return 0;
    // A thread that copies some of these bytes may overwrite them after that, before this thread looks.
    changed_.wait(lock, [&] { return !is_being_copied(range); });
    try {
        being_copied_.push_back(range);
        const std::uint64_t lost = copy_missing(range, target, lock);
        std::erase(being_copied_, range);
        changed_.notify_all();
        return lost;
    } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        std::erase(being_copied_, range);
        --overwriting_;   // the caller will not call end_overwriting
        changed_.notify_all();
        throw;
    }
}

void UndoJournal::end_overwriting() noexcept {
    const std::lock_guard lock(mutex_);
    if (--overwriting_ == 0) changed_.notify_all();
}

std::uint64_t UndoJournal::copy_missing(ByteRange range, io::File& target, std::unique_lock<std::mutex>& lock) {
    std::vector<ByteRange> missing;
    preserved_.for_each_gap(range, [&](ByteRange gap) { missing.push_back(gap); });
    std::uint64_t lost = 0;
    for (const ByteRange gap : missing)
        for (std::uint64_t at = gap.begin; at < gap.end;) {
            const ByteRange piece{at, std::min(gap.end, at + kUndoPayloadMax)};
            if (!copy(piece, target, lock)) {
                give_up(piece.size());
                lost += piece.size();
            }
            preserved_.add(piece);
            at = piece.end;
        }
    return lost;
}

// Appends one record. Drops the lock while it reads the target.
bool UndoJournal::copy(ByteRange piece, io::File& target, std::unique_lock<std::mutex>& lock) {
    const std::uint64_t whole = undo_record_bytes(piece.size());
    if (end_ + whole > kUndoFrontBytes + bytes_max_) return false;
    UndoRecord record{0, phase_.load(), 0, piece, realtime_ns(), 0};
    lock.unlock();
    std::vector<std::byte> payload;
    bool read = false;
    try {
        payload.resize(whole - kUndoRecordBytes);   // bytes that the target lacks are zeros
        read = target.read_at(piece.begin, std::span(payload).first(piece.size())).status().is_ok();
        if (read) record.payload_checksum = checksum(std::span<const std::byte>(payload).first(piece.size()));
    } catch (const std::bad_alloc&) {
    }
    lock.lock();
    if (!read || end_ + whole > kUndoFrontBytes + bytes_max_) return false;
    record.phase_end = phase_.load();
    record.epoch = epoch_;
    std::array<std::byte, kUndoRecordBytes> head{};
    encode(record, head);
    const std::array<io::Bytes, 2> pieces{head, payload};
    if (!file_->write_gather_at(end_, pieces)) {
        (void)file_->resize(end_);
        return false;
    }
    end_ += whole;
    preserved_bytes_ += piece.size();
    return true;
}

// The next commit resets this count.
void UndoJournal::give_up(std::uint64_t bytes) {
    UndoState state = state_;
    state.given_up += bytes;
    (void)write_state(state);
}

Status UndoJournal::prepare(std::uint64_t size) {
    std::unique_lock lock(mutex_);
    preparing_ = true;
    changed_.wait(lock, [this] { return overwriting_ == 0; });
    preparing_ = false;
    changed_.notify_all();
    UndoState state = state_;
    state.prepared = epoch_;
    state.prepared_size = size;
    // Bytes overwritten after this point are kept for the next commit, and for this one too if it fails.
    ++epoch_;
    preserved_.clear();
    end_of_prepared_ = end_;
    limit_ = std::max(state_.decided_size, size);
    return write_state(state);
}

Status UndoJournal::decide() {
    const std::lock_guard lock(mutex_);
    UndoState state = state_;
    state.decided = state.prepared;
    state.decided_size = state.prepared_size;
    state.decided_ns = realtime_ns();
    state.given_up = 0;
    FOREBAY_TRY(write_state(state));
    limit_ = state.decided_size;
    // The next commit has no preserved bytes yet, so the journal begins anew.
    if (end_ == end_of_prepared_ && end_ != kUndoFrontBytes && file_->resize(kUndoFrontBytes)) end_ = kUndoFrontBytes;
    return Status::ok();
}

Status UndoJournal::close() {
    const std::lock_guard lock(mutex_);
    UndoState state = state_;
    state.closed = true;
    FOREBAY_TRY(write_state(state));
    limit_ = 0;
    return Status::ok();
}

namespace {

class GuardedFile final : public io::ForwardingFile {
  public:
    GuardedFile(std::shared_ptr<io::File> target, std::shared_ptr<UndoJournal> journal, GivenUp given_up)
        : ForwardingFile(std::move(target)), journal_(std::move(journal)), given_up_(std::move(given_up)) {}

    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        return overwrite({offset, offset + bytes.size()}, [&] { return file().write_at(offset, bytes); });
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        std::uint64_t end = offset;
        for (const io::Bytes& piece : pieces) end += piece.size();
        return overwrite({offset, end}, [&] { return file().write_gather_at(offset, pieces); });
    }
    Status resize(std::uint64_t size) override {
        return overwrite({size, kOffsetMax}, [&] { return file().resize(size); });
    }
    Status punch(std::uint64_t offset, std::uint64_t length) override {
        return overwrite({offset, offset + length}, [&] { return file().punch(offset, length); });
    }
    Result<std::unique_ptr<io::Mapping>> map(std::uint64_t, std::size_t) override {
        return Status(Code::kUnsupported, "map " + file().name() + ": its bytes are preserved before they change");
    }

  private:
    template <class Act>
    Status overwrite(ByteRange range, Act&& act) {
        const std::uint64_t lost = journal_->begin_overwriting(range, file());
        if (lost > 0 && given_up_) given_up_(lost);
        const Status outcome = act();
        journal_->end_overwriting();
        return outcome;
    }
    const std::shared_ptr<UndoJournal> journal_;
    const GivenUp given_up_;
};

}   // namespace

std::shared_ptr<io::File> make_guarded_file(std::shared_ptr<io::File> target, std::shared_ptr<UndoJournal> journal,
                                            GivenUp given_up) {
    return std::make_shared<GuardedFile>(std::move(target), std::move(journal), std::move(given_up));
}

}   // namespace forebay::undo
