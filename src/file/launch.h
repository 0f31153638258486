// Finds out which ranks of this job on this machine their launcher has started with the connector. A rank whose
// environment does not name the connector stays in HDF5's own open while the others call MPI, and both sides would wait
// for ever. So the others look before they call MPI. They read rank and connector from the environments that the
// children of their own parent process were given (/proc/<pid>/environ). All ranks of a node find the same answer. A
// program may choose the connector by itself (H5Pset_vol, setenv), unseen there. So only a difference between ranks is
// an answer. Thread-safety: one call at a time. Blocks on /proc. No call fails: an unreadable entry counts as unknown.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "area/process.h"

namespace forebay::file {

// A process that a launcher has started as one of several ranks.
struct LaunchedRank {
    area::ProcessIdentity launcher;   // on this node, equal for all its ranks
    bool on_first_node = true;        // the node of rank 0, if ranks of one node follow each other
};
// Returns nothing if the process is no such rank, or cannot be read. A shell between launcher and rank does not matter.
[[nodiscard]] std::optional<LaunchedRank> launched_rank(int pid, const std::string& proc = "/proc");

struct Unequal {
    int with = 0;            // the lowest rank in MPI_COMM_WORLD that has it
    int without = 0;         // the lowest rank that lacks it
    bool all_seen = false;   // every rank asked about runs here, so all of them know this answer
};

class Launch {
  public:
    // Looks for the siblings of process `pid`. `proc` is the folder where the system shows its processes.
    explicit Launch(int pid, std::string proc = "/proc");

    // Compares `ranks`, one of which is this process, `own`. A rank below 0 is not in MPI_COMM_WORLD. Returns nothing
    // if the ranks are equal or cannot be read. Caches the answer: a process's given environment does not change.
    std::optional<Unequal> compare(std::span<const int> ranks, int own);

  private:
    [[nodiscard]] std::optional<Unequal> look(std::span<const int> ranks, int own) const;

    int pid_;
    std::string proc_;
    std::map<std::vector<int>, std::optional<Unequal>> known_;
};

}   // namespace forebay::file
