// The processes that open one file together, and their collective calls: all that `src/file` uses of MPI. `src/mpi`
// implements them over a communicator, and tests over forked processes. All members make every call, in the same order,
// from the thread that called HDF5. Thread-safety: one call at a time. Blocks until all members are there. A member
// that misses a call, or makes one too many, leaves all others waiting. So a shortage of memory skips no call: a
// member's work between calls runs in `attempt` (base/attempt.h), and `agree` tells the others its outcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"

namespace forebay::file {

// Memory of each member that the others may read without that member's help (MPI: passive target).
class Window {
  public:
    virtual ~Window() = default;   // collective
    // Blocks until the bytes are read. Each word is read whole, but not all words at one instant.
    virtual Status read(int rank, std::size_t offset, std::span<std::byte> into) = 0;
};

// The bytes that each member of a team gave, by rank. Its functions allocate no memory.
class Gathered {
  public:
    [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
    [[nodiscard]] std::span<const std::byte> operator[](std::size_t rank) const noexcept {
        const std::size_t begin = rank == 0 ? 0 : ends_[rank - 1];
        return std::span(bytes_).subspan(begin, ends_[rank] - begin);
    }

  private:
    friend class Team;
    std::vector<std::byte> bytes_;
    std::vector<std::size_t> ends_;
};

class Team {
  public:
    virtual ~Team() = default;
    [[nodiscard]] virtual int rank() const noexcept = 0;
    [[nodiscard]] virtual int size() const noexcept = 0;

    virtual Status barrier() = 0;
    // Returns the word of each member, by rank; valid until the next call. Needs no memory.
    using Words = std::span<const std::uint64_t>;
    virtual Result<Words> exchange(std::uint64_t mine) = 0;
    // Sends the bytes of member `from` to all others; all spans have one length. Needs no memory.
    virtual Status broadcast(int from, std::span<std::byte> bytes) = 0;
    // Gathers the bytes of each member, by rank; the lengths may differ. `ready` is this member's failure to give
    // bytes, if it has one. It fails the call on all members, like a shortage of memory. Takes two steps, or three with
    // many bytes (kGatheredAhead): each step may cost a time slice where ranks share cores.
    Result<Gathered> gather(const Status& ready, std::span<const std::byte> mine);

    // Each member exposes some memory, or none; the memory outlives the window. If one member lacks memory, all fail.
    virtual Result<std::unique_ptr<Window>> expose(std::span<std::byte> mine) = 0;

    // Returns ok if `mine` is ok on all members. Otherwise returns the failure of the lowest rank that has one, and
    // names that rank. The code and errno stay; the text stays if memory allows.
    Status agree(const Status& mine) noexcept;
    // Like `agree` above. If all are ok, returns the word of each member. `word` is below 2^63. Takes one step.
    Result<Words> agree(const Status& mine, std::uint64_t word) noexcept;

  protected:
    // Collects the bytes of all members in `all`, by rank. `ends` holds each member's end there. Needs no memory.
    virtual Status gather_into(std::span<const std::byte> mine, std::span<const std::size_t> ends,
                               std::span<std::byte> all) = 0;

  private:
    // Each call reserves this many bytes for each member before it knows the members' lengths.
    static constexpr std::size_t kGatheredAhead = 512;

    Status agree(const Status& mine, std::uint64_t word, Words& told) noexcept;
    Status tell(const Status& mine);
    Status hear(int from, std::uint64_t word);
};

}   // namespace forebay::file
