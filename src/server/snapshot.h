// One commit of one file, kept while the file changes (docs/protocol.md, "Readers beside a writer"). Bytes that were
// still staged are copied to the store at the beginning. Bytes that a write or a truncation is about to replace are
// first saved there. All other bytes are in the file. The snapshot knows the stored ranges to the byte. A snapshot that
// cannot keep its bytes is given up: later reads fail, and writes of the file continue. Owns its store, and its part of
// the account. Thread-safety: `save`, `read`, `give_up` and the rest from any thread; `put` and `replace` before the
// snapshot is shared. Blocks on the store and the file, except `begin`.
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

// The bytes of all snapshots of one file.
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

    // Begins with the commit's size, and the ranges that the file lacks. Call `save` before each later write.
    void begin(std::uint64_t size, std::span<const ByteRange> elsewhere);
    [[nodiscard]] Status put(std::uint64_t offset, io::Bytes bytes);
    // Gives readers these bytes in place of the commit's.
    [[nodiscard]] Status replace(std::uint64_t offset, io::Bytes bytes);
    void save(io::File& file, ByteRange range) noexcept;

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    // Bytes beyond the end read as zeros.
    [[nodiscard]] Status read(io::File& file, std::uint64_t offset, io::MutableBytes into);
    void give_up(const Status& why) noexcept;
    [[nodiscard]] Status failure() const;

  private:
    [[nodiscard]] Status charge(std::uint64_t bytes);
    [[nodiscard]] Status save_missing(io::File& file, ByteRange range);
    [[nodiscard]] std::vector<ByteRange> missing(ByteRange range) const;

    const std::unique_ptr<io::File> store_;
    const std::shared_ptr<SnapshotAccount> account_;
    std::uint64_t size_ = 0;   // constant after `begin`
    std::mutex saving_;        // locked before mutex_
    mutable std::mutex mutex_;
    RangeSet saved_;
    std::uint64_t charged_ = 0;
    Status failure_;
};

}   // namespace forebay::server
