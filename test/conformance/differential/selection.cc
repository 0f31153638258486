#include "selection.h"

#include <algorithm>
#include <numeric>

namespace differential {
namespace {

constexpr std::size_t kPointsMax = 200;

struct Slab {
    Dims start, stride, count, block;
};

Slab random_slab(const Dims& dims, Random& random, std::size_t elements_max) {
    Slab slab;
    std::size_t room = std::max<std::size_t>(elements_max, 1);
    const bool strided = random.chance(40);
    for (const auto extent : dims) {
        const hsize_t start = extent == 0 || random.chance(30) ? 0 : random.below(extent);
        const hsize_t left = extent - start;
        hsize_t block = 1, stride = 1, count = left == 0 || random.chance(25) ? left : random.skewed(1, left);
        if (strided && left > 2) {
            block = random.skewed(1, std::min<hsize_t>(left, 4));
            stride = block + random.skewed(0, 5);
            count = random.between(1, (left - block) / stride + 1);
        } else if (random.chance(20)) {   // the same bytes, described as one block
            block = count;
            count = block == 0 ? 0 : 1;
            stride = std::max<hsize_t>(block, 1);
        }
        while (count * block > room && count > 1) count = (count + 1) / 2;
        if (count == 1 && block > room) block = room;
        room = std::max<std::size_t>(room / std::max<std::size_t>(count * block, 1), 1);
        slab.start.push_back(start);
        slab.stride.push_back(std::max(stride, block));
        slab.count.push_back(count);
        slab.block.push_back(std::max<hsize_t>(block, 1));
    }
    return slab;
}

herr_t select(hid_t space, H5S_seloper_t how, const Slab& slab) {
    return H5Sselect_hyperslab(space, how, slab.start.data(), slab.stride.data(), slab.count.data(), slab.block.data());
}

std::string describe(const Slab& slab) {
    return "start" + to_text(slab.start) + "stride" + to_text(slab.stride) + "count" + to_text(slab.count) + "block" +
           to_text(slab.block);
}

// Distinct points, so that a write has one defined result: a stride coprime to the size visits every element once.
std::vector<hsize_t> distinct_points(const Dims& dims, std::size_t count, Random& random) {
    const std::size_t total = product(dims);
    std::size_t step = 1 + random.below(total);
    while (std::gcd(step, total) != 1) ++step;
    std::size_t at = random.below(total);
    std::vector<hsize_t> points;
    for (std::size_t i = 0; i < count; ++i, at = (at + step) % total) {
        Dims point(dims.size());
        std::size_t rest = at;
        for (std::size_t d = dims.size(); d-- > 0; rest /= dims[d]) point[d] = rest % dims[d];
        points.insert(points.end(), point.begin(), point.end());
    }
    return points;
}

// Memory of rank 2 or 3 with a halo around a box of exactly `count` elements.
bool halo_memory(Transfer& transfer, std::size_t count, Random& random) {
    hsize_t rows = 1;
    for (const hsize_t candidate : {12, 8, 6, 5, 4, 3, 2})
        if (count % candidate == 0) {
            rows = candidate;
            break;
        }
    const Dims box{rows, count / rows}, halo{random.below(3), random.below(4)};
    const Dims dims{box[0] + 2 * halo[0], box[1] + 2 * halo[1]};
    transfer.memory_space = Id(H5Screate_simple(2, dims.data(), nullptr));
    transfer.text += " mem:halo" + to_text(dims) + "box" + to_text(box);
    transfer.buffer_elements = product(dims);
    return H5Sselect_hyperslab(transfer.memory_space.get(), H5S_SELECT_SET, halo.data(), nullptr, box.data(),
                               nullptr) >= 0;
}

void match_memory(Transfer& transfer, std::size_t count, Random& random) {
    const auto make = [&](hsize_t elements) {
        transfer.memory_space = Id(H5Screate_simple(1, &elements, nullptr));
        transfer.buffer_elements = elements;
    };
    const auto kind = random.below(10);
    if (count == 0) {
        make(4);
        H5Sselect_none(transfer.memory_space.get());
        transfer.text += " mem:none";
    } else if (kind < 4) {
        make(count);
        transfer.text += " mem:whole";
    } else if (kind < 6) {
        const hsize_t start = random.below(5), stride = random.between(1, 4), elements = count;
        make(start + stride * count + random.below(3));
        H5Sselect_hyperslab(transfer.memory_space.get(), H5S_SELECT_SET, &start, &stride, &elements, nullptr);
        transfer.text += " mem:stride" + std::to_string(stride);
    } else if (kind < 8) {
        halo_memory(transfer, count, random);
    } else if (kind < 9 && count <= kPointsMax) {
        const Dims dims{count + random.below(20)};
        make(dims[0]);
        const auto points = distinct_points(dims, count, random);
        H5Sselect_elements(transfer.memory_space.get(), H5S_SELECT_SET, count, points.data());
        transfer.text += " mem:points";
    } else {
        make(count + 7);
        const hsize_t start = random.below(8), elements = count;
        H5Sselect_hyperslab(transfer.memory_space.get(), H5S_SELECT_SET, &start, nullptr, &elements, nullptr);
        transfer.text += " mem:offset";
    }
}

}   // namespace

std::size_t product(const Dims& dims) {
    std::size_t result = 1;
    for (const auto extent : dims) result *= extent;
    return result;
}

std::string to_text(const Dims& dims) {
    std::string text = "(";
    for (const auto extent : dims)
        text += (text.size() > 1 ? "," : "") + (extent == H5S_UNLIMITED ? "inf" : std::to_string(extent));
    return text + ")";
}

std::string select_at_random(hid_t space, const Dims& dims, Random& random, std::size_t elements_max) {
    const auto kind = random.below(20);
    const std::size_t total = product(dims);
    if (kind == 0 || total == 0) {
        H5Sselect_none(space);
        return "none";
    }
    if (kind < 4) {
        const auto count = std::min({random.skewed(1, kPointsMax), std::uint64_t{total}, std::uint64_t{elements_max}});
        const auto points = distinct_points(dims, count, random);
        H5Sselect_elements(space, H5S_SELECT_SET, count, points.data());
        return "points" + std::to_string(count);
    }
    Slab slab = random_slab(dims, random, elements_max);
    std::string text = "slab:" + describe(slab);
    select(space, H5S_SELECT_SET, slab);
    if (kind >= 17) {
        const auto how = random.pick({H5S_SELECT_OR, H5S_SELECT_XOR, H5S_SELECT_NOTB, H5S_SELECT_AND});
        slab = random_slab(dims, random, elements_max);
        select(space, how, slab);
        text += "op" + std::to_string(how) + ":" + describe(slab);
    }
    return text;
}

Transfer slab_transfer(const Dims& dims, const Dims& start, const Dims& count) {
    Transfer transfer;
    transfer.file_space = Id(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
    H5Sselect_hyperslab(transfer.file_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    const hsize_t elements = product(count);
    transfer.memory_space = Id(H5Screate_simple(1, &elements, nullptr));
    transfer.buffer_elements = elements;
    transfer.text = "slab:start" + to_text(start) + "count" + to_text(count);
    return transfer;
}

Transfer random_transfer(const Dims& dims, Random& random, std::size_t elements_max) {
    Transfer transfer;
    const std::size_t total = product(dims);
    if (dims.empty() || (total <= elements_max && random.chance(25))) {
        transfer.text = "all";
        transfer.buffer_elements = total;
        if (!dims.empty() && random.chance(30)) match_memory(transfer, total, random);
        return transfer;
    }
    transfer.file_space = Id(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
    transfer.text = select_at_random(transfer.file_space.get(), dims, random, elements_max);
    const auto count = static_cast<std::size_t>(std::max<hssize_t>(H5Sget_select_npoints(transfer.file_space.get()),
                                                                   0));
    if (total <= elements_max && random.chance(10)) {
        transfer.text += " mem:all";   // memory takes the file's extent and selection
        transfer.buffer_elements = total;
        return transfer;
    }
    match_memory(transfer, count, random);
    return transfer;
}

}   // namespace differential
