// The processes that open one file together, and what they do collectively.
//
// The only thing that this room asks of MPI; `src/mpi` implements it over a communicator, tests over
// processes they fork. Every call is collective: all members make it, in the same order, from the thread
// that called HDF5; never a background thread. Thread-safety: one call at a time. Blocks until all are there.
//
// A member that misses a call, or makes one too many, leaves all others waiting. So none of these calls is left because
// memory is short: what a member does in between goes through `attempt` (base/attempt.h), and the others hear of it by
// `agree`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"

namespace forebay::file {

// Memory of the members that every other one may read, without their doing (MPI: passive target).
class Window {
  public:
    virtual ~Window() = default;   // collective
    // Blocks until read. Words are read whole, several of them not at one instant.
    virtual Status read(int rank, std::size_t offset, std::span<std::byte> into) = 0;
};

// What each member of a team gave, by rank. Reading it needs no memory.
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
    // The word of each member, by rank; valid until the next call. Needs no memory.
    using Words = std::span<const std::uint64_t>;
    virtual Result<Words> exchange(std::uint64_t mine) = 0;
    // The bytes of member `from`, into those of all others, which are as many. Needs no memory.
    virtual Status broadcast(int from, std::span<std::byte> bytes) = 0;
    // What each member gives, by rank; the lengths may differ. As `agree`, a failure of one that comes with nothing to
    // give, or has no memory, is one on all. Two steps, unless it is much (kGatheredAhead): where ranks share cores
    // each step may cost a time slice.
    Result<Gathered> gather(const Status& ready, std::span<const std::byte> mine);

    // Each member exposes some memory, or none; it outlives the window. Without memory on one member an error on all.
    virtual Result<std::unique_ptr<Window>> expose(std::span<std::byte> mine) = 0;

    // Ok if `mine` is ok everywhere; else, on every member, the failure of the lowest rank that has one,
    // with its rank named. Code and errno are kept; so is the text, where there is memory for it.
    Status agree(const Status& mine) noexcept;
    // The same, and the word of each member, below 2^63, if all are ok. One step.
    Result<Words> agree(const Status& mine, std::uint64_t word) noexcept;

  protected:
    // What all give, one after the other in `all`; `ends` tells where what each of them gives ends there. Needs no
    // memory.
    virtual Status gather_into(std::span<const std::byte> mine, std::span<const std::size_t> ends,
                               std::span<std::byte> all) = 0;

  private:
    // For so much of each member there is memory before any of them says how much it has.
    static constexpr std::size_t kGatheredAhead = 512;

    Status agree(const Status& mine, std::uint64_t word, Words& told) noexcept;
    Status tell(const Status& mine);
    Status hear(int from, std::uint64_t word);
};

}   // namespace forebay::file
