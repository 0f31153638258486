#include "hdf5/connector/dataset_places.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "hdf5/connector/dataset_questions.h"

namespace forebay::hdf5 {

namespace {

constexpr std::size_t kPiecesMax = 65536;
constexpr std::uint64_t kGapMax = 4096;   // a block of the cache

struct Extent {
    int rank = -1;
    std::array<hsize_t, H5S_MAX_RANK> dims{};
};

Extent extent_of(hid_t space) {
    Extent extent;
    extent.rank = host().H5Sget_simple_extent_ndims(space);
    if (extent.rank > 0 && host().H5Sget_simple_extent_dims(space, extent.dims.data(), nullptr) < 0) extent.rank = -1;
    return extent;
}

void add_sequences(hid_t space, const Extent& extent, std::size_t element_bytes, std::uint64_t begin,
                   std::vector<ByteRange>& into) {
    const hid_t iterator = host().H5Ssel_iter_create(space, element_bytes, 0);
    if (iterator < 0) return;
    std::array<hsize_t, 512> offsets{};
    std::array<std::size_t, 512> lengths{};
    std::size_t sequences = offsets.size(), elements = 0;
    while (sequences > 0 && into.size() < kPiecesMax) {
        if (host().H5Ssel_iter_get_seq_list(iterator, offsets.size(), SIZE_MAX, &sequences, &elements, offsets.data(),
                                            lengths.data()) < 0)
            break;
        for (std::size_t i = 0; i < sequences; ++i) {
            const ByteRange range{begin + offsets[i], begin + offsets[i] + lengths[i]};
            if (!into.empty() && range.begin >= into.back().begin && range.begin <= into.back().end + kGapMax)
                into.back().end = std::max(into.back().end, range.end);
            else into.push_back(range);
        }
    }
    (void)host().H5Ssel_iter_close(iterator);
    if (into.size() < kPiecesMax || extent.rank <= 0) return;
    std::array<hsize_t, H5S_MAX_RANK> first{}, last{};
    if (host().H5Sget_select_bounds(space, first.data(), last.data()) < 0) return;
    const auto number_of = [&](const std::array<hsize_t, H5S_MAX_RANK>& place) {
        hsize_t number = 0;
        for (int axis = 0; axis < extent.rank; ++axis)
            number = number * extent.dims[static_cast<std::size_t>(axis)] + place[static_cast<std::size_t>(axis)];
        return number;
    };
    into.assign(1, {begin + number_of(first) * element_bytes, begin + (number_of(last) + 1) * element_bytes});
}

struct ChunkPlace {
    hsize_t first_row;
    ByteRange range;
};

struct ChunkWalk {
    hid_t space;   // H5S_ALL: all chunks
    int rank;
    std::array<hsize_t, H5S_MAX_RANK> chunk;
    std::vector<ChunkPlace> found;

    static int step(const hsize_t* offset, unsigned, haddr_t address, hsize_t size, void* self) noexcept {
        auto& walk = *static_cast<ChunkWalk*>(self);
        return guard("prefetch", [&]() -> int {
            if (address == HADDR_UNDEF || size == 0) return H5_ITER_CONT;
            if (walk.space != H5S_ALL) {
                std::array<hsize_t, H5S_MAX_RANK> last{};
                for (std::size_t axis = 0; axis < static_cast<std::size_t>(walk.rank); ++axis)
                    last[axis] = offset[axis] + walk.chunk[axis] - 1;
                if (host().H5Sselect_intersect_block(walk.space, offset, last.data()) == 0) return H5_ITER_CONT;
            }
            walk.found.push_back({offset[0], {address, address + size}});
            return H5_ITER_CONT;
        });
    }
};

void merge(std::vector<ByteRange>& ranges) {
    std::ranges::sort(ranges, {}, &ByteRange::begin);
    std::vector<ByteRange> merged;
    for (const ByteRange& range : ranges) {
        if (!merged.empty() && range.begin <= merged.back().end + kGapMax)
            merged.back().end = std::max(merged.back().end, range.end);
        else merged.push_back(range);
    }
    ranges = std::move(merged);
}

ChunkWalk walk_chunks(const Object& dataset, hid_t creation, hid_t space, int rank) {
    ChunkWalk walk{space, rank, {}, {}};
    if (host().H5Pget_chunk(creation, rank, walk.chunk.data()) < 0) return walk;
    H5VL_native_dataset_optional_args_t native{};
    native.chunk_iter.op = &ChunkWalk::step;
    native.chunk_iter.op_data = &walk;
    (void)ask_native(dataset, H5VL_NATIVE_DATASET_CHUNK_ITER, native);
    return walk;
}

haddr_t begin_of(const Object& dataset, hid_t creation) {
    return host().H5Pget_external_count(creation) == 0 ? address_of(dataset) : HADDR_UNDEF;
}

}   // namespace

std::optional<std::vector<ByteRange>> places_of(const char* function, const Object& dataset, hid_t file_space,
                                                bool wanted) {
    const Handle own(ask(dataset, H5VL_DATASET_GET_SPACE), host().H5Sclose);
    if (!own) return std::nullopt;
    const Extent extent = extent_of(own.id());
    if (file_space != H5S_ALL) {
        const Extent asked = extent_of(file_space);
        if (asked.rank < 0) return std::nullopt;
        if (asked.rank != extent.rank || asked.dims != extent.dims) {
            push_error(function, host().H5E_ARGS_g, host().H5E_BADVALUE_g,
                       "the file dataspace has another extent than the dataset");
            return std::nullopt;
        }
    }
    std::vector<ByteRange> places;
    if (!wanted) return places;
    // The rest does not fail: places that HDF5 does not give are not read ahead.
    const QuietErrors quiet;
    const Handle creation(ask(dataset, H5VL_DATASET_GET_DCPL), host().H5Pclose);
    const Handle type(ask(dataset, H5VL_DATASET_GET_TYPE), host().H5Tclose);
    if (creation && type) {
        const H5D_layout_t layout = host().H5Pget_layout(creation.id());
        if (layout == H5D_CHUNKED) {
            for (const ChunkPlace& place : walk_chunks(dataset, creation.id(), file_space, extent.rank).found)
                places.push_back(place.range);
        } else if (layout == H5D_CONTIGUOUS) {
            if (const haddr_t begin = begin_of(dataset, creation.id()); begin != HADDR_UNDEF)
                add_sequences(file_space == H5S_ALL ? own.id() : file_space, extent, host().H5Tget_size(type.id()),
                              begin, places);
        }
    }
    host().H5Eclear2(H5E_DEFAULT);
    merge(places);
    return places;
}

std::optional<std::vector<ByteRange>> places_of_rows(const char* function, const Object& dataset,
                                                     std::span<const std::uint64_t> rows, bool wanted) {
    const Handle own(ask(dataset, H5VL_DATASET_GET_SPACE), host().H5Sclose);
    if (!own) return std::nullopt;
    const Extent extent = extent_of(own.id());
    const hsize_t row_count = extent.rank > 0 ? extent.dims[0] : 0;
    if (std::ranges::any_of(rows, [&](std::uint64_t row) { return row >= row_count; })) {
        push_error(function, host().H5E_ARGS_g, host().H5E_BADRANGE_g, "the dataset has fewer rows");
        return std::nullopt;
    }
    std::vector<ByteRange> places;
    if (!wanted || rows.empty()) return places;
    const QuietErrors quiet;
    const Handle creation(ask(dataset, H5VL_DATASET_GET_DCPL), host().H5Pclose);
    const Handle type(ask(dataset, H5VL_DATASET_GET_TYPE), host().H5Tclose);
    const auto add = [&](ByteRange range) {
        if (places.empty() || places.back() != range) places.push_back(range);
    };
    const H5D_layout_t layout = creation && type ? host().H5Pget_layout(creation.id()) : H5D_LAYOUT_ERROR;
    if (layout == H5D_CHUNKED) {
        ChunkWalk walk = walk_chunks(dataset, creation.id(), H5S_ALL, extent.rank);
        const hsize_t rows_of_chunk = std::max<hsize_t>(walk.chunk[0], 1);
        std::ranges::sort(walk.found, [](const ChunkPlace& a, const ChunkPlace& b) {
            return a.first_row != b.first_row ? a.first_row < b.first_row : a.range.begin < b.range.begin;
        });
        for (const std::uint64_t row : rows) {
            const hsize_t first_row = row / rows_of_chunk * rows_of_chunk;
            auto place = std::ranges::lower_bound(walk.found, first_row, {}, &ChunkPlace::first_row);
            for (; place != walk.found.end() && place->first_row == first_row; ++place) add(place->range);
        }
    } else if (layout == H5D_CONTIGUOUS) {
        std::uint64_t row_bytes = host().H5Tget_size(type.id());
        for (std::size_t axis = 1; axis < static_cast<std::size_t>(extent.rank); ++axis) row_bytes *= extent.dims[axis];
        if (const haddr_t begin = begin_of(dataset, creation.id()); begin != HADDR_UNDEF)
            for (const std::uint64_t row : rows) add({begin + row * row_bytes, begin + (row + 1) * row_bytes});
    }
    host().H5Eclear2(H5E_DEFAULT);
    return places;
}

}   // namespace forebay::hdf5
