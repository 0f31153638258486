/* FFBench: the three scenarios by which "Compactor: Optimization Framework at Staging I/O nodes" (Venkatesan, Chaarawi,
 * Koziol, Gabriel) judges its merging. All ranks write one matrix of (ranks * rows) x columns 64-bit words, with many
 * small requests.
 *
 *   ffbench --file F --pattern collective_buffering|morphing|stealing [--rows 128] [--columns 2048] [--collective]
 *           [--piece 256] [--rounds 1] [--neighbour]
 *   ffbench --file F --verify [the same]
 *
 * collective_buffering: one request writes one row, and ranks take rows in turns: neighbouring rows of the file come
 *     from different ranks.
 * morphing: each rank has rows of its own, side by side. One request writes `piece` columns of all of them, and begins
 *     half a piece after the one before: half of what was written is overwritten. `rounds` does it all again.
 * stealing: as collective_buffering, and then each rank reads its rows back, request by request, and compares them.
 *     With --neighbour it reads the rows of the next rank, after a barrier and nothing else: that is defined where all
 *     ranks are on one node, natively (the system's page cache) and with forebay (docs/consistency.md).
 *
 * Prints, beside the common figures, the seconds spent in writes_s and reads_s.
 */
#include "parallel.h"

enum pattern { kCollectiveBuffering, kMorphing, kStealing };

struct shape {
    enum pattern pattern;
    uint64_t rows, columns, piece, rounds;
    struct ranks ranks;
    int collective, neighbour;
};

/* Requests of one round of morphing. */
static uint64_t pieces(const struct shape *shape) { return 2 * shape->columns / shape->piece - 1; }

/* The word that request `number` of morphing writes. */
static uint64_t morphed_word(const struct shape *shape, uint64_t number, uint64_t row, uint64_t column) {
    return word_at(1 + number, row * shape->columns + column);
}

/* The final content of the file. */
static uint64_t final_word(const struct shape *shape, uint64_t row, uint64_t column) {
    if (shape->pattern != kMorphing) return word_at(0, row * shape->columns + column);
    uint64_t last = pieces(shape) - 1, writer = column / (shape->piece / 2);
    uint64_t round_begin = (shape->rounds - 1) * pieces(shape);
    return morphed_word(shape, round_begin + (writer < last ? writer : last), row, column);
}

/* The i-th row that a rank writes. */
static uint64_t row_of(const struct shape *shape, int rank, uint64_t i) {
    if (shape->pattern == kMorphing) return (uint64_t)rank * shape->rows + i;
    return i * (uint64_t)shape->ranks.count + (uint64_t)rank;
}

static void select_row(hid_t space, const struct shape *shape, int rank, uint64_t i) {
    const hsize_t at[] = {row_of(shape, rank, i), 0}, size[] = {1, shape->columns};
    select_block(space, at, size);
}

static void expect_row(const struct shape *shape, int rank, uint64_t i, uint64_t *words) {
    for (uint64_t c = 0; c < shape->columns; ++c) words[c] = final_word(shape, row_of(shape, rank, i), c);
}

static double write_rows(hid_t dataset, hid_t space, hid_t transfer, const struct shape *shape,
                         struct measured *measured) {
    const hsize_t extent = shape->columns;
    hid_t memory = new_space(1, &extent);
    uint64_t *rows = new_array(shape->rows * shape->columns * sizeof *rows);
    for (uint64_t i = 0; i < shape->rows; ++i) expect_row(shape, shape->ranks.mine, i, rows + i * shape->columns);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin_s = now_s();
    for (uint64_t i = 0; i < shape->rows; ++i) {
        select_row(space, shape, shape->ranks.mine, i);
        write_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, rows + i * shape->columns, measured);
    }
    double took_s = now_s() - begin_s;
    free(rows);
    H5Sclose(memory);
    return took_s;
}

static double write_overlapping(hid_t dataset, hid_t space, hid_t transfer, const struct shape *shape,
                                struct measured *measured) {
    const hsize_t extent[] = {shape->rows, shape->piece};
    const uint64_t count = pieces(shape) * shape->rounds;
    double took_s = 0;
    hid_t memory = new_space(2, extent);
    uint64_t *words = new_array(shape->rows * shape->piece * sizeof *words);
    MPI_Barrier(MPI_COMM_WORLD);
    for (uint64_t number = 0; number < count; ++number) {
        const hsize_t at[] = {row_of(shape, shape->ranks.mine, 0), number % pieces(shape) * (shape->piece / 2)};
        for (uint64_t r = 0; r < shape->rows; ++r)
            for (uint64_t c = 0; c < shape->piece; ++c)
                words[r * shape->piece + c] = morphed_word(shape, number, at[0] + r, at[1] + c);
        select_block(space, at, extent);
        double begin_s = now_s();
        write_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, words, measured);
        took_s += now_s() - begin_s;
    }
    free(words);
    H5Sclose(memory);
    return took_s;
}

/* Reads and compares the rows that `rank` wrote. Adds the seconds of the reads to `reads_s`. */
static int compare_rows(hid_t dataset, hid_t space, hid_t transfer, const struct shape *shape, int rank,
                        double *reads_s) {
    const hsize_t extent = shape->columns;
    int wrong = 0;
    hid_t memory = new_space(1, &extent);
    uint64_t *found = new_array(extent * sizeof *found), *expected = new_array(extent * sizeof *expected);
    for (uint64_t i = 0; i < shape->rows; ++i) {
        select_row(space, shape, rank, i);
        double begin_s = now_s();
        read_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, found);
        *reads_s += now_s() - begin_s;
        expect_row(shape, rank, i, expected);
        wrong |= differs("row", found, expected, extent * sizeof *found);
    }
    free(found);
    free(expected);
    H5Sclose(memory);
    return wrong;
}

static int write_file(const char *path, const struct shape *shape) {
    const hsize_t extent[] = {(hsize_t)shape->ranks.count * shape->rows, shape->columns};
    int wrong = 0;
    struct figure times[] = {{"writes_s", 0}, {"reads_s", 0}};
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured);
    hid_t space = new_space(2, extent), transfer = new_transfer(shape->collective);
    hid_t dataset = create_dataset(file, "matrix", H5T_NATIVE_UINT64, space, H5P_DEFAULT, &measured);
    times[0].value = (shape->pattern == kMorphing ? write_overlapping : write_rows)(dataset, space, transfer, shape,
                                                                                    &measured);
    if (shape->pattern == kStealing) {
        MPI_Barrier(MPI_COMM_WORLD);
        wrong = compare_rows(dataset, space, transfer, shape,
                             shape->neighbour ? verified_rank(shape->ranks) : shape->ranks.mine, &times[1].value);
        measured.calls_s += times[1].value;
    }
    close_dataset(dataset, &measured);
    H5Sclose(space);
    H5Pclose(transfer);
    close_shared(file, &measured);
    print_measured(shape->ranks, &measured, times, 2);
    return wrong ? kExitWrongData : 0;
}

static int verify_file(const char *path, const struct shape *shape) {
    double unused_s = 0;
    hid_t file = open_to_verify(path), dataset = open_dataset(file, "matrix"), space = H5Dget_space(dataset);
    int wrong = compare_rows(dataset, space, H5P_DEFAULT, shape, verified_rank(shape->ranks), &unused_s);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(file);
    return say_verified(shape->ranks, wrong);
}

static enum pattern pattern_argument(int argc, char **argv) {
    const char *name = argument(argc, argv, "--pattern", "collective_buffering");
    if (strcmp(name, "collective_buffering") == 0) return kCollectiveBuffering;
    if (strcmp(name, "morphing") == 0) return kMorphing;
    if (strcmp(name, "stealing") != 0) fail(name, "no such pattern");
    return kStealing;
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL);
    const struct shape shape = {.pattern = pattern_argument(argc, argv),
                                .rows = count_argument(argc, argv, "--rows", "128"),
                                .columns = count_argument(argc, argv, "--columns", "2048"),
                                .piece = count_argument(argc, argv, "--piece", "256"),
                                .rounds = count_argument(argc, argv, "--rounds", "1"),
                                .ranks = ranks,
                                .collective = flag(argc, argv, "--collective"),
                                .neighbour = flag(argc, argv, "--neighbour")};
    if (path == NULL) fail("--file", "is needed");
    if (shape.piece < 2 || shape.columns % shape.piece != 0 || shape.piece % 2 != 0)
        fail("--piece", "must be even and divide --columns");
    if (shape.rows == 0 || shape.rounds == 0) fail("--rows, --rounds", "nothing to write");
    return end_ranks(flag(argc, argv, "--verify") ? verify_file(path, &shape) : write_file(path, &shape));
}
