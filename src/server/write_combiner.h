// Writes of several sessions to one file, put together: what arrives while a write is under way is what the next one
// joins. Nothing waits for others to come.
//
// A session hands in what it has, and waits. If fewer than `leaders_max` threads write, it becomes a leader: it takes
// the oldest request that may be written and all that adjoin it, one behind the other, writes them as one, and wakes
// everybody with their outcome. The same for what is still queued, by whoever is still waiting.
//
// Invariants, under the lock:
// 1. Ranges that are being written are disjoint, and those of one leader's batch are.
// 2. Of two requests that overlap, the later one is taken only once the earlier one has ended. So the last one to
//    arrive wins, and a request that comes after the answer to another one finds that in the file.
// 3. A request that is queued and not taken overlaps one that is being written, or an earlier queued one, or there are
//    `leaders_max` leaders, or a thread that will look at it has been woken.
// 4. A request is in the queue, or in one leader's batch, or done. Its thread waits until it is done, so its bytes and
//    its place in the queue are valid all that time.
//
// A joined write that fails is done again, each request's part of it by itself. So a failure reaches those whose own
// bytes cannot be written, and nobody else.
// Thread-safety: all calls from any thread. Memory: a few words for each request; the bytes stay their session's.
// Blocking: until the request is carried out, as the file does.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "extent/range.h"
#include "extent/range_set.h"
#include "io/file.h"

namespace forebay::server {

class WriteCombiner {
  public:
    struct Piece {
        std::uint64_t offset = 0;
        io::Bytes bytes;
    };
    struct Totals {
        std::uint64_t requests = 0;   // that were handed in with bytes
        std::uint64_t writes = 0;     // of the file
        std::uint64_t bytes = 0;
        Totals& operator+=(const Totals& more) noexcept {
            requests += more.requests;
            writes += more.writes;
            bytes += more.bytes;
            return *this;
        }
    };

    // `file` outlives it. Large writes end at multiples of `stripe_bytes`. At most `leaders_max` are under way.
    WriteCombiner(io::File& file, std::uint64_t stripe_bytes, std::size_t leaders_max) noexcept
        : file_(file), stripe_bytes_(stripe_bytes), leaders_max_(leaders_max) {}

    // On return the bytes are in the file; of pieces that overlap the last one's are. After a failure any of them may
    // be.
    [[nodiscard]] Status write(std::span<const Piece> pieces);
    // After all that was handed in before, and before all that comes later. No write is under way meanwhile.
    [[nodiscard]] Status alone(const std::function<Status()>& act);

    [[nodiscard]] Totals totals() const;

  private:
    struct Request {
        std::span<const Piece> pieces;
        const std::function<Status()>* act = nullptr;   // then it has no pieces
        bool in_order = false;                          // its pieces overlap
        bool done = false;
        Status outcome{};
    };
    using Batch = std::vector<Request*>;
    // A piece, and whose it is.
    struct Placed {
        Piece piece;
        Request* request;
    };
    [[nodiscard]] Status submit(Request& request);
    // What one leader writes next, if anything may be written now.
    [[nodiscard]] Batch take();
    // `more`: another leader would find something, too.
    void take_into(Batch& batch, bool& more);
    void forget_written(const Request& request) noexcept;
    void carry_out(const Batch& batch);
    void write_joined(std::span<const Placed> run);
    void write_chunk(std::span<const Placed> chunk);
    [[nodiscard]] Status write_pieces(std::span<const Placed> pieces);

    io::File& file_;
    const std::uint64_t stripe_bytes_;
    const std::size_t leaders_max_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::list<Request*> queue_;   // in the order of arrival
    RangeSet being_written_;
    std::size_t leaders_ = 0;
    Totals totals_;
};

}   // namespace forebay::server
