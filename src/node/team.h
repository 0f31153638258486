// The processes that open one file together, and what they do collectively.
//
// The only thing that this room asks of MPI; `src/mpi` implements it over a communicator, tests over
// processes they fork. Every call is collective: all members make it, in the same order, from the thread
// that called HDF5; never a background thread. Thread-safety: one call at a time. Blocks until all are there.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/status.h"

namespace forebay::node {

class Team {
  public:
    virtual ~Team() = default;
    [[nodiscard]] virtual int rank() const noexcept = 0;
    [[nodiscard]] virtual int size() const noexcept = 0;

    virtual Status barrier() = 0;
    // What each member gives, by rank; the lengths may differ.
    using Gathered = std::vector<std::vector<std::byte>>;
    virtual Result<Gathered> gather(std::span<const std::byte> mine) = 0;

    // Ok if `mine` is ok everywhere; else, on every member, the failure of the lowest rank that has one,
    // with its rank named. Code and errno are kept.
    Status agree(const Status& mine);
};

}   // namespace forebay::node
