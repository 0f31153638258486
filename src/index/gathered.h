// A run: small scattered pieces of several records, copied together in file order.
// A record may have many thousand pieces of a few bytes each: the points or strided blocks of one rank, next to those
// of other ranks. Staged one by one, each piece would cost an extent, an entry of a plan and a copy. So the index first
// merges records that arrive together. Adjoining pieces become one run, which is staged, read and drained as one
// extent. The records stay in the log, for recovery, until no byte of the run is staged; the run is this process's
// copy.
// A run knows the segment of each of its bytes. So its owner (index/keepers.h) keeps the segments'
// accounts exact, also when parts of the run are superseded.
// Memory: the bytes, and 8 more for each piece; one extent for each piece would take more.
// Thread-safety: none; the index's lock guards it. Pinned bytes may be read without the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "extent/range.h"
#include "log/segment_pool.h"

namespace forebay::index {

class Gathered {
  public:
    // A record of class raw.
    struct Record {
        std::span<const ByteRange> extents;
        log::Segment* segment = nullptr;
        std::uint64_t payload = 0;   // offset of the first piece in the segment; the others follow it
        std::uint64_t sequence = 0;
        std::uint32_t generation = 0;   // of the segment
    };

    Gathered(const Gathered&) = delete;
    Gathered& operator=(const Gathered&) = delete;

    [[nodiscard]] ByteRange range() const noexcept { return range_; }
    [[nodiscard]] const std::byte* at(std::uint64_t offset) const noexcept { return bytes_.get() + offset; }
    // The lowest and the highest number of its records.
    [[nodiscard]] std::uint64_t oldest() const noexcept { return oldest_; }
    [[nodiscard]] std::uint64_t newest() const noexcept { return newest_; }

    // Calls `visit(ByteRange, std::uint64_t sequence)` for each piece within `range`, cut to it, in ascending order.
    template <class Visit>
    void for_each(ByteRange range, Visit&& visit) const {
        for_each_source(range, [&](ByteRange piece, const Source& source) { visit(piece, source.sequence); });
    }

    // Calls `visit(log::Segment&, std::uint64_t sequence, std::uint64_t bytes)` with the bytes of each record within
    // `range`. A record may appear several times.
    template <class Visit>
    void for_each_record(ByteRange range, Visit&& visit) const {
        if (range == range_) {
            for (const Source& source : sources_) visit(*source.segment, source.sequence, source.bytes);
            return;
        }
        for_each_source(range, [&](ByteRange piece, const Source& source) {
            visit(*source.segment, source.sequence, piece.size());
        });
    }

  private:
    friend class Gatherer;
    friend class Keepers;
    struct Source {
        log::Segment* segment = nullptr;
        std::uint64_t sequence = 0, bytes = 0;
    };
    // A piece ends where the next one begins.
    struct Piece {
        std::uint32_t begin = 0;   // relative to the begin of the range
        std::uint32_t source = 0;
    };
    Gathered() = default;
    template <class Visit>
    void for_each_source(ByteRange range, Visit&& visit) const;

    ByteRange range_;
    std::unique_ptr<std::byte[]> bytes_;
    std::vector<Piece> pieces_;
    std::vector<Source> sources_;
    std::uint64_t oldest_ = 0, newest_ = 0;

    // Accounts of its owner.
    std::uint64_t live_bytes_ = 0, pins_ = 0;
    std::size_t place_ = 0;   // among the index's runs
};

class Gatherer {
  public:
    using Record = Gathered::Record;

    // Returns true if a record has many small pieces, so that gathering pays.
    [[nodiscard]] static bool wants(std::size_t pieces, std::uint64_t bytes) noexcept;

    // A piece that adjoins too few others to be in a run.
    struct Loose {
        ByteRange range;
        std::size_t record = 0;      // index among the given records
        std::uint64_t payload = 0;   // offset of its bytes in that record's segment
    };
    struct Runs {
        std::vector<std::unique_ptr<Gathered>> gathered;
        std::vector<Loose> loose;
    };
    // No run crosses a multiple of `cut` bytes (1 to 2 GiB), unless one of its pieces does. Long runs are split.
    // Returns nullopt if pieces overlap, are not ascending within their record, or are unreadable. May throw
    // std::bad_alloc.
    [[nodiscard]] std::optional<Runs> gather(std::span<const Record> records, std::uint64_t cut);

  private:
    struct Cursor {
        const ByteRange* next = nullptr;
        const ByteRange* end = nullptr;
        std::size_t record = 0;
        std::uint64_t payload = 0;   // of `next`
    };
    struct Taken {
        ByteRange range;
        std::uint64_t payload = 0;
        std::size_t record = 0;
    };
    bool finish_run(std::span<const Record> records, Runs& runs);
    bool copy_run(std::span<const Record> records, std::span<const Gathered::Source> sources,
                  std::byte* to) const noexcept;

    std::vector<Cursor> waiting_;            // by their first piece, in descending order
    std::vector<Cursor> active_;             // by their next piece, in descending order
    std::vector<Taken> run_;                 // adjoining
    std::vector<std::uint32_t> source_of_;   // index of each record among a run's sources
};

template <class Visit>
void Gathered::for_each_source(ByteRange range, Visit&& visit) const {
    range = range.intersect(range_);
    if (range.empty()) return;
    std::size_t low = 0, high = pieces_.size();   // the last piece that begins at or before the range
    while (high - low > 1) {
        const std::size_t middle = low + (high - low) / 2;
        (range_.begin + pieces_[middle].begin <= range.begin ? low : high) = middle;
    }
    for (; low < pieces_.size(); ++low) {
        const ByteRange piece{range_.begin + pieces_[low].begin,
                              low + 1 < pieces_.size() ? range_.begin + pieces_[low + 1].begin : range_.end};
        if (piece.begin >= range.end) return;
        visit(piece.intersect(range), sources_[pieces_[low].source]);
    }
}

}   // namespace forebay::index
