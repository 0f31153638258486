#include "recover/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace forebay::recover {

namespace {

// Largest single write, and what it is aligned to: whole stripes of most file systems.
constexpr std::uint64_t kWriteBytes = 8 << 20;

// Gathers extents that adjoin in the file, up to the next multiple of kWriteBytes.
class Writer {
  public:
    Writer(std::span<io::File* const> logs, io::File& target, Rewritten& done, const std::function<void(std::uint64_t)>& written)
        : logs_(logs), target_(target), done_(done), written_(written), buffer_(kWriteBytes) {}

    Status add(ByteRange range, const Newest& newest) {
        std::uint64_t from = newest.at;
        while (!range.empty()) {
            if (range.begin != pending_.end || pending_.end % kWriteBytes == 0) {
                FOREBAY_TRY(flush());
                pending_ = {range.begin, range.begin};
            }
            const std::uint64_t until = std::min(range.end, (range.begin / kWriteBytes + 1) * kWriteBytes);
            const auto into = std::span(buffer_).subspan(pending_.size(), until - range.begin);
            io::File& log = *logs_[newest.log];
            const auto got = log.read_at(from, into);
            if (!got) return got.status();
            if (got.value() != into.size())
                return {Code::kCorrupt, fmt::format("read {} bytes at offset {} of {}: it has become shorter", into.size(), from, log.name())};
            from += into.size();
            pending_.end = range.begin = until;
        }
        return Status::ok();
    }
    Status flush() {
        if (pending_.empty()) return Status::ok();
        FOREBAY_TRY(target_.write_at(pending_.begin, std::span(buffer_).first(pending_.size())));
        done_.bytes += pending_.size();
        ++done_.writes;
        if (written_) written_(pending_.size());
        pending_ = {};
        return Status::ok();
    }

  private:
    std::span<io::File* const> logs_;
    io::File& target_;
    Rewritten& done_;
    const std::function<void(std::uint64_t)>& written_;
    std::vector<std::byte> buffer_;
    ByteRange pending_;
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

    // Zeros up to the end are a cut; those in between matter only where the target has bytes.
    Status failure;
    std::uint64_t cut_from = kOffsetMax;   // zeros from here to the end
    picture.newest.for_each(all, [&](ByteRange range, const Newest& newest) {
        cut_from = newest.log == Newest::kZeros && range.end == size ? range.begin : kOffsetMax;
        if (!failure || newest.log != Newest::kZeros || range.end == size) return;
        const ByteRange there = range.intersect({0, size_before.value()});
        if (!there.empty()) failure = zero(target, there);
    });
    if (!failure) return failure;
    if (cut_from < size_before.value()) FOREBAY_TRY(target.resize(cut_from));

    Writer writer(logs, target, done, written);
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
