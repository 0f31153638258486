/* FLASH I/O: what an adaptive-mesh simulation of stars writes (M. Zingale's benchmark of that name, after its README:
 * 24 variables, blocks of 8 x 8 x 8 zones with 4 guard cells around them, some 80 blocks per processor; the interior
 * of the blocks is copied out before HDF5 is called).
 *
 *   flash_io --file F --kind checkpoint|plot|plot_corners [--nxb 8] [--nyb 8] [--nzb 8] [--blocks 80]
 *            [--collective] [--select-interior]
 *   flash_io --file F --verify [the same sizes and kind]
 *
 * checkpoint:    the tree of blocks, and all 24 unknowns in double precision at the zones' centres
 * plot:          the tree, and four of the unknowns in single precision at the centres
 * plot_corners:  the same at the zones' corners, one more in each direction, averaged from the eight zones around
 *
 * Each is one file; `blocks` are those of one rank. With --select-interior a checkpoint's blocks are handed to HDF5
 * with their guard cells, and a selection of the memory says which cells are meant.
 */
#include "parallel.h"

enum { kUnknowns = 24, kPlotUnknowns = 4, kGuard = 4, kNameLength = 4, kTreeDatasets = 6 };

enum kind { kCheckpoint, kPlot, kPlotCorners };

struct shape {
    struct ranks ranks;
    enum kind kind;
    uint64_t nxb, nyb, nzb, blocks;
    int collective, select_interior;
};

/* The tree: levels, types of nodes, neighbours with parent and children, and the positions of the blocks. */
static const struct {
    const char *name;
    int is_integer;
    uint64_t per_block;
} kTree[kTreeDatasets] = {{"refine level", 1, 1}, {"node type", 1, 1},  {"gid", 1, 15},
                          {"coordinates", 0, 3},  {"block size", 0, 3}, {"bounding box", 0, 6}};

static hid_t tree_type(int i) { return kTree[i].is_integer ? H5T_NATIVE_INT : H5T_NATIVE_DOUBLE; }

/* Bytes of a tree dataset of one rank. */
static void fill_tree(void *data, const struct shape *shape, int rank, int i) {
    const uint64_t count = shape->blocks * kTree[i].per_block, first = (uint64_t)rank * count;
    for (uint64_t k = 0; k < count; ++k) {
        uint64_t word = word_at(1000 + (uint64_t)i, first + k) >> 40;
        if (kTree[i].is_integer) ((int *)data)[k] = (int)word;
        else ((double *)data)[k] = (double)word;
    }
}

static uint64_t padded(uint64_t zones) { return zones + 2 * kGuard; }

static uint64_t padded_cells(const struct shape *shape) {
    return padded(shape->nzb) * padded(shape->nyb) * padded(shape->nxb);
}

/* One unknown on all blocks of a rank, guard cells included. The values are integers of 20 bits, so that the mean of
 * eight is exact and a single-precision number holds every centre. */
static void fill_blocks(double *cells, const struct shape *shape, int rank, int unknown) {
    const uint64_t count = shape->blocks * padded_cells(shape), first = (uint64_t)rank * count;
    for (uint64_t i = 0; i < count; ++i) cells[i] = (double)(word_at((uint64_t)unknown, first + i) >> 44);
}

static const double *cell(const double *cells, const struct shape *shape, uint64_t b, uint64_t z, uint64_t y,
                          uint64_t x) {
    return cells + ((b * padded(shape->nzb) + z + kGuard) * padded(shape->nyb) + y + kGuard) * padded(shape->nxb) + x +
           kGuard;
}

/* The mean of the eight zones around the lower corner of a zone. */
static double corner(const double *cells, const struct shape *shape, uint64_t b, uint64_t z, uint64_t y, uint64_t x) {
    const double *at = cell(cells, shape, b, z, y, x);
    const uint64_t row = padded(shape->nxb), plane = padded(shape->nyb) * row;
    double sum = 0;
    for (int k = 0; k < 8; ++k) sum += at[-(int64_t)((k >> 2 & 1) * plane + (k >> 1 & 1) * row + (k & 1))];
    return sum / 8;
}

static void stored_extent(const struct shape *shape, hsize_t blocks, hsize_t extent[4]) {
    const uint64_t more = shape->kind == kPlotCorners ? 1 : 0;
    extent[0] = blocks;
    extent[1] = shape->nzb + more;
    extent[2] = shape->nyb + more;
    extent[3] = shape->nxb + more;
}

static uint64_t stored_values(const struct shape *shape) {
    hsize_t extent[4];
    stored_extent(shape, shape->blocks, extent);
    return extent[0] * extent[1] * extent[2] * extent[3];
}

static hid_t stored_type(const struct shape *shape) {
    return shape->kind == kCheckpoint ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
}

static size_t value_bytes(const struct shape *shape) {
    return shape->kind == kCheckpoint ? sizeof(double) : sizeof(float);
}

/* Converts an unknown from the blocks in memory to the file's form: interior or corners, in the file's precision. */
static void extract(void *values, const double *cells, const struct shape *shape) {
    hsize_t extent[4];
    uint64_t i = 0;
    stored_extent(shape, shape->blocks, extent);
    for (uint64_t b = 0; b < extent[0]; ++b)
        for (uint64_t z = 0; z < extent[1]; ++z)
            for (uint64_t y = 0; y < extent[2]; ++y)
                for (uint64_t x = 0; x < extent[3]; ++x, ++i) {
                    if (shape->kind == kCheckpoint) ((double *)values)[i] = *cell(cells, shape, b, z, y, x);
                    else if (shape->kind == kPlot) ((float *)values)[i] = (float)*cell(cells, shape, b, z, y, x);
                    else ((float *)values)[i] = (float)corner(cells, shape, b, z, y, x);
                }
}

static void unknown_name(char name[kNameLength + 1], int unknown) {
    snprintf(name, kNameLength + 1, "un%02d", unknown % 100);
}

static int unknowns(const struct shape *shape) { return shape->kind == kCheckpoint ? kUnknowns : kPlotUnknowns; }

static void select_blocks(hid_t space, const hsize_t *extent, int dimensions, const struct shape *shape, int rank) {
    hsize_t at[4] = {(hsize_t)rank * shape->blocks}, size[4] = {shape->blocks};
    for (int d = 1; d < dimensions; ++d) size[d] = extent[d];
    select_block(space, at, size);
}

static void write_tree(hid_t file, hid_t transfer, const struct shape *shape, struct measured *measured) {
    for (int i = 0; i < kTreeDatasets; ++i) {
        const hsize_t all[] = {shape->blocks * (hsize_t)shape->ranks.count, kTree[i].per_block};
        const hsize_t mine = shape->blocks * kTree[i].per_block;
        hid_t space = new_space(2, all), memory = new_space(1, &mine);
        void *data = new_array(mine * sizeof(double));
        fill_tree(data, shape, shape->ranks.mine, i);
        select_blocks(space, all, 2, shape, shape->ranks.mine);
        hid_t dataset = create_dataset(file, kTree[i].name, tree_type(i), space, H5P_DEFAULT, measured);
        write_selected(dataset, tree_type(i), memory, space, transfer, data, measured);
        close_dataset(dataset, measured);
        free(data);
        H5Sclose(memory);
        H5Sclose(space);
    }
}

static hid_t names_type(void) {
    hid_t type = H5Tcopy(H5T_C_S1);
    if (type < 0 || H5Tset_size(type, kNameLength) < 0 || H5Tset_strpad(type, H5T_STR_NULLPAD) < 0)
        fail("string type", "failed");
    return type;
}

/* Writes the names of the unknowns: one small dataset, written by rank 0 only. */
static void write_names(hid_t file, const struct shape *shape, struct measured *measured) {
    const hsize_t extent = (hsize_t)unknowns(shape);
    char names[kUnknowns * kNameLength + 1];
    for (int u = 0; u < unknowns(shape); ++u) unknown_name(names + u * kNameLength, u);
    hid_t type = names_type(), space = new_space(1, &extent), transfer = new_transfer(0);
    hid_t dataset = create_dataset(file, "unknown names", type, space, H5P_DEFAULT, measured);
    if (shape->ranks.mine == 0) write_selected(dataset, type, space, space, transfer, names, measured);
    close_dataset(dataset, measured);
    H5Pclose(transfer);
    H5Sclose(space);
    H5Tclose(type);
}

/* The memory of blocks with guard cells, their interior selected. */
static hid_t interior_space(const struct shape *shape) {
    const hsize_t extent[] = {shape->blocks, padded(shape->nzb), padded(shape->nyb), padded(shape->nxb)};
    const hsize_t at[] = {0, kGuard, kGuard, kGuard}, size[] = {shape->blocks, shape->nzb, shape->nyb, shape->nxb};
    hid_t memory = new_space(4, extent);
    select_block(memory, at, size);
    return memory;
}

static void write_unknowns(hid_t file, hid_t transfer, const struct shape *shape, struct measured *measured) {
    hsize_t all[4];
    const hsize_t mine = stored_values(shape);
    stored_extent(shape, shape->blocks * (hsize_t)shape->ranks.count, all);
    double *cells = new_array(shape->blocks * padded_cells(shape) * sizeof *cells);
    void *values = new_array(mine * value_bytes(shape));
    hid_t space = new_space(4, all), type = stored_type(shape);
    hid_t memory = shape->select_interior ? interior_space(shape) : new_space(1, &mine);
    select_blocks(space, all, 4, shape, shape->ranks.mine);
    for (int u = 0; u < unknowns(shape); ++u) {
        char name[kNameLength + 1];
        unknown_name(name, u);
        fill_blocks(cells, shape, shape->ranks.mine, u);
        if (!shape->select_interior) extract(values, cells, shape);
        MPI_Barrier(MPI_COMM_WORLD); /* no rank waits for the others' data inside HDF5 */
        hid_t dataset = create_dataset(file, name, type, space, H5P_DEFAULT, measured);
        write_selected(dataset, type, memory, space, transfer, shape->select_interior ? (void *)cells : values,
                       measured);
        close_dataset(dataset, measured);
    }
    H5Sclose(memory);
    H5Sclose(space);
    free(values);
    free(cells);
}

static int write_file(const char *path, const struct shape *shape) {
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured), transfer = new_transfer(shape->collective);
    write_tree(file, transfer, shape, &measured);
    write_names(file, shape, &measured);
    write_unknowns(file, transfer, shape, &measured);
    H5Pclose(transfer);
    close_shared(file, &measured);
    print_measured(shape->ranks, &measured, NULL, 0);
    return 0;
}

/* Compares a rank's blocks of a dataset with `expected`. */
static int compare_blocks(hid_t file, const char *name, hid_t type, const struct shape *shape, int rank,
                          const void *expected, size_t size_bytes) {
    hsize_t extent[4];
    const hsize_t values = size_bytes / H5Tget_size(type);
    hid_t dataset = open_dataset(file, name), space = H5Dget_space(dataset), memory = new_space(1, &values);
    int dimensions = H5Sget_simple_extent_dims(space, extent, NULL);
    void *found = new_array(size_bytes);
    select_blocks(space, extent, dimensions, shape, rank);
    read_selected(dataset, type, memory, space, H5P_DEFAULT, found);
    int wrong = differs(name, found, expected, size_bytes);
    free(found);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(dataset);
    return wrong;
}

static int compare_names(hid_t file, const struct shape *shape) {
    char expected[kUnknowns * kNameLength + 1], found[kUnknowns * kNameLength];
    for (int u = 0; u < unknowns(shape); ++u) unknown_name(expected + u * kNameLength, u);
    hid_t type = names_type(), dataset = open_dataset(file, "unknown names");
    read_selected(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, found);
    H5Dclose(dataset);
    H5Tclose(type);
    return differs("unknown names", found, expected, (size_t)unknowns(shape) * kNameLength);
}

static int verify_file(const char *path, const struct shape *shape) {
    const int rank = verified_rank(shape->ranks);
    const size_t size_bytes = stored_values(shape) * value_bytes(shape);
    hid_t file = open_to_verify(path);
    int wrong = compare_names(file, shape);
    for (int i = 0; i < kTreeDatasets; ++i) {
        const uint64_t count = shape->blocks * kTree[i].per_block;
        void *expected = new_array(count * sizeof(double));
        fill_tree(expected, shape, rank, i);
        wrong |= compare_blocks(file, kTree[i].name, tree_type(i), shape, rank, expected,
                                count * H5Tget_size(tree_type(i)));
        free(expected);
    }
    double *cells = new_array(shape->blocks * padded_cells(shape) * sizeof *cells);
    void *expected = new_array(size_bytes);
    for (int u = 0; u < unknowns(shape); ++u) {
        char name[kNameLength + 1];
        unknown_name(name, u);
        fill_blocks(cells, shape, rank, u);
        extract(expected, cells, shape);
        wrong |= compare_blocks(file, name, stored_type(shape), shape, rank, expected, size_bytes);
    }
    free(expected);
    free(cells);
    H5Fclose(file);
    return say_verified(shape->ranks, wrong);
}

static enum kind kind_argument(int argc, char **argv) {
    const char *name = argument(argc, argv, "--kind", "checkpoint");
    if (strcmp(name, "checkpoint") == 0) return kCheckpoint;
    if (strcmp(name, "plot") == 0) return kPlot;
    if (strcmp(name, "plot_corners") != 0) fail(name, "no such kind of file");
    return kPlotCorners;
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL);
    const struct shape shape = {.ranks = ranks,
                                .kind = kind_argument(argc, argv),
                                .nxb = count_argument(argc, argv, "--nxb", "8"),
                                .nyb = count_argument(argc, argv, "--nyb", "8"),
                                .nzb = count_argument(argc, argv, "--nzb", "8"),
                                .blocks = count_argument(argc, argv, "--blocks", "80"),
                                .collective = flag(argc, argv, "--collective"),
                                .select_interior = flag(argc, argv, "--select-interior")};
    if (path == NULL) fail("--file", "is needed");
    if (shape.select_interior && shape.kind != kCheckpoint) fail("--select-interior", "is for checkpoints");
    if (shape.blocks * shape.nxb * shape.nyb * shape.nzb == 0) fail("blocks", "nothing to write");
    return end_ranks(flag(argc, argv, "--verify") ? verify_file(path, &shape) : write_file(path, &shape));
}
