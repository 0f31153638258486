/* HACC's GenericIO with HDF5 (HDF5 VOL Status Report, section 7): nine variables of the particles of an N-body
 * simulation, each contiguous in a rank's region, and the checksum of each rank's part.
 *
 *   hacc_io --file F [--particles 65536] [--collective] [--compound] [--empty 1]
 *   hacc_io --file F --verify [the same]
 *
 * `particles` are those of one rank, about: ranks have different numbers, and the last `empty` ranks (of several) have
 * none, select nothing and pass no buffer. Rank 0 alone writes the checksums (CRC-64); the other ranks make the same
 * calls with an empty selection. With --compound the variables are members of one dataset.
 */
#include "kernel.h"

enum { kVariables = 9 };

struct shape {
    struct ranks ranks;
    uint64_t particles;
    int empty, collective, compound;
};

static const struct {
    const char *name;
    size_t size_bytes;
} kVariable[kVariables] = {{"pid", 8}, {"x", 4},  {"y", 4},   {"z", 4},   {"vx", 4},
                           {"vy", 4},  {"vz", 4}, {"phi", 4}, {"mask", 2}};

static hid_t type_of(int variable) {
    return variable == 0 ? H5T_NATIVE_INT64 : variable == kVariables - 1 ? H5T_NATIVE_UINT16 : H5T_NATIVE_FLOAT;
}

static uint64_t particles_of(const struct shape *shape, int rank) {
    if (shape->ranks.count > 1 && rank >= shape->ranks.count - shape->empty) return 0;
    return shape->particles + 37u * (uint64_t)rank;
}

/* The region of a rank in a variable. */
static struct block region(const struct shape *shape, int rank) {
    hsize_t all = 0, before = 0;
    for (int r = 0; r < shape->ranks.count; ++r) {
        if (r == rank) before = all;
        all += particles_of(shape, r);
    }
    return row_block(all, before, particles_of(shape, rank));
}

/* CRC-64 with the polynomial of ECMA-182, most significant bit first. */
static uint64_t checksum(const void *data, size_t size_bytes) {
    static uint64_t table[256];
    const unsigned char *bytes = data;
    uint64_t sum = 0;
    for (int i = 0; i < 256 && table[255] == 0; ++i) {
        uint64_t x = (uint64_t)i << 56;
        for (int bit = 0; bit < 8; ++bit) x = x << 1 ^ (x >> 63 ? 0x42F0E1EBA9EA3693u : 0);
        table[i] = x;
    }
    for (size_t i = 0; i < size_bytes; ++i) sum = sum << 8 ^ table[sum >> 56 ^ bytes[i]];
    return sum;
}

/* Makes a variable of a rank. Single-precision values are finite. */
static void *new_variable(const struct shape *shape, int rank, int variable) {
    const uint64_t particles = particles_of(shape, rank), number = (uint64_t)rank * kVariables + (uint64_t)variable;
    const size_t size_bytes = kVariable[variable].size_bytes;
    char *data = new_array(particles * size_bytes);
    for (uint64_t i = 0; i < particles; ++i) {
        uint64_t word = word_at(number, i);
        if (size_bytes == 4) word &= 0x7F7FFFFFu;
        memcpy(data + i * size_bytes, &word, size_bytes);
    }
    return data;
}

static size_t member_at(int variable) {
    size_t at = 0;
    for (int v = 0; v < variable; ++v) at += kVariable[v].size_bytes;
    return at;
}

static hid_t compound_type(void) {
    hid_t type = H5Tcreate(H5T_COMPOUND, member_at(kVariables));
    for (int v = 0; v < kVariables; ++v)
        if (type < 0 || H5Tinsert(type, kVariable[v].name, member_at(v), type_of(v)) < 0) fail("H5Tinsert", "failed");
    return type;
}

/* Makes the particles of a rank, all variables of one beside each other. */
static char *new_particles(const struct shape *shape, int rank) {
    const size_t stride = member_at(kVariables);
    const uint64_t particles = particles_of(shape, rank);
    char *all = new_array(particles * stride);
    for (int v = 0; v < kVariables; ++v) {
        char *one = new_variable(shape, rank, v);
        for (uint64_t i = 0; i < particles; ++i)
            memcpy(all + i * stride + member_at(v), one + i * kVariable[v].size_bytes, kVariable[v].size_bytes);
        free(one);
    }
    return all;
}

/* Rank 0 writes the checksums of all ranks, the others nothing. Collective. */
static void write_checksums(hid_t group, const char *name, const struct shape *shape, uint64_t mine, hid_t transfer,
                            struct measured *measured) {
    const uint64_t count = (uint64_t)shape->ranks.count;
    uint64_t *sums = new_array(count * sizeof *sums);
    MPI_Gather(&mine, 1, MPI_UINT64_T, sums, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    const struct block block = row_block(count, 0, shape->ranks.mine == 0 ? count : 0);
    write_dataset(group, name, H5T_NATIVE_UINT64, &block, transfer, sums, measured);
    free(sums);
}

static void write_variables(hid_t group, hid_t transfer, const struct shape *shape, struct measured *measured) {
    const struct block block = region(shape, shape->ranks.mine);
    for (int v = 0; v < kVariables; ++v) {
        char name[32];
        void *data = new_variable(shape, shape->ranks.mine, v);
        MPI_Barrier(MPI_COMM_WORLD); /* no rank waits for the others' data inside HDF5 */
        write_dataset(group, kVariable[v].name, type_of(v), &block, transfer, data, measured);
        snprintf(name, sizeof name, "%s_crc", kVariable[v].name);
        write_checksums(group, name, shape, checksum(data, block.size[0] * kVariable[v].size_bytes), transfer,
                        measured);
        free(data);
    }
}

static void write_compound(hid_t group, hid_t transfer, const struct shape *shape, struct measured *measured) {
    const struct block block = region(shape, shape->ranks.mine);
    hid_t type = compound_type();
    char *data = new_particles(shape, shape->ranks.mine);
    MPI_Barrier(MPI_COMM_WORLD);
    write_dataset(group, "particles", type, &block, transfer, data, measured);
    write_checksums(group, "particles_crc", shape, checksum(data, block.size[0] * member_at(kVariables)), transfer,
                    measured);
    free(data);
    H5Tclose(type);
}

/* Compares the stored checksum of a rank with that of the data. */
static void compare_checksum(hid_t group, const char *name, const struct shape *shape, int rank, uint64_t sum,
                             hid_t transfer, double *read_s) {
    const struct block block = row_block((hsize_t)shape->ranks.count, (hsize_t)rank, 1);
    compare_dataset(group, name, H5T_NATIVE_UINT64, &block, transfer, &sum, read_s);
}

static double read_file(const char *path, const struct shape *shape, int serial) {
    const int rank = verified_rank(shape->ranks);
    const struct block block = region(shape, rank);
    const uint64_t facts[] = {1, (uint64_t)shape->ranks.count};
    double read_s = 0;
    hid_t file = open_to_read(path, serial), transfer = read_transfer(serial, shape->collective);
    hid_t group = open_group(file, "variables"), type = compound_type();
    compare_attribute(file, "step", facts, 2);
    for (int v = 0; v < kVariables && !shape->compound; ++v) {
        char name[32];
        void *expected = new_variable(shape, rank, v);
        snprintf(name, sizeof name, "%s_crc", kVariable[v].name);
        compare_dataset(group, kVariable[v].name, type_of(v), &block, transfer, expected, &read_s);
        compare_checksum(group, name, shape, rank, checksum(expected, block.size[0] * kVariable[v].size_bytes),
                         transfer, &read_s);
        free(expected);
    }
    if (shape->compound) {
        char *expected = new_particles(shape, rank);
        compare_dataset(group, "particles", type, &block, transfer, expected, &read_s);
        compare_checksum(group, "particles_crc", shape, rank, checksum(expected, block.size[0] * member_at(kVariables)),
                         transfer, &read_s);
        free(expected);
    }
    H5Tclose(type);
    H5Gclose(group);
    H5Pclose(transfer);
    H5Fclose(file);
    return read_s;
}

static int write_file(const char *path, const struct shape *shape) {
    const uint64_t facts[] = {1, (uint64_t)shape->ranks.count};
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured), transfer = new_transfer(shape->collective);
    write_attribute(file, "step", facts, 2, &measured);
    hid_t group = create_group(file, "variables", &measured);
    (shape->compound ? write_compound : write_variables)(group, transfer, shape, &measured);
    H5Gclose(group);
    H5Pclose(transfer);
    close_shared(file, &measured);
    return report(shape->ranks, &measured, read_file(path, shape, 0));
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL);
    const struct shape shape = {.ranks = ranks,
                                .particles = count_argument(argc, argv, "--particles", "65536"),
                                .empty = (int)count_argument(argc, argv, "--empty", "1"),
                                .collective = flag(argc, argv, "--collective"),
                                .compound = flag(argc, argv, "--compound")};
    if (path == NULL) fail("--file", "is needed");
    if (shape.particles == 0 || shape.empty >= ranks.count + (ranks.count == 1)) fail("sizes", "nothing to write");
    if (!flag(argc, argv, "--verify")) return end_ranks(write_file(path, &shape));
    read_file(path, &shape, 1);
    return end_ranks(say_verified(ranks, 0));
}
