// Fetches bytes of one cached file from its source or from other nodes, and stores them in its replica.
// A fetch claims the units of its bytes first, so processes of a node fetch each byte once. A miss returns as soon as
// its bytes are there; a task stores them. Bytes are stored only after a comparison of the version behind their read.
// Invariant: bytes on their way into the replica have a share of the budget or belong to a task of the prefetcher.
// Its tasks share its ownership, and it shares the file's state. Thread-safe: a lock guards the position of read-ahead,
// and is held for short. Blocks on the source, on peers and on the staging area; a miss waits for another fetcher as
// long as for the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "cache/cached_file_state.h"
#include "cache/read_ahead.h"

namespace forebay::cache {

// The origin of a read's bytes: from the replica, from the buffer, and whether others are from the file.
struct ReadOrigin {
    std::uint64_t kept = 0, ahead = 0;
    bool file = false;
};

class SourceFetcher : public std::enable_shared_from_this<SourceFetcher> {
  public:
    explicit SourceFetcher(std::shared_ptr<CachedFileState> file);

    // Bytes of the source from `offset` on, on their way into the replica, and the right to store them.
    struct Fetched {
        PendingBudget::Share budget;   // first, so it is given back last
        std::uint64_t offset = 0;
        std::vector<std::byte> bytes;
        std::vector<Replica::Claim> claims;
    };

    // Reads missing bytes, and schedules a store if the byte budget allows. Returns fewer bytes if another process
    // brought only those, and none if the source ends there.
    [[nodiscard]] Result<std::size_t> fetch(ByteRange missing, io::MutableBytes into, ReadOrigin& from);
    // Reads the source only.
    [[nodiscard]] Result<std::size_t> read_source(std::uint64_t offset, io::MutableBytes into);
    // Reads bytes that this process cannot store now; a server may.
    [[nodiscard]] Result<std::size_t> read_unstored(std::uint64_t offset, io::MutableBytes into);
    // Reads from `peers`, if any, or the source, all of `whole`. `asked` is the requested part, which counts as missed.
    [[nodiscard]] Result<std::size_t> read_whole(Peers* peers, ByteRange whole, ByteRange asked, io::MutableBytes into);

    // Claims the units of `range` from the first on, up to one with another owner. May throw std::bad_alloc.
    [[nodiscard]] std::vector<Replica::Claim> claim_units(ByteRange range) const;
    // Fetches `bytes` that no read requested, whose units are claimed, and stores them. Runs in a task. May throw
    // std::bad_alloc.
    void fetch_claimed(Fetched& fetched, std::uint64_t bytes);
    // Runs a task. Returns false if there is no thread to run it. May throw std::bad_alloc.
    [[nodiscard]] bool submit(std::function<Status()> run);
    // A share of bytes that were taken.
    [[nodiscard]] PendingBudget::Share share(std::uint64_t bytes) const noexcept;
    // Read-ahead at random begins at another place, since peers joined.
    void read_ahead_from(std::uint64_t first_byte) noexcept;

  private:
    void note_arrived(std::uint64_t offset, std::size_t bytes, ReadOrigin& from) noexcept;
    [[nodiscard]] std::optional<Fetched> begin_fetch(ByteRange whole);
    [[nodiscard]] std::size_t await_others(ByteRange whole, io::MutableBytes into, std::uint64_t offset,
                                           std::vector<Replica::Claim>& claims);
    void submit_store(Fetched fetched) noexcept;
    void store(Fetched& fetched);
    void read_ahead_after_miss(ByteRange missed, Peers* peers);
    void read_ahead(ByteRange range, Peers* peers);
    [[nodiscard]] std::uint64_t fetch_ahead(ByteRange piece);

    const std::shared_ptr<CachedFileState> file_;
    std::mutex mutex_;   // guards `ahead_`
    ReadAhead ahead_;
};

}   // namespace forebay::cache
