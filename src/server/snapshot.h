// One commit of one file, as it was, while the file goes on (docs/protocol.md, "Readers beside a writer").
//
// The bytes of the commit are in three places. What was still staged is copied to the store at the beginning. What a
// write or a cut of the file is about to replace is saved there before it. All else is in the file. Where the bytes of
// the store are is known to the byte.
//
// A snapshot that cannot keep its bytes is given up: each read fails from then on, and writes of the file go on.
// Ownership: it owns its store, and its part of the account. Thread-safety: `save`, `read`, `give_up` and the rest from
// any thread; `put` and `replace` before the snapshot is handed out. Blocking: on the store and the file, but for
// `begin`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "extent/range_set.h"
#include "io/file.h"

namespace forebay::server {

// What all snapshots of one file may take together.
struct SnapshotAccount {
    std::uint64_t bytes_max = 0;
    std::atomic<std::uint64_t> bytes{0};
};

class Snapshot {
  public:
    Snapshot(std::unique_ptr<io::File> store, std::shared_ptr<SnapshotAccount> account) noexcept;
    ~Snapshot();
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;

    // Of the commit: its size, and what the file does not have of it. From now on it is to be told of writes.
    void begin(std::uint64_t size, std::span<const ByteRange> elsewhere);
    // Bytes that the file does not have.
    [[nodiscard]] Status put(std::uint64_t offset, io::Bytes bytes);
    // These bytes are read in the place of the commit's.
    [[nodiscard]] Status replace(std::uint64_t offset, io::Bytes bytes);
    // `range` of the file is about to be written or cut.
    void save(io::File& file, ByteRange range) noexcept;

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    // Zeros beyond the end.
    [[nodiscard]] Status read(io::File& file, std::uint64_t offset, io::MutableBytes into);
    void give_up(const Status& why) noexcept;
    [[nodiscard]] Status failure() const;

  private:
    [[nodiscard]] Status charge(std::uint64_t bytes);
    [[nodiscard]] Status save_missing(io::File& file, ByteRange range);
    [[nodiscard]] std::vector<ByteRange> missing(ByteRange range) const;

    const std::unique_ptr<io::File> store_;
    const std::shared_ptr<SnapshotAccount> account_;
    std::uint64_t size_ = 0;   // never changed after `begin`
    std::mutex saving_;        // before mutex_
    mutable std::mutex mutex_;
    RangeSet saved_;
    std::uint64_t charged_ = 0;
    Status failure_;
};

}   // namespace forebay::server
