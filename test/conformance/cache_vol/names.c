/* Every name of Cache VOL's headers that its benchmarks, or code that came from them, use: lists of samples, pieces of
 * mapped memory, and what its connector keeps of a file. */
#include <stdio.h>
#include <string.h>

#include <H5VLcache_ext.h>
#include <cache_new_h5api.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            return 1;                                                               \
        }                                                                           \
    } while (0)

/* The samples that a selection of whole rows has, in order. */
static void samples_of(hid_t space, BATCH *samples, bool *contiguous) {
    hsize_t start[2], end[2];
    samples->size = 0;
    H5Sget_select_bounds(space, start, end);
    for (hsize_t row = start[0]; row <= end[0]; ++row) samples->list[samples->size++] = (int)row;
    *contiguous = true;
}

static int keep_samples(void) {
    const hsize_t extent[] = {8, 3}, start[] = {2, 0}, count[] = {4, 3};
    const hid_t space = H5Screate_simple(2, extent, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    int list[8];
    DSET dataset = {.sample = {.dim = 2, .size = 3 * sizeof(float), .nel = 3}, .ns_glob = 8, .batch = {list, 0}};
    samples_of(space, &dataset.batch, &dataset.contig_read);
    const SAMPLE sample = dataset.sample;
    CHECK(dataset.batch.size == 4 && list[0] == 2 && list[3] == 5 && sample.nel == 3 && dataset.contig_read);
    return H5Sclose(space) < 0;
}

static int keep_requests(void) {
    task_data_t first, second;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    first.next = &second;
    second.size = 17;
#if H5_VERSION_GE(1, 13, 3)
    second.previous = &first;
    hid_t datasets[] = {1, 2};
    second.dataset_id = datasets;
    second.count = 2;
    CHECK(second.previous == &first && second.dataset_id[1] == 2);
#endif
    IO_THREAD io = {.num_request = 2, .request_list = &first, .current_request = first.next};
    MMAP map = {.fd = -1, .fname = "cache.dat"};
    MPI_INFO mpi = {.rank = 3, .nproc = 4, .local_rank = 1, .ppn = 2};
    io_handler_t handler = {.mmap = &map, .mpi = &mpi, .io = &io};
    CHECK(handler.io->current_request->size == 17 && handler.mpi->rank == 3 && handler.mmap->fd == -1);
    H5VL_cache_ext_t object = {.H5DRMM = &handler, .write_cache = true, .obj_type = H5I_FILE};
    request_list_t request = {.req = &object};
    object_close_task_t task = {.type = DATASET_CLOSE, .obj = &object};
    object.async_close_task_list = &task;
    CHECK(((H5VL_cache_ext_t *)request.req)->async_close_task_list->type == DATASET_CLOSE);
    return 0;
}

static int ask_for_tables(void) {
    const char *const types[] = {"SSD", "BURST_BUFFER", "MEMORY", "GPU"};
    MMAP map = {.fd = -1};
    for (int i = 0; i < 4; ++i) {
        const H5LS_mmap_class_t *table = get_H5LS_mmap_class_t(types[i]);
        CHECK(table != NULL && strcmp(table->type, types[i]) == 0);
        H5E_BEGIN_TRY {
            CHECK(table->create_write_mmap(&map, 1) < 0 && table->remove_read_mmap(&map, 1) < 0);
            CHECK(table->write_buffer_to_mmap(H5S_ALL, H5T_NATIVE_INT, &map, 1, &map) == NULL);
            CHECK(table->removeCacheFolder("/nowhere") < 0);
        }
        H5E_END_TRY
    }
    H5E_BEGIN_TRY { CHECK(get_H5LS_mmap_class_t("TAPE") == NULL && get_H5LS_mmap_class_t(NULL) == NULL); }
    H5E_END_TRY
    cache_storage_t *storage = H5LScreate(H5P_DEFAULT);
    CHECK(storage != NULL && storage->mmap_cls == NULL && storage->cache_io_cls == NULL);
    storage->mmap_cls = get_H5LS_mmap_class_t(storage->type);
    CHECK(strcmp(storage->mmap_cls->type, "SSD") == 0);
    return H5LSclose(storage) < 0;
}

int main(void) {
    if (keep_samples() != 0 || keep_requests() != 0 || ask_for_tables() != 0) return 1;
    puts("done");
    return 0;
}
