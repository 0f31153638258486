/* AMReX's plot and particle files (HDF5 VOL Status Report, section 6): a mesh in levels of boxes, each box on one rank,
 * and particles in the boxes.
 *
 *   amrex_io --file F --kind plot|particles [--dumps 5] [--levels 2] [--boxes 8] [--cells 16] [--components 4]
 *            [--particles 512] [--collective]
 *   amrex_io --file F --verify [the same]
 *
 * Dump i is the file F.i. A level of a plot file has three datasets: the corners of all boxes (a compound type), the
 * begins of their data, and the data: box by box, component by component. A rank owns about `boxes` boxes of `cells`
 * ^ 3 cells, scattered over the level, and writes each with one call. A level of a particle file has the numbers of
 * particles in the boxes, real numbers and integers; a rank writes its particles side by side with one call each.
 */
#include "kernel.h"

enum { kReals = 7, kIntegers = 2 };

struct shape {
    struct ranks ranks;
    uint64_t dumps, levels, boxes, cells, components, particles;
    int is_plot, collective;
};

struct box {
    int32_t lower[3], upper[3];
};

static uint64_t boxes_of_level(const struct shape *shape) { return shape->boxes * (uint64_t)shape->ranks.count; }

/* The rank that owns a box: irregular, each rank has at least one. */
static int owner(const struct shape *shape, uint64_t level, uint64_t box) {
    const uint64_t ranks = (uint64_t)shape->ranks.count;
    return (int)(box < ranks ? box : word_at(7000 + level, box) % ranks);
}

static struct box corners(const struct shape *shape, uint64_t box) {
    struct box result;
    for (int d = 0; d < 3; ++d) {
        const int32_t at = (int32_t)(d == 0 ? box % 8 : d == 1 ? box / 8 % 8 : box / 64);
        result.lower[d] = at * (int32_t)shape->cells;
        result.upper[d] = result.lower[d] + (int32_t)shape->cells - 1;
    }
    return result;
}

static hid_t box_type(void) {
    static const char *const names[] = {"lo_i", "lo_j", "lo_k", "hi_i", "hi_j", "hi_k"};
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct box));
    for (int i = 0; i < 6; ++i)
        if (type < 0 || H5Tinsert(type, names[i], (size_t)i * sizeof(int32_t), H5T_NATIVE_INT32) < 0)
            fail("H5Tinsert", "failed");
    return type;
}

static uint64_t box_values(const struct shape *shape) {
    return shape->cells * shape->cells * shape->cells * shape->components;
}

static void fill_reals(double *values, uint64_t count, uint64_t number, uint64_t first) {
    for (uint64_t i = 0; i < count; ++i) values[i] = (double)(word_at(number, first + i) >> 11) * 0x1p-53;
}

/* The number of an array of a level of a dump. */
static uint64_t number_of(const struct shape *shape, uint64_t dump, uint64_t level) {
    return 1 + dump * shape->levels + level;
}

/* Particles of a box: from 1 to twice the mean. */
static uint64_t particles_of(const struct shape *shape, uint64_t level, uint64_t box) {
    return 1 + word_at(8000 + level, box) % (2 * shape->particles);
}

/* The particles of a rank, or of those before it, in a level. They lie by rank. */
static uint64_t particles_until(const struct shape *shape, uint64_t level, int end_rank) {
    uint64_t sum = 0;
    for (uint64_t b = 0; b < boxes_of_level(shape); ++b)
        if (owner(shape, level, b) < end_rank) sum += particles_of(shape, level, b);
    return sum;
}

static struct block particle_block(const struct shape *shape, uint64_t level, int rank, uint64_t values) {
    const uint64_t before = particles_until(shape, level, rank), end = particles_until(shape, level, rank + 1);
    return row_block(particles_until(shape, level, shape->ranks.count) * values, before * values,
                     (end - before) * values);
}

/* Writes an array that all ranks know; rank 0 does. Collective. */
static void write_by_one(hid_t group, const char *name, hid_t type, const void *values, const struct shape *shape,
                         hid_t transfer, struct measured *measured) {
    const hsize_t count = boxes_of_level(shape);
    const struct block block = row_block(count, 0, shape->ranks.mine == 0 ? count : 0);
    write_dataset(group, name, type, &block, transfer, values, measured);
}

/* The arrays of a level that rank 0 writes: corners, and begins of the data or numbers of particles. */
struct tables {
    struct box *boxes;
    uint64_t *numbers;
};

static struct tables new_tables(const struct shape *shape, uint64_t level) {
    const uint64_t count = boxes_of_level(shape);
    struct tables tables = {new_array(count * sizeof(struct box)), new_array(count * sizeof(uint64_t))};
    for (uint64_t b = 0; b < count; ++b) {
        tables.boxes[b] = corners(shape, b);
        tables.numbers[b] = shape->is_plot ? b * box_values(shape) : particles_of(shape, level, b);
    }
    return tables;
}

static void delete_tables(struct tables tables) {
    free(tables.boxes);
    free(tables.numbers);
}

/* Writes the data of a level of a plot file: each rank box by box. With a collective transfer, ranks with fewer boxes
 * make the same calls with nothing. */
static void write_boxes(hid_t group, hid_t transfer, const struct shape *shape, uint64_t dump, uint64_t level,
                        struct measured *measured) {
    const uint64_t size = box_values(shape), all = size * boxes_of_level(shape);
    double *values = new_array(size * sizeof *values);
    hid_t space = new_space(1, &all);
    hid_t dataset = create_dataset(group, "data:datatype=0", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, measured);
    uint64_t b = 0, rounds = 0;
    for (int r = 0; r < shape->ranks.count; ++r) {
        uint64_t owned = 0;
        for (uint64_t i = 0; i < boxes_of_level(shape); ++i) owned += owner(shape, level, i) == r;
        if (owned > rounds) rounds = owned;
    }
    for (uint64_t round = 0; round < rounds; ++round, ++b) {
        while (b < boxes_of_level(shape) && owner(shape, level, b) != shape->ranks.mine) ++b;
        const int mine = b < boxes_of_level(shape);
        if (!mine && !shape->collective) break;
        const struct block block = row_block(all, mine ? b * size : 0, mine ? size : 0);
        if (mine) fill_reals(values, size, number_of(shape, dump, level), b * size);
        write_block(dataset, H5T_NATIVE_DOUBLE, &block, transfer, values, measured);
    }
    close_dataset(dataset, measured);
    H5Sclose(space);
    free(values);
}

/* Makes the integers of particles, of which `first` is the first. */
static int32_t *new_integers(uint64_t count, uint64_t number, uint64_t first) {
    int32_t *values = new_array(count * sizeof *values);
    for (uint64_t i = 0; i < count; ++i) values[i] = (int32_t)word_at(500 + number, first + i);
    return values;
}

static void write_particles(hid_t group, hid_t transfer, const struct shape *shape, uint64_t dump, uint64_t level,
                            struct measured *measured) {
    const struct block reals = particle_block(shape, level, shape->ranks.mine, kReals);
    const struct block integers = particle_block(shape, level, shape->ranks.mine, kIntegers);
    double *positions = new_array(reals.size[0] * sizeof *positions);
    int32_t *ids = new_integers(integers.size[0], number_of(shape, dump, level), integers.at[0]);
    fill_reals(positions, reals.size[0], number_of(shape, dump, level), reals.at[0]);
    write_dataset(group, "data:datatype=0", H5T_NATIVE_DOUBLE, &reals, transfer, positions, measured);
    write_dataset(group, "data:datatype=1", H5T_NATIVE_INT32, &integers, transfer, ids, measured);
    free(ids);
    free(positions);
}

static void write_dump(hid_t file, hid_t transfer, const struct shape *shape, uint64_t dump,
                       struct measured *measured) {
    const uint64_t facts[] = {dump, shape->levels, shape->components};
    write_attribute(file, "dump", facts, 3, measured);
    for (uint64_t level = 0; level < shape->levels; ++level) {
        char name[32];
        snprintf(name, sizeof name, "level_%u", (unsigned)level);
        struct tables tables = new_tables(shape, level);
        hid_t group = create_group(file, name, measured), type = box_type();
        write_by_one(group, "boxes", type, tables.boxes, shape, transfer, measured);
        write_by_one(group, "numbers", H5T_NATIVE_UINT64, tables.numbers, shape, transfer, measured);
        (shape->is_plot ? write_boxes : write_particles)(group, transfer, shape, dump, level, measured);
        H5Tclose(type);
        H5Gclose(group);
        delete_tables(tables);
    }
}

/* Compares the boxes of the next rank, or its particles. */
static void compare_level(hid_t group, hid_t transfer, const struct shape *shape, uint64_t dump, uint64_t level,
                          double *read_s) {
    const int rank = verified_rank(shape->ranks);
    const uint64_t size = box_values(shape), number = number_of(shape, dump, level);
    if (!shape->is_plot) {
        const struct block reals = particle_block(shape, level, rank, kReals);
        const struct block integers = particle_block(shape, level, rank, kIntegers);
        double *positions = new_array(reals.size[0] * sizeof *positions);
        int32_t *ids = new_integers(integers.size[0], number, integers.at[0]);
        fill_reals(positions, reals.size[0], number, reals.at[0]);
        compare_dataset(group, "data:datatype=0", H5T_NATIVE_DOUBLE, &reals, transfer, positions, read_s);
        compare_dataset(group, "data:datatype=1", H5T_NATIVE_INT32, &integers, transfer, ids, read_s);
        free(ids);
        free(positions);
        return;
    }
    double *values = new_array(size * sizeof *values);
    hid_t dataset = open_dataset(group, "data:datatype=0");
    for (uint64_t b = 0; b < boxes_of_level(shape); ++b) {
        if (owner(shape, level, b) != rank) continue;
        const struct block block = row_block(size * boxes_of_level(shape), b * size, size);
        fill_reals(values, size, number, b * size);
        compare_block(dataset, "box", H5T_NATIVE_DOUBLE, &block, transfer, values, read_s);
    }
    H5Dclose(dataset);
    free(values);
}

static double read_dump(const char *path, const struct shape *shape, uint64_t dump, int serial) {
    const uint64_t facts[] = {dump, shape->levels, shape->components};
    const struct block all = row_block(boxes_of_level(shape), 0, boxes_of_level(shape));
    double read_s = 0;
    hid_t file = open_to_read(path, serial), transfer = read_transfer(serial, 0), type = box_type();
    compare_attribute(file, "dump", facts, 3);
    for (uint64_t level = 0; level < shape->levels; ++level) {
        char name[32];
        snprintf(name, sizeof name, "level_%u", (unsigned)level);
        struct tables tables = new_tables(shape, level);
        hid_t group = open_group(file, name);
        compare_dataset(group, "boxes", type, &all, transfer, tables.boxes, &read_s);
        compare_dataset(group, "numbers", H5T_NATIVE_UINT64, &all, transfer, tables.numbers, &read_s);
        compare_level(group, transfer, shape, dump, level, &read_s);
        H5Gclose(group);
        delete_tables(tables);
    }
    H5Tclose(type);
    H5Pclose(transfer);
    H5Fclose(file);
    return read_s;
}

static double for_each_dump(const char *prefix, const struct shape *shape, int serial, struct measured *measured) {
    double read_s = 0;
    char path[4096];
    for (uint64_t dump = 0; dump < shape->dumps; ++dump) {
        snprintf(path, sizeof path, "%s.%05u", prefix, (unsigned)dump);
        if (measured == NULL) {
            read_s += read_dump(path, shape, dump, serial);
            continue;
        }
        hid_t file = create_shared(path, measured), transfer = new_transfer(shape->collective);
        write_dump(file, transfer, shape, dump, measured);
        H5Pclose(transfer);
        close_one_of_several(file, measured);
    }
    return read_s;
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL), *kind = argument(argc, argv, "--kind", "plot");
    const struct shape shape = {.ranks = ranks,
                                .dumps = count_argument(argc, argv, "--dumps", "5"),
                                .levels = count_argument(argc, argv, "--levels", "2"),
                                .boxes = count_argument(argc, argv, "--boxes", "8"),
                                .cells = count_argument(argc, argv, "--cells", "16"),
                                .components = count_argument(argc, argv, "--components", "4"),
                                .particles = count_argument(argc, argv, "--particles", "512"),
                                .is_plot = strcmp(kind, "plot") == 0,
                                .collective = flag(argc, argv, "--collective")};
    if (path == NULL) fail("--file", "is needed");
    if (!shape.is_plot && strcmp(kind, "particles") != 0) fail(kind, "no such kind of file");
    if (shape.dumps * shape.levels * shape.boxes * shape.cells * shape.components * shape.particles == 0)
        fail("sizes", "nothing to write");
    if (flag(argc, argv, "--verify")) {
        for_each_dump(path, &shape, 1, NULL);
        return end_ranks(say_verified(ranks, 0));
    }
    struct measured measured = start_clocks();
    for_each_dump(path, &shape, 0, &measured);
    stop_clocks(&measured);
    return end_ranks(report(ranks, &measured, for_each_dump(path, &shape, 0, NULL)));
}
