#include "decomposition.h"

#include <algorithm>
#include <numeric>

namespace differential {
namespace {

constexpr std::size_t kPointsMax = 240;

const char* name_of(std::size_t kind) {
    static constexpr const char* kNames[] = {"slabs", "comb", "cyclic", "points", "alone"};
    return kNames[kind];
}

}   // namespace

Decomposition::Decomposition(const Dims& dims, std::size_t ranks, Random& random)
    : Decomposition(dims, static_cast<Kind>(random.below(5)), ranks, random, false) {}

Decomposition Decomposition::covering(const Dims& dims, std::size_t ranks, Random& random) {
    return Decomposition(dims, Kind::kSlabs, ranks, random, true);
}

Decomposition::Decomposition(const Dims& dims, Kind kind, std::size_t ranks, Random& random, bool whole)
    : kind_(kind), dims_(dims), start_(dims.size()), count_(dims), place_of_(ranks) {
    std::iota(place_of_.begin(), place_of_.end(), std::size_t{0});
    for (std::size_t i = ranks; i > 1; --i) std::swap(place_of_[i - 1], place_of_[random.below(i)]);
    text_ = name_of(static_cast<std::size_t>(kind));
    const std::size_t total = product(dims);
    if (total == 0) return;
    axis_ = random.below(dims.size());
    if (kind == Kind::kPoints) {
        first_ = random.below(total);
        step_ = 1 + random.below(total);
        while (std::gcd(step_, total) != 1) ++step_;
        points_ = std::min<std::size_t>(random.skewed(1, kPointsMax), total);
        text_ += std::to_string(points_);
        return;
    }
    if (!whole) choose_box(random);
    width_ = kind == Kind::kCyclic ? random.skewed(1, 8) : random.between(2, 4);
    cut(random);
}

void Decomposition::choose_box(Random& random) {
    if (random.chance(45)) return;
    for (std::size_t d = 0; d < dims_.size(); ++d) {
        start_[d] = random.chance(40) ? 0 : random.below(dims_[d]);
        const hsize_t left = dims_[d] - start_[d];
        count_[d] = random.chance(40) ? left : random.between(1, left);
    }
}

void Decomposition::cut(Random& random) {
    const std::size_t parts = place_of_.size();
    cuts_.assign(1, 0);
    for (std::size_t i = 1; i < parts; ++i)
        cuts_.push_back(random.chance(50) ? count_[axis_] * i / parts : random.below(count_[axis_] + 1));
    cuts_.push_back(count_[axis_]);
    std::ranges::sort(cuts_);
    text_ += " from" + to_text(start_) + "count" + to_text(count_) + "axis" + std::to_string(axis_) + "cuts" +
             to_text(cuts_) + "width" + std::to_string(width_);
}

Id Decomposition::part(std::size_t rank) const {
    Id space(H5Screate_simple(static_cast<int>(dims_.size()), dims_.data(), nullptr));
    H5Sselect_none(space.get());
    if (product(dims_) == 0) return space;
    const std::size_t place = place_of_[rank];
    switch (kind_) {
        case Kind::kPoints: select_points(space.get(), place); break;
        case Kind::kCyclic: select_cyclic(space.get(), place); break;
        case Kind::kAlone:
            if (place == 0)
                H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start_.data(), nullptr, count_.data(), nullptr);
            break;
        default: select_slab(space.get(), place); break;
    }
    return space;
}

void Decomposition::select_slab(hid_t space, std::size_t place) const {
    Dims start = start_, count = count_, stride(dims_.size(), 1);
    start[axis_] += cuts_[place];
    count[axis_] = cuts_[place + 1] - cuts_[place];
    if (kind_ == Kind::kComb)
        for (std::size_t d = 0; d < dims_.size(); ++d) {
            stride[d] = width_;
            count[d] = (count[d] + width_ - 1) / width_;
        }
    if (product(count) > 0)
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), stride.data(), count.data(), nullptr);
}

// Whole stripes only: what is left over at the end of the box is nobody's.
void Decomposition::select_cyclic(hid_t space, std::size_t place) const {
    const hsize_t period = width_ * place_of_.size(), before = width_ * place;
    if (count_[axis_] < before + width_) return;
    Dims start = start_, stride(dims_.size(), 1), count = count_, block(dims_.size(), 1);
    start[axis_] += before;
    stride[axis_] = period;
    block[axis_] = width_;
    count[axis_] = (count_[axis_] - before - width_) / period + 1;
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), stride.data(), count.data(), block.data());
}

void Decomposition::select_points(hid_t space, std::size_t place) const {
    const std::size_t total = product(dims_);
    std::vector<hsize_t> points;
    std::size_t at = first_;
    for (std::size_t i = 0; i < points_; ++i, at = (at + step_) % total) {
        if (i % place_of_.size() != place) continue;
        Dims point(dims_.size());
        std::size_t rest = at;
        for (std::size_t d = dims_.size(); d-- > 0; rest /= dims_[d]) point[d] = rest % dims_[d];
        points.insert(points.end(), point.begin(), point.end());
    }
    if (!points.empty()) H5Sselect_elements(space, H5S_SELECT_SET, points.size() / dims_.size(), points.data());
}

}   // namespace differential
