#include "settings.h"

#include <algorithm>
#include <array>

namespace differential {
namespace {

constexpr hsize_t kFamilyMember = 48 * 1024;

void choose_libver(hid_t access, Random& random, std::string& text) {
    const auto low = random.pick({H5F_LIBVER_EARLIEST, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18, H5F_LIBVER_V110,
                                  H5F_LIBVER_V112, H5F_LIBVER_LATEST});
    H5Pset_libver_bounds(access, low, H5F_LIBVER_LATEST);
    text += " libver" + std::to_string(low);
}

void choose_caches(hid_t access, Random& random, std::string& text) {
    if (random.chance(15)) H5Pset_sieve_buf_size(access, random.pick<std::size_t>({0, 1, 512, 4096, 1 << 20}));
    if (random.chance(15)) H5Pset_meta_block_size(access, random.pick<hsize_t>({0, 64, 2048, 65536, 1 << 20}));
    if (random.chance(15)) H5Pset_small_data_block_size(access, random.pick<hsize_t>({0, 64, 2048, 65536}));
    if (random.chance(15))
        H5Pset_cache(access, 0, random.pick<std::size_t>({0, 1, 521}), random.pick<std::size_t>({0, 1, 4096, 1 << 20}),
                     0.75);
    if (random.chance(10))
        H5Pset_alignment(access, random.pick<hsize_t>({1, 100, 1000}), random.pick<hsize_t>({1, 8, 512, 4096, 65536}));
    if (random.chance(10)) H5Pset_gc_references(access, 1);
    if (random.chance(8)) {
        H5AC_cache_config_t config;
        config.version = H5AC__CURR_CACHE_CONFIG_VERSION;
        H5Pget_mdc_config(access, &config);
        config.set_initial_size = true;
        config.initial_size = config.min_size = 1024;
        config.max_size = random.pick<std::size_t>({1024, 16384, 1 << 20});
        config.min_clean_fraction = random.pick({0.0, 0.3});
        H5Pset_mdc_config(access, &config);
        text += " small-metadata-cache";
    }
    if (random.chance(4)) {
        H5AC_cache_image_config_t config{H5AC__CURR_CACHE_IMAGE_CONFIG_VERSION, true, false,
                                         H5AC__CACHE_IMAGE__ENTRY_AGEOUT__NONE};
        H5Pset_mdc_image_config(access, &config);
        text += " cache-image";
    }
    if (random.chance(6)) {
        H5Pset_page_buffer_size(access, random.pick<std::size_t>({4096, 65536}), random.pick<unsigned>({0, 50}), 0);
        text += " page-buffer";
    }
}

void choose_filters(DatasetPlan& plan, Element element, Random& random) {
    const hid_t list = plan.creation.get();
    if (random.chance(30)) {
        H5Pset_shuffle(list);
        plan.text += " shuffle";
    }
    if (random.chance(45)) {
        H5Pset_deflate(list, static_cast<unsigned>(random.between(0, 6)));
        plan.text += " gzip";
    } else if (element == Element::kInt12Bits && random.chance(60)) {
        H5Pset_nbit(list);
        plan.text += " nbit";
    } else if (is_number(element) && element <= Element::kUnsigned32Big && random.chance(15)) {
        H5Pset_scaleoffset(list, H5Z_SO_INT, 0);
        plan.text += " scaleoffset";
    }
    if (random.chance(20)) {
        H5Pset_fletcher32(list);
        plan.text += " fletcher32";
    }
}

void choose_chunks(DatasetPlan& plan, Element element, Random& random) {
    Dims chunk, limit = plan.dims;
    for (const auto extent : plan.dims) {
        const hsize_t most = std::max<hsize_t>(extent, 4);
        chunk.push_back(random.chance(30) ? most : random.between(std::max<hsize_t>(most / 6, 1), most));
    }
    for (std::size_t d = 0; d < limit.size(); ++d) {
        if (random.chance(45)) limit[d] = H5S_UNLIMITED;
        else if (random.chance(30)) limit[d] = limit[d] * 2 + 3;
    }
    H5Pset_chunk(plan.creation.get(), static_cast<int>(chunk.size()), chunk.data());
    plan.text += " chunk" + to_text(chunk) + "max" + to_text(limit);
    if (random.chance(50)) choose_filters(plan, element, random);
    if (random.chance(15)) H5Pset_chunk_opts(plan.creation.get(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
    plan.space = Id(H5Screate_simple(static_cast<int>(plan.dims.size()), plan.dims.data(), limit.data()));
}

void choose_external(DatasetPlan& plan, Element element, const std::string& stem, Random& random) {
    H5Pset_layout(plan.creation.get(), H5D_CONTIGUOUS);
    const hsize_t bytes = product(plan.dims) * std::max<std::size_t>(H5Tget_size(file_type(element).get()), 1);
    const auto parts = random.between(1, 3);
    for (std::uint64_t part = 0; part < parts; ++part) {
        const bool last = part + 1 == parts;
        const hsize_t size = last && random.chance(40) ? H5F_UNLIMITED : bytes / parts + 8;
        H5Pset_external(plan.creation.get(), (stem + "-" + std::to_string(part) + ".raw").c_str(),
                        random.pick<off_t>({0, 0, 13, 4096}), size);
    }
    plan.text += " external" + std::to_string(parts);
}

void choose_fill(DatasetPlan& plan, Element element, Random& random) {
    const hid_t list = plan.creation.get();
    const bool plain = !owns_memory(element) && element != Element::kOldReference;
    if (plain && random.chance(30))
        H5Pset_fill_time(list, random.pick({H5D_FILL_TIME_ALLOC, H5D_FILL_TIME_NEVER, H5D_FILL_TIME_IFSET}));
    if (random.chance(30))
        H5Pset_alloc_time(list, random.pick({H5D_ALLOC_TIME_EARLY, H5D_ALLOC_TIME_LATE, H5D_ALLOC_TIME_INCR}));
    if (plain && random.chance(30)) {
        Values value(element, 1, random, H5I_INVALID_HID, {});
        H5Pset_fill_value(list, memory_type(element).get(), value.data());
        plan.text += " fill";
    }
}

}   // namespace

Driver random_driver(Random& random) {
    const auto choice = random.below(100);
    if (choice < 78) return Driver::kDefault;
    if (choice < 88) return Driver::kPosix;
    return random.pick({Driver::kStandardIo, Driver::kCore, Driver::kCoreInMemory, Driver::kFamily, Driver::kSplit});
}

const char* driver_name(Driver driver) {
    static constexpr std::array names{"default", "sec2", "stdio", "core", "core-in-memory", "family", "split"};
    return names[static_cast<std::size_t>(driver)];
}

std::string file_name(const std::string& stem, Driver driver) {
    return driver == Driver::kFamily ? stem + "-%05d.h5" : stem + ".h5";
}

Id random_file_access(Driver driver, Random& random, std::string& text) {
    Id list(H5Pcreate(H5P_FILE_ACCESS));
    switch (driver) {
        case Driver::kDefault: break;
        case Driver::kPosix: H5Pset_fapl_sec2(list.get()); break;
        case Driver::kStandardIo: H5Pset_fapl_stdio(list.get()); break;
        case Driver::kCore: H5Pset_fapl_core(list.get(), 4096, true); break;
        case Driver::kCoreInMemory: H5Pset_fapl_core(list.get(), 65536, false); break;
        case Driver::kFamily: H5Pset_fapl_family(list.get(), kFamilyMember, H5P_DEFAULT); break;
        case Driver::kSplit: H5Pset_fapl_split(list.get(), "-m", H5P_DEFAULT, "-r", H5P_DEFAULT); break;
    }
    text += std::string(" ") + driver_name(driver);
    if (random.chance(60)) choose_libver(list.get(), random, text);
    choose_caches(list.get(), random, text);
    if (random.chance(20)) {
        const auto degree = random.pick({H5F_CLOSE_WEAK, H5F_CLOSE_SEMI, H5F_CLOSE_STRONG});
        H5Pset_fclose_degree(list.get(), degree);
        text += " degree" + std::to_string(degree);
    }
    return list;
}

Id random_file_creation(Random& random, std::string& text) {
    Id list(H5Pcreate(H5P_FILE_CREATE));
    if (random.chance(12)) {
        H5Pset_userblock(list.get(), random.pick<hsize_t>({512, 1024, 8192}));
        text += " userblock";
    }
    if (random.chance(35)) {
        const auto strategy = random.pick({H5F_FSPACE_STRATEGY_FSM_AGGR, H5F_FSPACE_STRATEGY_PAGE,
                                           H5F_FSPACE_STRATEGY_AGGR, H5F_FSPACE_STRATEGY_NONE});
        const bool persist = random.chance(60);
        H5Pset_file_space_strategy(list.get(), strategy, persist, random.pick<hsize_t>({1, 1, 64}));
        H5Pset_file_space_page_size(list.get(), random.pick<hsize_t>({512, 4096, 65536}));
        text += " space" + std::to_string(strategy) + (persist ? "-persist" : "");
    }
    if (random.chance(15)) H5Pset_link_creation_order(list.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    if (random.chance(15)) H5Pset_attr_creation_order(list.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    if (random.chance(6)) H5Pset_sizes(list.get(), random.pick<std::size_t>({4, 8}), 8);
    if (random.chance(10)) H5Pset_sym_k(list.get(), random.pick<unsigned>({2, 32}), random.pick<unsigned>({2, 8}));
    if (random.chance(10)) H5Pset_istore_k(list.get(), random.pick<unsigned>({2, 64}));
    if (random.chance(6)) {
        H5Pset_sizes(list.get(), 8, 8);   // entries with shorter addresses have bytes that HDF5 never sets
        H5Pset_shared_mesg_nindexes(list.get(), 1);
        H5Pset_shared_mesg_index(list.get(), 0, H5O_SHMESG_DTYPE_FLAG | H5O_SHMESG_ATTR_FLAG, 20);
        text += " shared-messages";
    }
    return list;
}

Id random_group_creation(Random& random, std::string& text) {
    Id list(H5Pcreate(H5P_GROUP_CREATE));
    if (random.chance(40)) {
        H5Pset_link_creation_order(list.get(), random.pick<unsigned>({H5P_CRT_ORDER_TRACKED,
                                                                      H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED}));
        text += " ordered";
    }
    if (random.chance(30)) H5Pset_attr_creation_order(list.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    if (random.chance(20)) H5Pset_attr_phase_change(list.get(), random.pick<unsigned>({0, 3}), 0);
    if (random.chance(30)) H5Pset_link_phase_change(list.get(), random.pick<unsigned>({0, 2, 8}), 0);
    if (random.chance(15)) H5Pset_est_link_info(list.get(), 5, 20);
    if (random.chance(15)) H5Pset_local_heap_size_hint(list.get(), 512);
    if (random.chance(30)) H5Pset_obj_track_times(list.get(), random.chance(50));
    return list;
}

Id random_dataset_access(Random& random, std::string& text) {
    Id list(H5Pcreate(H5P_DATASET_ACCESS));
    if (random.chance(35)) {
        H5Pset_chunk_cache(list.get(), random.pick<std::size_t>({1, 7, 521}),
                           random.pick<std::size_t>({0, 500, 8192, 1 << 20}), random.pick({0.0, 0.75, 1.0}));
        text += " chunk-cache";
    }
    if (random.chance(10)) H5Pset_virtual_view(list.get(), H5D_VDS_FIRST_MISSING);
    if (random.chance(5)) H5Pset_efile_prefix(list.get(), "${ORIGIN}");
    return list;
}

Id random_transfer_list(Random& random, std::string& text) {
    Id list(H5Pcreate(H5P_DATASET_XFER));
    if (random.chance(20)) {
        const auto bytes = random.pick<std::size_t>({64, 1000, 1 << 16});
        H5Pset_buffer(list.get(), bytes, nullptr, nullptr);
        text += " convert" + std::to_string(bytes);
    }
    if (random.chance(10)) H5Pset_hyper_vector_size(list.get(), random.pick<std::size_t>({2, 64}));
    if (random.chance(5)) H5Pset_edc_check(list.get(), H5Z_DISABLE_EDC);
    return list;
}

Id creating_intermediate_groups() {
    Id list(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(list.get(), 1);
    return list;
}

DatasetPlan random_dataset(Element element, std::size_t elements_max, const std::string& external_stem,
                           Random& random) {
    DatasetPlan plan;
    plan.creation = Id(H5Pcreate(H5P_DATASET_CREATE));
    const hid_t list = plan.creation.get();
    choose_fill(plan, element, random);
    if (random.chance(20)) H5Pset_obj_track_times(list, false);
    if (random.chance(15)) H5Pset_attr_creation_order(list, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    if (random.chance(15)) H5Pset_attr_phase_change(list, random.pick<unsigned>({0, 3}), 0);
    const auto kind = random.below(100);
    if (kind < 7) {
        plan.space = Id(H5Screate(kind < 5 ? H5S_SCALAR : H5S_NULL));
        plan.text += kind < 5 ? " scalar" : " null";
        return plan;
    }
    const auto rank = random.pick({1, 1, 2, 2, 2, 3, 4});
    std::size_t room = random.skewed(1, elements_max);
    for (int d = 0; d < rank; ++d) {
        const std::size_t left = std::max<std::size_t>(room, 1);
        const hsize_t extent = d + 1 == rank ? left : random.between(1, std::min<std::size_t>(left, 40));
        plan.dims.push_back(random.chance(2) ? 0 : extent);
        room /= extent;
    }
    plan.text += " dims" + to_text(plan.dims);
    plan.space = Id(H5Screate_simple(static_cast<int>(plan.dims.size()), plan.dims.data(), nullptr));
    if (kind < 60) {
        choose_chunks(plan, element, random);
    } else if (kind < 68) {
        H5Pset_layout(list, H5D_COMPACT);
        plan.text += " compact";
    } else if (kind < 75) {
        choose_external(plan, element, external_stem, random);
    } else {
        plan.text += " contiguous";
    }
    return plan;
}

}   // namespace differential
