// The processes that open one file together, and what they do collectively.
//
// The only thing that this room asks of MPI; `src/mpi` implements it over a communicator, tests over
// processes they fork. Every call is collective: all members make it, in the same order, from the thread
// that called HDF5; never a background thread. Thread-safety: one call at a time. Blocks until all are there.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"

namespace forebay::node {

// Memory of the members that every other one may read, without their doing (MPI: passive target).
class Window {
  public:
    virtual ~Window() = default;   // collective
    // Blocks until read. Words are read whole, several of them not at one instant.
    virtual Status read(int rank, std::size_t offset, std::span<std::byte> into) = 0;
};

class Team {
  public:
    virtual ~Team() = default;
    [[nodiscard]] virtual int rank() const noexcept = 0;
    [[nodiscard]] virtual int size() const noexcept = 0;

    virtual Status barrier() = 0;
    // What each member gives, by rank; the lengths may differ.
    using Gathered = std::vector<std::vector<std::byte>>;
    virtual Result<Gathered> gather(std::span<const std::byte> mine) = 0;

    // Each member exposes some memory, or none; it outlives the window.
    virtual Result<std::unique_ptr<Window>> expose(std::span<std::byte> mine) = 0;

    // Ok if `mine` is ok everywhere; else, on every member, the failure of the lowest rank that has one,
    // with its rank named. Code and errno are kept.
    Status agree(const Status& mine);
};

}   // namespace forebay::node
