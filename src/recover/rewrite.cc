#include "recover/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "io/guarded_access.h"
#include "io/page_buffer.h"

namespace forebay::recover {

namespace {

// The largest write and its alignment: whole stripes of most file systems.
constexpr std::uint64_t kWriteBytes = 8 << 20;

// Shorter pieces of a log are copied from its mapping, since a system call for each would cost more.
constexpr std::uint64_t kReadFrom = 32 << 10;
constexpr std::size_t kPiecesMax = 16384;
constexpr std::uint64_t kLookBytes = 1 << 20;

// A log, mapped if possible. After `look` any thread may copy.
class Source {
  public:
    // Checks before any change of the target that [at, at + bytes) is readable.
    Status look(io::File& file, std::uint64_t at, std::uint64_t bytes) {
        if (file_ == nullptr) {
            file_ = &file;
            const auto size = file.size();
            if (!size) return size.status();
            size_ = size.value();
            if (auto mapping = size_ > 0 ? file.map(0, size_) : Status(Code::kNotFound, ""))
                mapping_ = std::move(mapping).value();
            looked_.resize(size_ / kLookBytes + 1);
        }
        if (at > size_ || bytes > size_ - at) return shorter(at, bytes);
        for (const std::uint64_t end = at + bytes; at < end;) {
            const std::uint64_t window = at / kLookBytes, until = std::min(end, (window + 1) * kLookBytes);
            if (!looked_[window]) {
                const ByteRange whole{window * kLookBytes, std::min(size_, (window + 1) * kLookBytes)};
                // If an unneeded part is unreadable, check the needed ones one by one.
                if (mapping_ != nullptr && mapping_->present(mapped(whole.begin, whole.size()))) looked_[window] = true;
                else FOREBAY_TRY(look_closely(at, until - at));
            }
            at = until;
        }
        return Status::ok();
    }
    Status copy(std::uint64_t at, io::MutableBytes into) const {
        if (mapping_ != nullptr && into.size() < kReadFrom) {
            const io::Bytes from = mapped(at, into.size());
            if (io::guarded(from, [&]() noexcept { std::memcpy(into.data(), from.data(), from.size()); }) == nullptr)
                return Status::ok();
        }
        return read(at, into);
    }

  private:
    [[nodiscard]] io::Bytes mapped(std::uint64_t at, std::uint64_t bytes) const {
        return io::Bytes(mapping_->bytes()).subspan(at, bytes);
    }
    Status read(std::uint64_t at, io::MutableBytes into) const {
        const auto got = file_->read_at(at, into);
        if (!got) return got.status();
        return got.value() == into.size() ? Status::ok() : shorter(at, into.size());
    }
    Status look_closely(std::uint64_t at, std::uint64_t bytes) const {
        if (mapping_ != nullptr && mapping_->present(mapped(at, bytes))) return Status::ok();
        std::vector<std::byte> there(bytes);   // at most kLookBytes
        return read(at, there);
    }
    Status shorter(std::uint64_t at, std::uint64_t bytes) const {
        return {Code::kCorrupt,
                fmt::format("read {} bytes at offset {} of {}: it has become shorter", bytes, at, file_->name())};
    }

    io::File* file_ = nullptr;
    std::uint64_t size_ = 0;
    std::unique_ptr<io::Mapping> mapping_;
    std::vector<bool> looked_;   // by window
};

// Two threads: while one writes, the other reads the next piece or writes too. The writes are disjoint, in any order.
class Copying {
  public:
    Copying(const Picture& picture, std::span<const Source> logs, io::File& target, Rewritten& done,
            const std::function<void(std::uint64_t)>& written)
        : picture_(picture),
          logs_(logs),
          target_(target),
          done_(done),
          written_(written),
          end_(picture.size.value_or(kOffsetMax)) {}

    Status run(const task::StartThread& start_thread) {
        task::Engine engine({.threads_max = 1, .start_thread = start_thread});
        const task::Submitted second = engine.submit({.run = [this] {
            work();
            return Status::ok();
        }});
        const Status own = attempt([this] { work(); });
        if (second.has_thread) (void)engine.wait(second.task);
        // Taken work was written, or is in failure_. A thread without memory takes no work; the other may do it all.
        if (!failure_) return failure_;
        return all_taken_ ? Status::ok() : own;
    }

  private:
    struct Piece {
        std::uint32_t log;
        std::uint64_t at, bytes;
    };
    // The extents of one write: adjoining in the file, up to the next multiple of kWriteBytes.
    struct Batch {
        ByteRange range;
        std::vector<Piece> pieces;   // of `range`, in order; at most kPiecesMax
    };

    void work() {
        const io::PageBuffer buffer(std::min(kWriteBytes, picture_.bytes));
        for (Batch batch; take(batch);) {
            Status status = attempt([&] { return carry_out(batch, buffer.bytes()); });
            const bool written = status.is_ok();
            {
                const std::lock_guard lock(mutex_);
                if (written) {
                    done_.bytes += batch.range.size();
                    ++done_.writes;
                } else if (failure_) {
                    failure_ = std::move(status);
                }
            }
            if (!written || !written_) continue;
            const std::lock_guard telling(telling_);
            written_(batch.range.size());
        }
    }
    bool take(Batch& batch) {
        const std::lock_guard lock(mutex_);
        batch.range = {};
        batch.pieces.clear();
        if (!failure_ || all_taken_) return false;
        picture_.newest.walk_from(next_, [&](ByteRange extent, const Newest& newest) {
            if (newest.log == Newest::kZeros && batch.range.empty()) return extent.end < end_;
            const std::uint64_t begin = batch.range.empty() ? std::max(extent.begin, next_) : batch.range.end;
            if (newest.log == Newest::kZeros || extent.begin > begin || begin >= end_) return false;
            if (batch.range.empty()) batch.range = {begin, begin};
            const std::uint64_t bytes = std::min({extent.end - begin, end_ - begin, kWriteBytes - begin % kWriteBytes});
            batch.pieces.push_back({newest.log, newest.advanced(begin - extent.begin).at, bytes});
            batch.range.end += bytes;
            return batch.range.end == extent.end && batch.range.end % kWriteBytes != 0 &&
                   batch.pieces.size() < kPiecesMax;
        });
        if (batch.range.empty()) all_taken_ = true;
        else next_ = batch.range.end;
        return !all_taken_;
    }
    Status carry_out(const Batch& batch, io::MutableBytes buffer) {
        const std::uint64_t size = batch.range.size();
        if (size > buffer.size())
            return {Code::kInternal,
                    fmt::format("{} bytes of {} are {} in the map", buffer.size(), target_.name(), size)};
        io::MutableBytes left = buffer;
        for (const Piece& piece : batch.pieces) {
            FOREBAY_TRY(logs_[piece.log].copy(piece.at, left.first(piece.bytes)));
            left = left.subspan(piece.bytes);
        }
        FOREBAY_TRY(target_.write_at(batch.range.begin, buffer.first(size)));
        // The device works while the next pieces are read.
        target_.begin_sync(batch.range.begin, size);
        return Status::ok();
    }

    const Picture& picture_;   // under mutex_: walking it needs turns
    const std::span<const Source> logs_;
    io::File& target_;
    Rewritten& done_;                                     // under mutex_
    const std::function<void(std::uint64_t)>& written_;   // under telling_
    const std::uint64_t end_;
    std::mutex telling_;       // separate: the callback may block while the other thread reads
    std::mutex mutex_;         // never taken together with telling_
    std::uint64_t next_ = 0;   // under mutex_: all before it was taken
    bool all_taken_ = false;   // under mutex_
    Status failure_;           // under mutex_: the first one
};

Status zero(io::File& target, ByteRange range) {
    const Status punched = target.punch(range.begin, range.size());
    if (punched || punched.sys_errno() != EOPNOTSUPP) return punched;
    const std::vector<std::byte> zeros(std::min(range.size(), kWriteBytes));
    while (!range.empty()) {
        const auto piece = std::span(zeros).first(std::min<std::uint64_t>(range.size(), zeros.size()));
        FOREBAY_TRY(target.write_at(range.begin, piece));
        range.begin += piece.size();
    }
    return Status::ok();
}

}   // namespace

Result<Rewritten> rewrite(const Picture& picture, std::span<io::File* const> logs, io::File& target, bool clear_mark,
                          const std::function<void(std::uint64_t)>& written, const task::StartThread& start_thread) {
    Rewritten done;
    const auto size_before = target.size();
    if (!size_before) return size_before.status();
    const std::uint64_t size = picture.size.value_or(size_before.value());
    const ByteRange all{0, picture.size.value_or(kOffsetMax)};

    std::vector<Source> sources(logs.size());
    Status failure;
    picture.newest.for_each(all, [&](ByteRange range, const Newest& newest) {
        if (failure && newest.log != Newest::kZeros)
            failure = sources[newest.log].look(*logs[newest.log], newest.at, range.size());
    });
    if (!failure) return failure;

    // Zeros up to the end are a cut. Others matter only where the target has bytes.
    std::uint64_t cut_from = kOffsetMax;   // zeros from here to the end
    picture.newest.for_each(all, [&](ByteRange range, const Newest& newest) {
        cut_from = newest.log == Newest::kZeros && range.end == size ? range.begin : kOffsetMax;
        if (!failure || newest.log != Newest::kZeros || range.end == size) return;
        const ByteRange there = range.intersect({0, size_before.value()});
        if (!there.empty()) failure = zero(target, there);
    });
    if (!failure) return failure;
    if (cut_from < size_before.value()) FOREBAY_TRY(target.resize(cut_from));
    const std::uint64_t end_max = std::max(std::min(cut_from, size_before.value()), size);

    if (picture.bytes > 0) FOREBAY_TRY(Copying(picture, sources, target, done, written).run(start_thread));

    if (picture.size) {
        const auto now = target.size();
        if (!now) return now.status();
        if (now.value() > end_max)
            return Status(Code::kUnsupported,
                          fmt::format("{}: others have made it {} bytes long while it was being recovered",
                                      target.name(), now.value()));
        if (now.value() != size) FOREBAY_TRY(target.resize(size));
        done.size = size;
    }
    if (clear_mark) {
        const auto mark = clear_open_mark(target);
        if (!mark) return mark.status();
        done.mark = mark.value();
    }
    FOREBAY_TRY(target.sync());
    if (!picture.size) {
        const auto now = target.size();
        if (!now) return now.status();
        done.size = now.value();
    }
    return done;
}

}   // namespace forebay::recover
