// Which elements of a dataset each rank of a parallel program moves.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <string>
#include <vector>

#include "../differential/identifier.h"
#include "../differential/random.h"
#include "../differential/selection.h"

namespace differential {

// Disjoint parts of an extent, one per rank, some of them empty. Made from equal random sources on every rank, it is
// the same on every rank.
class Decomposition {
  public:
    // Any parts of any box inside `dims`.
    Decomposition(const Dims& dims, std::size_t ranks, Random& random);
    // Slabs that cover all of `dims` together.
    [[nodiscard]] static Decomposition covering(const Dims& dims, std::size_t ranks, Random& random);

    // The extent with the rank's part selected.
    [[nodiscard]] Id part(std::size_t rank) const;
    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    enum class Kind : std::uint8_t { kSlabs, kComb, kCyclic, kPoints, kAlone };

    Decomposition(const Dims& dims, Kind kind, std::size_t ranks, Random& random, bool whole);
    void choose_box(Random& random);
    void cut(Random& random);
    void select_cyclic(hid_t space, std::size_t place) const;
    void select_points(hid_t space, std::size_t place) const;
    void select_slab(hid_t space, std::size_t place) const;

    Kind kind_;
    Dims dims_, start_, count_;           // the extent, and the box in it that is shared out
    std::vector<std::size_t> place_of_;   // by rank: which of the parts it gets
    std::size_t axis_ = 0;
    std::vector<hsize_t> cuts_;   // kSlabs, kComb: where the parts begin and end along the axis, in the box
    hsize_t width_ = 1;           // kCyclic: of a stripe; kComb: of a tooth's period on the other axes
    std::size_t first_ = 0, step_ = 1, points_ = 0;   // kPoints: in the order of a walk that visits every element once
    std::string text_;
};

}   // namespace differential
