// The drainer's own records of a shared file before they enter its index.
// The writing thread only notes a record. The next thread that needs the index takes in all noted records, together
// with those of other participants (StagedBytes::take_in). So no write waits for a thread that uses the index, and the
// drain finds many records at once. Invariants: a record is noted before its number counts as published. The record's
// segment counts it in `unindexed`, and stays, until the record is in the index.
// Thread-safety: one thread at a time calls `note`; any thread may make the other calls. The log bounds the memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "index/extent_index.h"
#include "log/file_log.h"

namespace forebay::index {

class OwnRecords {
  public:
    struct Record {
        std::size_t extents = 0;   // its number of extents in the batch
        StagedPlace at;            // of the first extent; the others' bytes follow
        bool waits = false;        // for a commit
        std::uint64_t time_ns = 0;
        std::uint64_t bytes = 0;   // set by `note`
    };
    struct Batch {
        std::vector<Record> records;
        std::vector<ByteRange> extents;
        std::uint64_t bytes = 0, ready_bytes = 0;   // all bytes, and those free to drain
        std::uint64_t end = 0;                      // highest end of the extents
    };

    // Notes a record. Returns true if this record raises the noted bytes that are free to drain to `enough`.
    bool note(std::span<const log::FileLog::Part> parts, const Record& record, std::uint64_t enough);
    // Adds all records noted since the last call to `batch`. Returns true if `batch` is not empty.
    bool take(Batch& batch);
    // Call it when `batch` is in the index.
    void done(Batch& batch) noexcept;

    // Payload bytes of the records that are noted and not done, and the part of them that is free to drain. `end` is
    // the highest end of the records that are not taken yet.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t ready_bytes() const noexcept { return ready_bytes_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t end() const noexcept { return end_.load(std::memory_order_relaxed); }

  private:
    std::mutex mutex_;
    Batch noted_;
    std::atomic<std::uint64_t> bytes_{0}, ready_bytes_{0}, end_{0};
};

}   // namespace forebay::index
