// What the launcher has started the ranks of this job with, as far as they run on this machine.
//
// A rank whose environment does not name the connector knows nothing of forebay, and nothing that the others say to it
// through MPI arrives: it is in HDF5's own open meanwhile, and both sides would wait for ever. So the others look
// before they say anything, without MPI: at the children of the process that has started this one, and at the
// environment that each of them was given (/proc/<pid>/environ), which has the rank and the connector. All ranks of a
// node see the same there, so they come to the same answer. A program may choose the connector by itself (H5Pset_vol,
// setenv), and then its environment does not show it; so unequal ranks are an answer, equal ones that lack the
// connector are none. Thread-safety: one call at a time. Blocks as reading /proc does. Nothing here fails: what cannot
// be read is not known.
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
    area::ProcessIdentity launcher;   // of the ranks on this node: the same for all of them
    bool on_first_node = true;        // that of rank 0, as far as ranks of one node follow each other
};
// Nothing: it is none, or it cannot be known. A shell between launcher and rank makes no difference.
[[nodiscard]] std::optional<LaunchedRank> launched_rank(int pid, const std::string& proc = "/proc");

// Some ranks have been given the connector, and others have not.
struct Unequal {
    int with = 0;            // the lowest rank (of all, MPI_COMM_WORLD) that has it
    int without = 0;         // the lowest one that has not
    bool all_seen = false;   // every rank that was asked about runs here; all of them know this answer
};

class Launch {
  public:
    // Of process `pid`, by default this one. `proc` is where the system shows its processes.
    explicit Launch(int pid, std::string proc = "/proc");

    // About some ranks of all, of which this process is rank `own`; below 0: one that is not in MPI_COMM_WORLD.
    // Nothing: they are equal, or it cannot be known. What was found is kept: an environment that was given does not
    // change.
    std::optional<Unequal> compare(std::span<const int> ranks, int own);

  private:
    [[nodiscard]] std::optional<Unequal> look(std::span<const int> ranks, int own) const;

    int pid_;
    std::string proc_;
    std::map<std::vector<int>, std::optional<Unequal>> known_;
};

}   // namespace forebay::file
