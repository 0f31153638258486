#include "oracle_model.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

namespace oracle {
namespace {

struct NumberFacts {
    const char* name;
    std::size_t size_bytes;
    unsigned bits;   // that a value may use
    bool negative;
};

const NumberFacts& facts_of(Number number) {
    static constexpr std::array<NumberFacts, static_cast<std::size_t>(Number::kCount)> kFacts{{
        {"int8", 1, 8, true},
        {"int16-big", 2, 16, true},
        {"int32", 4, 32, true},
        {"int64", 8, 64, true},
        {"uint16", 2, 16, false},
        {"uint32-big", 4, 32, false},
        {"float32", 4, 24, true},
        {"float64", 8, 53, true},
    }};
    return kFacts[static_cast<std::size_t>(number)];
}

// The position of an element of `from` in `to`; nothing if it lies beyond.
std::optional<std::size_t> moved(std::size_t at, const Dims& from, const Dims& to) {
    std::size_t result = 0, place = 1;
    for (std::size_t d = from.size(); d-- > 0; at /= from[d]) {
        const std::size_t coordinate = at % from[d];
        if (coordinate >= to[d]) return std::nullopt;
        result += coordinate * place;
        place *= to[d];
    }
    return result;
}

using OwnedStream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

bool write_all(std::FILE* to, const void* from, std::size_t size_bytes) {
    return std::fwrite(from, 1, size_bytes, to) == size_bytes;
}

// One line per object, and behind all lines of the index the arrays, in the same order.
bool write_lines(std::FILE* index, const Expected& file) {
    for (const std::string& group : *file.groups)
        if (std::fprintf(index, "group %s %s\n", file.file.c_str(), group.c_str()) < 0) return false;
    for (const Dataset& dataset : *file.datasets) {
        if (std::fprintf(index, "dataset %s %s %s", file.file.c_str(), dataset.path.c_str(),
                         number_name(dataset.number)) < 0)
            return false;
        for (const hsize_t extent : dataset.content.dims())
            if (std::fprintf(index, " %llu", static_cast<unsigned long long>(extent)) < 0) return false;
        if (std::fputc('\n', index) < 0) return false;
        for (const auto& [name, values] : dataset.attributes) {
            if (std::fprintf(index, "attribute %s", name.c_str()) < 0) return false;
            for (const std::int32_t value : values)
                if (std::fprintf(index, " %d", value) < 0) return false;
            if (std::fputc('\n', index) < 0) return false;
        }
    }
    return true;
}

}   // namespace

const char* number_name(Number number) { return facts_of(number).name; }
std::size_t size_of(Number number) { return facts_of(number).size_bytes; }

hid_t file_type(Number number) {
    switch (number) {
        case Number::kInt8: return H5T_STD_I8LE;
        case Number::kInt16Big: return H5T_STD_I16BE;
        case Number::kInt32: return H5T_STD_I32LE;
        case Number::kInt64: return H5T_STD_I64LE;
        case Number::kUnsigned16: return H5T_STD_U16LE;
        case Number::kUnsigned32Big: return H5T_STD_U32BE;
        case Number::kFloat32: return H5T_IEEE_F32LE;
        default: return H5T_IEEE_F64LE;
    }
}

std::int64_t fitted(Number number, std::uint64_t bits) {
    const NumberFacts& facts = facts_of(number);
    if (facts.bits == 64) return static_cast<std::int64_t>(bits);
    const auto below = static_cast<std::int64_t>(bits & ((std::uint64_t{1} << facts.bits) - 1));
    return facts.negative ? below - (std::int64_t{1} << (facts.bits - 1)) : below;
}

void Content::resize(const Dims& dims, std::optional<std::int64_t> fill) {
    const std::size_t count = differential::product(dims);
    std::vector<std::int64_t> values(count, fill.value_or(0));
    std::vector<std::uint8_t> known(count, fill ? 1 : 0);
    for (std::size_t at = 0; at < values_.size(); ++at)
        if (const auto to = moved(at, dims_, dims)) {
            values[*to] = values_[at];
            known[*to] = known_[at];
        }
    dims_ = dims;
    values_.swap(values);
    known_.swap(known);
}

std::vector<std::size_t> positions(hid_t space) {
    constexpr std::size_t kRuns = 1024;
    std::vector<std::size_t> found;
    if (H5Sget_select_npoints(space) <= 0) return found;
    const hid_t walk = H5Ssel_iter_create(space, 1, 0);
    std::array<hsize_t, kRuns> offsets;
    std::array<std::size_t, kRuns> lengths;
    for (std::size_t runs = 0, elements = 0;;) {
        if (H5Ssel_iter_get_seq_list(walk, kRuns, SIZE_MAX, &runs, &elements, offsets.data(), lengths.data()) < 0 ||
            runs == 0)
            break;
        for (std::size_t run = 0; run < runs; ++run)
            for (std::size_t i = 0; i < lengths[run]; ++i) found.push_back(offsets[run] + i);
    }
    H5Ssel_iter_close(walk);
    return found;
}

Id random_selection(const Dims& dims, const Dims& start, const Dims& count, Random& random) {
    Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
    H5Sselect_none(space.get());
    const std::size_t total = differential::product(count);
    if (total == 0) return space;
    if (random.chance(20)) {
        // Every point once, in an order of its own.
        const std::size_t points = std::min<std::size_t>(total, random.skewed(1, 64)), first = random.below(total);
        std::vector<hsize_t> at;
        for (std::size_t i = 0; i < points; ++i) {
            Dims point(dims.size());
            std::size_t rest = (first + i * (total / points)) % total;
            for (std::size_t d = dims.size(); d-- > 0; rest /= count[d]) point[d] = start[d] + rest % count[d];
            at.insert(at.end(), point.begin(), point.end());
        }
        H5Sselect_elements(space.get(), H5S_SELECT_SET, points, at.data());
        return space;
    }
    Dims begin = start, stride(dims.size(), 1), blocks(dims.size(), 1), block(dims.size(), 1);
    const bool comb = random.chance(35);
    for (std::size_t d = 0; d < dims.size(); ++d) {
        const hsize_t skipped = random.chance(40) ? 0 : random.below(count[d]), left = count[d] - skipped;
        begin[d] += skipped;
        stride[d] = comb ? random.between(1, 4) : 1;
        block[d] = comb ? random.between(1, stride[d]) : 1;
        if (block[d] > left) block[d] = stride[d] = 1;
        const hsize_t most = (left - block[d]) / stride[d] + 1;
        blocks[d] = random.chance(50) ? most : random.between(1, most);
    }
    H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin.data(), stride.data(), blocks.data(), block.data());
    return space;
}

bool write_expected(const std::string& path, const std::vector<Expected>& files) {
    const OwnedStream index(std::fopen((path + ".index").c_str(), "w"), &std::fclose);
    const OwnedStream arrays(std::fopen((path + ".arrays").c_str(), "w"), &std::fclose);
    if (!index || !arrays) return false;
    for (const Expected& file : files) {
        if (!write_lines(index.get(), file)) return false;
        for (const Dataset& dataset : *file.datasets)
            if (!write_all(arrays.get(), dataset.content.values().data(),
                           dataset.content.size() * sizeof(std::int64_t)) ||
                !write_all(arrays.get(), dataset.content.known().data(), dataset.content.size()))
                return false;
    }
    return std::fflush(index.get()) == 0 && std::fflush(arrays.get()) == 0;
}

}   // namespace oracle
