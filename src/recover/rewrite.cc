#include "recover/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "io/guarded_access.h"

namespace forebay::recover {

namespace {

// Largest single write, and what it is aligned to: whole stripes of most file systems.
constexpr std::uint64_t kWriteBytes = 8 << 20;

// Pieces of a log that are shorter are copied before they are written: a write takes a bounded number of pieces.
constexpr std::uint64_t kCopyBelow = 32 << 10;
// The log is looked through in steps of this.
constexpr std::uint64_t kLookBytes = 1 << 20;

// A log, mapped if that can be had: its bytes then go from the page cache to the target without a copy between. What cannot be
// had that way is read.
class Source {
  public:
    // Nothing of the target was touched yet: whether [at, at + bytes) is there, and can be had.
    Status look(io::File& file, std::uint64_t at, std::uint64_t bytes) {
        if (file_ == nullptr) {
            file_ = &file;
            const auto size = file.size();
            if (!size) return size.status();
            size_ = size.value();
            if (auto mapping = size_ > 0 ? file.map(0, size_) : Status(Code::kNotFound, "")) mapping_ = std::move(mapping).value();
            looked_.resize(size_ / kLookBytes + 1);
        }
        if (at > size_ || bytes > size_ - at) return shorter(at, bytes);
        for (const std::uint64_t end = at + bytes; at < end;) {
            const std::uint64_t window = at / kLookBytes, until = std::min(end, (window + 1) * kLookBytes);
            if (!looked_[window]) {
                const ByteRange whole{window * kLookBytes, std::min(size_, (window + 1) * kLookBytes)};
                // Where a part that nobody needs cannot be had, the others are looked at one by one.
                if (mapping_ != nullptr && mapping_->present(mapped(whole.begin, whole.size()))) looked_[window] = true;
                else FOREBAY_TRY(look_closely(at, until - at));
            }
            at = until;
        }
        return Status::ok();
    }
    [[nodiscard]] bool is_mapped() const noexcept { return mapping_ != nullptr; }
    [[nodiscard]] io::Bytes mapped(std::uint64_t at, std::uint64_t bytes) const { return io::Bytes(mapping_->bytes()).subspan(at, bytes); }
    Status read(std::uint64_t at, io::MutableBytes into) {
        const auto got = file_->read_at(at, into);
        if (!got) return got.status();
        return got.value() == into.size() ? Status::ok() : shorter(at, into.size());
    }
    Status copy(std::uint64_t at, io::MutableBytes into) {
        if (mapping_ != nullptr) {
            const io::Bytes from = mapped(at, into.size());
            if (io::guarded(from, [&]() noexcept { std::memcpy(into.data(), from.data(), from.size()); }) == nullptr) return Status::ok();
        }
        return read(at, into);
    }

  private:
    Status look_closely(std::uint64_t at, std::uint64_t bytes) {
        if (mapping_ != nullptr && mapping_->present(mapped(at, bytes))) return Status::ok();
        std::vector<std::byte> there(bytes);   // at most kLookBytes
        return read(at, there);
    }
    Status shorter(std::uint64_t at, std::uint64_t bytes) const {
        return {Code::kCorrupt, fmt::format("read {} bytes at offset {} of {}: it has become shorter", bytes, at, file_->name())};
    }

    io::File* file_ = nullptr;
    std::uint64_t size_ = 0;
    std::unique_ptr<io::Mapping> mapping_;
    std::vector<bool> looked_;   // by window
};

// Gathers extents that adjoin in the file, up to the next multiple of kWriteBytes.
class Writer {
  public:
    Writer(std::span<Source> logs, io::File& target, Rewritten& done, const std::function<void(std::uint64_t)>& written, std::uint64_t bytes)
        : logs_(logs), target_(target), done_(done), written_(written), buffer_(std::min(kWriteBytes, bytes)) {}

    Status add(ByteRange range, const Newest& newest) {
        std::uint64_t from = newest.at;
        while (!range.empty()) {
            if (range.begin != pending_.end || pending_.end % kWriteBytes == 0) {
                FOREBAY_TRY(flush());
                pending_ = {range.begin, range.begin};
            }
            const std::uint64_t until = std::min(range.end, (range.begin / kWriteBytes + 1) * kWriteBytes);
            FOREBAY_TRY(take(logs_[newest.log], from, until - range.begin));
            from += until - range.begin;
            pending_.end = range.begin = until;
        }
        return Status::ok();
    }
    Status flush() {
        if (pending_.empty()) return Status::ok();
        std::vector<io::Bytes> bytes;
        bytes.reserve(pieces_.size());
        for (const Piece& piece : pieces_)
            bytes.push_back(piece.log == nullptr ? io::Bytes(buffer_).subspan(piece.at, piece.bytes) : piece.log->mapped(piece.at, piece.bytes));
        Status wrote = target_.write_gather_at(pending_.begin, bytes);
        // The system could not load a page of the mapping. Reading tells why, or has the bytes after all.
        if (!wrote && wrote.sys_errno() == EFAULT) {
            std::uint64_t into = 0;
            for (const Piece& piece : pieces_) {
                if (piece.log != nullptr) FOREBAY_TRY(piece.log->read(piece.at, std::span(buffer_).subspan(into, piece.bytes)));
                into += piece.bytes;
            }
            wrote = target_.write_at(pending_.begin, std::span(buffer_).first(pending_.size()));
        }
        FOREBAY_TRY(wrote);
        // The device is at work while the next ones are copied.
        target_.begin_sync(pending_.begin, pending_.size());
        done_.bytes += pending_.size();
        ++done_.writes;
        if (written_) written_(pending_.size());
        pending_ = {};
        pieces_.clear();
        return Status::ok();
    }

  private:
    struct Piece {
        Source* log;        // null: it is in the buffer
        std::uint64_t at, bytes;
    };
    // Each has its place in the buffer, be it used or not.
    Status take(Source& log, std::uint64_t at, std::uint64_t bytes) {
        if (bytes >= kCopyBelow && log.is_mapped()) {
            pieces_.push_back({&log, at, bytes});
            return Status::ok();
        }
        FOREBAY_TRY(log.copy(at, std::span(buffer_).subspan(pending_.size(), bytes)));
        if (!pieces_.empty() && pieces_.back().log == nullptr) pieces_.back().bytes += bytes;
        else pieces_.push_back({nullptr, pending_.size(), bytes});
        return Status::ok();
    }

    std::span<Source> logs_;
    io::File& target_;
    Rewritten& done_;
    const std::function<void(std::uint64_t)>& written_;
    std::vector<std::byte> buffer_;
    ByteRange pending_;
    std::vector<Piece> pieces_;   // of `pending_`, in order
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
                          const std::function<void(std::uint64_t)>& written) {
    Rewritten done;
    const auto size_before = target.size();
    if (!size_before) return size_before.status();
    const std::uint64_t size = picture.size.value_or(size_before.value());
    const ByteRange all{0, picture.size.value_or(kOffsetMax)};

    // All that is needed of the logs, before anything is changed.
    std::vector<Source> sources(logs.size());
    Status failure;
    picture.newest.for_each(all, [&](ByteRange range, const Newest& newest) {
        if (failure && newest.log != Newest::kZeros) failure = sources[newest.log].look(*logs[newest.log], newest.at, range.size());
    });
    if (!failure) return failure;

    // Zeros up to the end are a cut; those in between matter only where the target has bytes.
    std::uint64_t cut_from = kOffsetMax;   // zeros from here to the end
    picture.newest.for_each(all, [&](ByteRange range, const Newest& newest) {
        cut_from = newest.log == Newest::kZeros && range.end == size ? range.begin : kOffsetMax;
        if (!failure || newest.log != Newest::kZeros || range.end == size) return;
        const ByteRange there = range.intersect({0, size_before.value()});
        if (!there.empty()) failure = zero(target, there);
    });
    if (!failure) return failure;
    if (cut_from < size_before.value()) FOREBAY_TRY(target.resize(cut_from));

    Writer writer(sources, target, done, written, picture.bytes);
    picture.newest.for_each(all, [&](ByteRange range, const Newest& newest) {
        if (failure && newest.log != Newest::kZeros) failure = writer.add(range, newest);
    });
    if (!failure) return failure;
    FOREBAY_TRY(writer.flush());

    if (picture.size) {
        const auto now = target.size();
        if (!now) return now.status();
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
