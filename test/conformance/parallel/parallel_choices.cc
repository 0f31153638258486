#include "parallel_choices.h"

#include <algorithm>

namespace differential {

Extent extents_of(hid_t dataset) {
    const Id space(H5Dget_space(dataset));
    const int rank = space.valid() ? H5Sget_simple_extent_ndims(space.get()) : -1;
    Extent extent;
    extent.dims.resize(rank > 0 ? static_cast<std::size_t>(rank) : 0);
    extent.limit = extent.dims;
    if (rank > 0) H5Sget_simple_extent_dims(space.get(), extent.dims.data(), extent.limit.data());
    return extent;
}

Dims extent_of(hid_t dataset) { return extents_of(dataset).dims; }

Dims random_dims(Random& random, std::size_t elements_max) {
    Dims dims(random.between(1, 3));
    std::size_t room = elements_max;
    for (auto& extent : dims) {
        extent = random.between(1, std::min<std::size_t>(room, dims.size() == 1 ? room : room / 2 + 1));
        if (dims.size() > 1 && random.chance(60)) extent = std::min<hsize_t>(extent, 90);
        room = std::max<std::size_t>(room / extent, 1);
    }
    return dims;
}

Element random_plain_element(bool filtered, Random& random) {
    if (filtered)
        return random.pick({Element::kInt8, Element::kInt32, Element::kInt64, Element::kUnsigned16, Element::kFloat32,
                            Element::kFloat64});
    for (;;) {
        const Element element = random_element(random);
        if (!owns_memory(element) && element != Element::kOldReference) return element;
    }
}

Id transfer_list(bool collective, bool filtered, Random& random) {
    Id list(H5Pcreate(H5P_DATASET_XFER));
    H5Pset_dxpl_mpio(list.get(), collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    if (collective && random.chance(15))
        H5Pset_dxpl_mpio_chunk_opt(list.get(), random.pick({H5FD_MPIO_CHUNK_ONE_IO, H5FD_MPIO_CHUNK_MULTI_IO}));
    // Filtered chunks are only written in truly collective calls.
    if (collective && !filtered && random.chance(10))
        H5Pset_dxpl_mpio_collective_opt(list.get(), H5FD_MPIO_INDIVIDUAL_IO);
    return list;
}

Id file_access(MPI_Comm communicator, Random& random, std::string& text, bool& metadata_read_together) {
    Id list(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_fapl_mpio(list.get(), communicator, MPI_INFO_NULL);
    const auto low = random.pick({H5F_LIBVER_EARLIEST, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18, H5F_LIBVER_V110,
                                  H5F_LIBVER_LATEST});
    H5Pset_libver_bounds(list.get(), low, H5F_LIBVER_LATEST);
    text += " libver" + std::to_string(low);
    if (random.chance(25))
        H5Pset_alignment(list.get(), random.pick<hsize_t>({1, 100, 4000}), random.pick<hsize_t>({8, 512, 4096, 65536}));
    if (random.chance(25)) H5Pset_meta_block_size(list.get(), random.pick<hsize_t>({0, 64, 2048, 65536}));
    if (random.chance(25)) H5Pset_small_data_block_size(list.get(), random.pick<hsize_t>({0, 64, 2048, 65536}));
    metadata_read_together = random.chance(20);
    if (metadata_read_together) {
        H5Pset_all_coll_metadata_ops(list.get(), true);
        text += " collective-metadata-reads";
    }
    if (random.chance(35)) {
        H5Pset_coll_metadata_write(list.get(), true);
        text += " collective-metadata-writes";
    }
    return list;
}

Id file_creation(Random& random, std::string& text) {
    Id list(H5Pcreate(H5P_FILE_CREATE));
    if (random.chance(12)) H5Pset_userblock(list.get(), 65536);
    if (random.chance(30)) {
        const auto strategy = random.pick({H5F_FSPACE_STRATEGY_FSM_AGGR, H5F_FSPACE_STRATEGY_PAGE,
                                           H5F_FSPACE_STRATEGY_AGGR, H5F_FSPACE_STRATEGY_NONE});
        H5Pset_file_space_strategy(list.get(), strategy, false, 1);
        H5Pset_file_space_page_size(list.get(), random.pick<hsize_t>({512, 4096}));
        text += " space" + std::to_string(strategy);
    }
    return list;
}

void choose_chunks(SharedDataset& dataset, hid_t creation, const Dims& dims, Dims& limit, Random& random,
                   std::string& text) {
    Dims& chunk = dataset.chunk;
    for (const auto extent : dims) {
        const hsize_t most = dataset.filtered ? extent : std::max<hsize_t>(extent, 4);
        chunk.push_back(random.between(std::max<hsize_t>(extent / 6, 1), most));
    }
    // Under a finite limit beyond the extent, HDF5 1.14 frees filtered chunks twice when ranks rewrite them.
    for (auto& most : limit)
        if (random.chance(60)) most = dataset.filtered || random.chance(70) ? H5S_UNLIMITED : most * 2 + 3;
    for (std::size_t d = 0; d < dims.size(); ++d)
        if (limit[d] != H5S_UNLIMITED) chunk[d] = std::min(chunk[d], limit[d]);
    H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
    text += " chunk" + to_text(chunk) + "max" + to_text(limit);
    if (!dataset.filtered) return;
    if (random.chance(40)) H5Pset_shuffle(creation);
    if (random.chance(70)) H5Pset_deflate(creation, static_cast<unsigned>(random.between(1, 6)));
    else H5Pset_fletcher32(creation);
    text += " filtered";
}

void choose_fill(SharedDataset& dataset, hid_t creation, Random& random, std::string& text) {
    const auto time = random.pick({H5D_FILL_TIME_IFSET, H5D_FILL_TIME_IFSET, H5D_FILL_TIME_ALLOC, H5D_FILL_TIME_NEVER});
    H5Pset_fill_time(creation, time);
    if (random.chance(50))
        H5Pset_alloc_time(creation, random.pick({H5D_ALLOC_TIME_EARLY, H5D_ALLOC_TIME_LATE, H5D_ALLOC_TIME_INCR}));
    text += " fill-time" + std::to_string(time);
    const bool valued = time != H5D_FILL_TIME_NEVER && random.chance(40);
    if (valued) {
        Values value(dataset.element, 1, random, H5I_INVALID_HID, {});
        H5Pset_fill_value(creation, memory_type(dataset.element).get(), value.data());
        text += " fill-value";
    }
    // At H5D_FILL_TIME_IFSET, HDF5 fills chunks also with the default value, but contiguous storage only with a value
    // that the program has set. What lay in reused space shows through then, such as bytes of metadata that HDF5 never
    // set.
    dataset.unfilled = time == H5D_FILL_TIME_NEVER || (time == H5D_FILL_TIME_IFSET && !valued && !dataset.chunked());
}

Id memory_space(std::size_t count, bool spread) {
    const hsize_t elements = std::max<hsize_t>(count, 1), extent = spread ? 2 * elements + 1 : elements,
                  start = spread ? 1 : 0, stride = spread ? 2 : 1;
    Id space(H5Screate_simple(1, &extent, nullptr));
    if (count == 0) H5Sselect_none(space.get());
    else H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, &stride, &elements, nullptr);
    return space;
}

void keep_chunks_whole(Dims& dims, const Extent& before, const Dims& chunk) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
        dims[d] = std::max(dims[d], chunk[d]);
        if (dims[d] < before.dims[d])
            dims[d] = std::min(before.dims[d], (dims[d] + chunk[d] - 1) / chunk[d] * chunk[d]);
        if (before.limit[d] != H5S_UNLIMITED) dims[d] = before.dims[d];
    }
}

std::size_t extent_count(hid_t space) {
    return static_cast<std::size_t>(std::max<hssize_t>(H5Sget_simple_extent_npoints(space), 0));
}
std::size_t selected_count(hid_t space) {
    return static_cast<std::size_t>(std::max<hssize_t>(H5Sget_select_npoints(space), 0));
}

Element element_in_memory(const SharedDataset& dataset, Random& random) {
    if (!is_number(dataset.element) || dataset.filtered || random.chance(75)) return dataset.element;
    return static_cast<Element>(random.below(static_cast<std::uint64_t>(Element::kInt12Bits) + 1));
}

}   // namespace differential
