/* E3SM-IO (HDF5 VOL Status Report, section 4): variables of a climate model whose parts on the ranks are many small
 * pieces, written with one collective call for each variable and record.
 *
 *   e3sm_io --file F --case f|g|i [--cells 866] [--levels 72] [--flat 32] [--deep 8] [--records 1] [--independent]
 *   e3sm_io --file F --verify [the same]
 *
 * The cells of the globe belong to the ranks in short runs of irregular length. A flat variable has a number for each
 * cell, a deep one for each cell and level.
 *
 * f: the atmosphere; levels lie slower than cells, so a run is a piece of its own at each level
 * g: the ocean; levels lie faster than cells, so a run is one piece with all its levels
 * i: the land; as f, and two thirds of the cells are sea: no rank writes them, and they keep the fill value
 */
#include "kernel.h"

enum { kLongestRun = 4 };

static const float kFill = -1e36f;

struct shape {
    struct ranks ranks;
    uint64_t cells, levels, flat, deep, records;
    char kind;
    int collective;
    int *owner; /* of each cell; -1: sea */
};

/* Assigns runs of one to four cells to the ranks. */
static void decompose(struct shape *shape) {
    shape->owner = new_array(shape->cells * sizeof *shape->owner);
    for (uint64_t cell = 0, run = 0; cell < shape->cells; ++run) {
        const uint64_t word = word_at(77, run), length = 1 + word % kLongestRun;
        int owner = (int)((word >> 8) % (uint64_t)shape->ranks.count);
        if (shape->kind == 'i' && (word >> 32) % 3 != 0) owner = -1;
        if (run < (uint64_t)shape->ranks.count) owner = (int)run; /* each rank has a run */
        for (uint64_t i = 0; i < length && cell < shape->cells; ++i) shape->owner[cell++] = owner;
    }
}

static int is_deep(const struct shape *shape, uint64_t variable) { return variable >= shape->flat; }

/* Returns the dimensions of a variable, the record first, and their sizes. `cells_at` is the dimension of the cells. */
static int extent_of(const struct shape *shape, uint64_t variable, hsize_t *extent, int *cells_at) {
    extent[0] = shape->records;
    extent[1] = extent[2] = shape->cells;
    *cells_at = 1;
    if (!is_deep(shape, variable)) return 2;
    *cells_at = shape->kind == 'g' ? 1 : 2;
    extent[3 - *cells_at] = shape->levels;
    return 3;
}

static float value_at(const struct shape *shape, uint64_t variable, uint64_t record, uint64_t level, uint64_t cell) {
    const uint64_t word = word_at(1 + variable * shape->records + record, level * shape->cells + cell);
    return (float)(word >> 40) * 0x1p-24f;
}

/* Selects the runs of a rank in one record of a variable. Returns their number. */
static uint64_t select_runs(hid_t space, const struct shape *shape, uint64_t variable, uint64_t record, int rank) {
    hsize_t extent[3], at[3] = {record, 0, 0}, size[3] = {1, shape->levels, shape->levels};
    int cells_at;
    uint64_t runs = 0;
    extent_of(shape, variable, extent, &cells_at);
    if (H5Sselect_none(space) < 0) fail("empty selection", "failed");
    for (uint64_t cell = 0, end; cell < shape->cells; cell = end) {
        for (end = cell + 1; end < shape->cells && shape->owner[end] == shape->owner[cell];) ++end;
        if (shape->owner[cell] != rank) continue;
        at[cells_at] = cell;
        size[cells_at] = end - cell;
        if (H5Sselect_hyperslab(space, runs == 0 ? H5S_SELECT_SET : H5S_SELECT_OR, at, NULL, size, NULL) < 0)
            fail("selection", "failed");
        ++runs;
    }
    return runs;
}

/* Makes a record of a variable as a rank holds it, in the order of the file. Returns the number of its values. */
static uint64_t fill_part(float *values, const struct shape *shape, uint64_t variable, uint64_t record, int rank) {
    const uint64_t levels = is_deep(shape, variable) ? shape->levels : 1;
    const int cells_slow = shape->kind == 'g';
    const uint64_t slow = cells_slow ? shape->cells : levels, fast = cells_slow ? levels : shape->cells;
    uint64_t count = 0;
    for (uint64_t i = 0; i < slow; ++i)
        for (uint64_t j = 0; j < fast; ++j) {
            const uint64_t cell = cells_slow ? i : j, level = cells_slow ? j : i;
            if (shape->owner[cell] == rank) values[count++] = value_at(shape, variable, record, level, cell);
        }
    return count;
}

static hid_t create_variable(hid_t file, const struct shape *shape, uint64_t variable, struct measured *measured) {
    char name[32];
    hsize_t extent[3];
    int cells_at, dimensions = extent_of(shape, variable, extent, &cells_at);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE), space = new_space(dimensions, extent);
    if (creation < 0 || H5Pset_fill_value(creation, H5T_NATIVE_FLOAT, &kFill) < 0 ||
        H5Pset_fill_time(creation, shape->kind == 'i' ? H5D_FILL_TIME_ALLOC : H5D_FILL_TIME_NEVER) < 0)
        fail("creation list", "failed");
    snprintf(name, sizeof name, "variable%03u", (unsigned)variable);
    hid_t dataset = create_dataset(file, name, H5T_NATIVE_FLOAT, space, creation, measured);
    H5Sclose(space);
    H5Pclose(creation);
    return dataset;
}

static void write_record(hid_t dataset, hid_t transfer, const struct shape *shape, uint64_t variable, uint64_t record,
                         float *values, struct measured *measured, double *pieces) {
    hid_t space = H5Dget_space(dataset);
    const hsize_t count = fill_part(values, shape, variable, record, shape->ranks.mine);
    const uint64_t runs = select_runs(space, shape, variable, record, shape->ranks.mine);
    hid_t memory = new_space(1, &count);
    write_selected(dataset, H5T_NATIVE_FLOAT, memory, space, transfer, values, measured);
    *pieces += (double)(runs * (is_deep(shape, variable) && shape->kind != 'g' ? shape->levels : 1));
    H5Sclose(memory);
    H5Sclose(space);
}

/* Compares whole records, those of the sea included: each rank a share of the variables. */
static double read_file(const char *path, const struct shape *shape, int serial) {
    double read_s = 0;
    float *expected = new_array(shape->cells * shape->levels * sizeof *expected);
    hid_t file = open_to_read(path, serial), transfer = read_transfer(serial, 0);
    for (uint64_t variable = 0; variable < shape->flat + shape->deep; ++variable) {
        if ((int)(variable % (uint64_t)shape->ranks.count) != shape->ranks.mine) continue;
        char name[32];
        struct block block = {0};
        int cells_at;
        block.dimensions = extent_of(shape, variable, block.extent, &cells_at);
        memcpy(block.size, block.extent, sizeof block.size);
        block.size[0] = 1;
        snprintf(name, sizeof name, "variable%03u", (unsigned)variable);
        hid_t dataset = open_dataset(file, name);
        for (uint64_t record = 0; record < shape->records; ++record) {
            const uint64_t levels = is_deep(shape, variable) ? shape->levels : 1;
            for (uint64_t i = 0; i < levels * shape->cells; ++i) {
                const uint64_t cell = shape->kind == 'g' ? i / levels : i % shape->cells;
                const uint64_t level = shape->kind == 'g' ? i % levels : i / shape->cells;
                expected[i] = shape->owner[cell] < 0 ? kFill : value_at(shape, variable, record, level, cell);
            }
            block.at[0] = record;
            compare_block(dataset, name, H5T_NATIVE_FLOAT, &block, transfer, expected, &read_s);
        }
        H5Dclose(dataset);
    }
    H5Pclose(transfer);
    H5Fclose(file);
    free(expected);
    return read_s;
}

static int write_file(const char *path, const struct shape *shape) {
    double pieces = 0;
    float *values = new_array(shape->cells * shape->levels * sizeof *values);
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured), transfer = new_transfer(shape->collective);
    for (uint64_t variable = 0; variable < shape->flat + shape->deep; ++variable) {
        hid_t dataset = create_variable(file, shape, variable, &measured);
        for (uint64_t record = 0; record < shape->records; ++record)
            write_record(dataset, transfer, shape, variable, record, values, &measured, &pieces);
        close_dataset(dataset, &measured);
    }
    H5Pclose(transfer);
    close_shared(file, &measured);
    free(values);
    const struct figure more[] = {{"read_s", read_file(path, shape, 0)}, {"pieces", pieces}};
    print_measured(shape->ranks, &measured, more, 2);
    return all_compared().wrong > 0 ? kExitWrongData : 0;
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL), *kind = argument(argc, argv, "--case", "f");
    struct shape shape = {.ranks = ranks,
                          .cells = count_argument(argc, argv, "--cells", "866"),
                          .levels = count_argument(argc, argv, "--levels", "72"),
                          .flat = count_argument(argc, argv, "--flat", "32"),
                          .deep = count_argument(argc, argv, "--deep", "8"),
                          .records = count_argument(argc, argv, "--records", "1"),
                          .kind = kind[0],
                          .collective = !flag(argc, argv, "--independent")};
    if (path == NULL) fail("--file", "is needed");
    if (strchr("fgi", kind[0]) == NULL || strlen(kind) != 1) fail(kind, "no such case");
    if (shape.cells < kLongestRun * (uint64_t)ranks.count || shape.levels == 0 || shape.records == 0)
        fail("sizes", "too few cells for the ranks, or nothing to write");
    decompose(&shape);
    int code = 0;
    if (flag(argc, argv, "--verify")) {
        read_file(path, &shape, 1);
        code = say_verified(ranks, 0);
    } else {
        code = write_file(path, &shape);
    }
    free(shape.owner);
    return end_ranks(code);
}
