/* VPIC-IO: the I/O of a plasma simulation (Cache VOL paper, section IV; after the kernel of that name in h5bench).
 * Eight properties of each particle, 32 bytes in all, each property a 1-D dataset that all ranks share, one group per
 * time step, everything in one file.
 *
 *   vpic_io --file F [--particles 65536] [--steps 4] [--compute-seconds 0] [--collective]
 *   vpic_io --file F --verify [the same sizes]
 *
 * `particles` are those of one rank. Computes after each step.
 */
#include "checkpoint_data.h"
#include "parallel.h"

enum { kProperties = 8 };

struct shape {
    struct ranks ranks;
    uint64_t particles, steps;
    double compute_s;
    int collective;
};

/* Positions and momenta are single-precision numbers, identities 32-bit integers. */
static const struct {
    const char *name;
    int is_integer;
} kProperty[kProperties] = {{"x", 0}, {"y", 0}, {"z", 0}, {"id1", 1}, {"id2", 1}, {"px", 0}, {"py", 0}, {"pz", 0}};

static hid_t type_of(int property) { return kProperty[property].is_integer ? H5T_NATIVE_INT32 : H5T_NATIVE_FLOAT; }

/* Returns the bits of a property of all particles of a rank. They are finite numbers in either type. */
static void fill_property(uint32_t *bits, const struct shape *shape, int rank, uint64_t step, int property) {
    uint64_t array = (step * kProperties + (uint64_t)property) * (uint64_t)shape->ranks.count + (uint64_t)rank;
    for (uint64_t i = 0; i < shape->particles; ++i) bits[i] = (uint32_t)(word_at(array, i) >> 32) & 0x7F7FFFFFu;
}

static void select_particles(hid_t space, const struct shape *shape, int rank) {
    const hsize_t at = (hsize_t)rank * shape->particles, size = shape->particles;
    select_block(space, &at, &size);
}

static void group_name(char *name, size_t size_bytes, uint64_t step) {
    snprintf(name, size_bytes, "Timestep_%u", (unsigned)step);
}

static void write_step(hid_t file, hid_t space, hid_t memory, hid_t transfer, uint64_t step, uint32_t **bits,
                       struct measured *measured) {
    char name[32];
    hid_t group;
    herr_t done;
    group_name(name, sizeof name, step);
    TIMED(measured->calls_s, group, H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    for (int p = 0; p < kProperties; ++p) {
        hid_t dataset = create_dataset(group, kProperty[p].name, type_of(p), space, H5P_DEFAULT, measured);
        write_selected(dataset, type_of(p), memory, space, transfer, bits[p], measured);
        close_dataset(dataset, measured);
    }
    TIMED(measured->calls_s, done, H5Gclose(group));
}

static int write_file(const char *path, const struct shape *shape) {
    const hsize_t mine = shape->particles, all = shape->particles * (hsize_t)shape->ranks.count;
    uint32_t *bits[kProperties];
    double compute_s = 0;
    for (int p = 0; p < kProperties; ++p) bits[p] = new_array(shape->particles * sizeof **bits);
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured);
    hid_t space = new_space(1, &all), memory = new_space(1, &mine), transfer = new_transfer(shape->collective);
    select_particles(space, shape, shape->ranks.mine);
    for (uint64_t step = 0; step < shape->steps; ++step) {
        for (int p = 0; p < kProperties; ++p) fill_property(bits[p], shape, shape->ranks.mine, step, p);
        MPI_Barrier(MPI_COMM_WORLD); /* no rank waits for the others' data inside HDF5 */
        write_step(file, space, memory, transfer, step, bits, &measured);
        double begin_s = now_s();
        compute(shape->compute_s);
        compute_s += now_s() - begin_s;
    }
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(transfer);
    close_shared(file, &measured);
    print_measured(shape->ranks, &measured, &(struct figure){"compute_s", compute_s}, 1);
    for (int p = 0; p < kProperties; ++p) free(bits[p]);
    return 0;
}

static int verify_file(const char *path, const struct shape *shape) {
    const hsize_t size = shape->particles;
    int wrong = 0, rank = verified_rank(shape->ranks);
    uint32_t *expected = new_array(size * sizeof *expected), *found = new_array(size * sizeof *found);
    hid_t file = open_to_verify(path), memory = new_space(1, &size);
    for (uint64_t step = 0; step < shape->steps; ++step) {
        char name[32];
        group_name(name, sizeof name, step);
        hid_t group = H5Gopen2(file, name, H5P_DEFAULT);
        if (group < 0) fail(name, "cannot be opened");
        for (int p = 0; p < kProperties; ++p) {
            hid_t dataset = open_dataset(group, kProperty[p].name), space = H5Dget_space(dataset);
            select_particles(space, shape, rank);
            fill_property(expected, shape, rank, step, p);
            read_selected(dataset, type_of(p), memory, space, H5P_DEFAULT, found);
            wrong |= differs(kProperty[p].name, found, expected, size * sizeof *found);
            H5Sclose(space);
            H5Dclose(dataset);
        }
        H5Gclose(group);
    }
    H5Sclose(memory);
    H5Fclose(file);
    free(found);
    free(expected);
    return say_verified(shape->ranks, wrong);
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL);
    const struct shape shape = {.ranks = ranks,
                                .particles = count_argument(argc, argv, "--particles", "65536"),
                                .steps = count_argument(argc, argv, "--steps", "4"),
                                .compute_s = seconds_argument(argc, argv, "--compute-seconds", "0"),
                                .collective = flag(argc, argv, "--collective")};
    if (path == NULL) fail("--file", "is needed");
    if (shape.particles == 0 || shape.steps == 0) fail("--particles, --steps", "nothing to write");
    return end_ranks(flag(argc, argv, "--verify") ? verify_file(path, &shape) : write_file(path, &shape));
}
