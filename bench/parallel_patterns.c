/* Patterns of programs that write collectively, one at a time.
 *
 *   parallel_patterns --file F --pattern contiguous|chunked|datasets|pieces [--fill] [--independent]
 *                     [--rows 64] [--columns 8192] [--writes 8] [--chunk-rows 48] [--count 256] [--piece-words 2]
 *                     [--points]
 *   parallel_patterns --file F --verify [the same]
 *
 * contiguous: each rank writes a band of `rows` rows of one matrix, in `writes` calls
 * chunked:    the same with chunks of `chunk-rows` rows, so that bands share chunks
 * datasets:   `count` datasets of 4 KiB per rank, each created, written and closed
 * pieces:     one call writes `count` scattered pieces of `piece-words` 64-bit words per rank; the ranks' pieces lie
 *             side by side. With --points the pieces are single words, and which rank has which is irregular.
 *
 * With --fill the matrix gets a fill value when its space is allocated, and the last quarter of each band is left
 * unwritten; without, none is ever written. Counts are those of one rank.
 */
#include "parallel.h"

enum pattern { kContiguous, kChunked, kDatasets, kPieces };
enum { kDatasetWords = 512 };

static const uint64_t kFillValue = 0xF0F1F2F3F4F5F6F7u;

struct shape {
    struct ranks ranks;
    enum pattern pattern;
    uint64_t rows, columns, writes, chunk_rows, count, piece_words;
    int fill, points, independent;
};

static hid_t matrix_properties(const struct shape *shape) {
    const hsize_t chunk[] = {shape->chunk_rows, shape->columns};
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    if (shape->pattern == kChunked && H5Pset_chunk(creation, 2, chunk) < 0) fail("H5Pset_chunk", "failed");
    if (H5Pset_fill_time(creation, shape->fill ? H5D_FILL_TIME_ALLOC : H5D_FILL_TIME_NEVER) < 0 ||
        H5Pset_fill_value(creation, H5T_NATIVE_UINT64, &kFillValue) < 0)
        fail("fill value", "failed");
    return creation;
}

/* Returns the number of rows that a rank writes of its band. */
static uint64_t written_rows(const struct shape *shape) {
    return shape->fill ? shape->rows - shape->rows / 4 : shape->rows;
}

static uint64_t *new_words(const struct shape *shape, int rank, uint64_t words) {
    uint64_t *data = new_array(words * sizeof *data);
    for (uint64_t i = 0; i < words; ++i) data[i] = word_at((uint64_t)rank + (uint64_t)shape->pattern * 1000, i);
    return data;
}

static void select_rows(hid_t space, const struct shape *shape, int rank, uint64_t first, uint64_t rows) {
    const hsize_t at[] = {(hsize_t)rank * shape->rows + first, 0}, size[] = {rows, shape->columns};
    select_block(space, at, size);
}

static void write_matrix(hid_t file, hid_t transfer, const struct shape *shape, struct measured *measured) {
    const hsize_t extent[] = {shape->rows * (hsize_t)shape->ranks.count, shape->columns};
    const uint64_t rows = written_rows(shape);
    uint64_t *words = new_words(shape, shape->ranks.mine, rows * shape->columns);
    hid_t creation = matrix_properties(shape), space = new_space(2, extent);
    MPI_Barrier(MPI_COMM_WORLD);
    hid_t dataset = create_dataset(file, "matrix", H5T_NATIVE_UINT64, space, creation, measured);
    for (uint64_t w = 0; w < shape->writes; ++w) {
        const uint64_t first = rows * w / shape->writes, end = rows * (w + 1) / shape->writes;
        const hsize_t size = (end - first) * shape->columns;
        hid_t memory = new_space(1, &size);
        select_rows(space, shape, shape->ranks.mine, first, end - first);
        write_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, words + first * shape->columns, measured);
        H5Sclose(memory);
    }
    close_dataset(dataset, measured);
    H5Sclose(space);
    H5Pclose(creation);
    free(words);
}

static int verify_matrix(hid_t file, const struct shape *shape, int rank) {
    const uint64_t rows = written_rows(shape);
    const hsize_t size = shape->rows * shape->columns;
    uint64_t *expected = new_array(size * sizeof *expected), *found = new_array(size * sizeof *found);
    uint64_t *words = new_words(shape, rank, rows * shape->columns);
    memcpy(expected, words, rows * shape->columns * sizeof *words);
    for (uint64_t i = rows * shape->columns; i < size; ++i) expected[i] = kFillValue;
    hid_t dataset = open_dataset(file, "matrix"), space = H5Dget_space(dataset), memory = new_space(1, &size);
    select_rows(space, shape, rank, 0, shape->rows);
    read_selected(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, found);
    int wrong = differs("matrix", found, expected, size * sizeof *found);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(dataset);
    free(words);
    free(found);
    free(expected);
    return wrong;
}

/* A rank's part of a small dataset. */
static void select_part(hid_t space, int rank) {
    const hsize_t at = (hsize_t)rank * kDatasetWords, size = kDatasetWords;
    select_block(space, &at, &size);
}

static void dataset_name(char *name, size_t size_bytes, uint64_t i) {
    snprintf(name, size_bytes, "dataset%06u", (unsigned)i);
}

static void write_datasets(hid_t file, hid_t transfer, const struct shape *shape, struct measured *measured) {
    const hsize_t mine = kDatasetWords, all = mine * (hsize_t)shape->ranks.count;
    uint64_t *words = new_words(shape, shape->ranks.mine, shape->count * kDatasetWords);
    hid_t space = new_space(1, &all), memory = new_space(1, &mine);
    select_part(space, shape->ranks.mine);
    for (uint64_t i = 0; i < shape->count; ++i) {
        char name[32];
        dataset_name(name, sizeof name, i);
        hid_t dataset = create_dataset(file, name, H5T_NATIVE_UINT64, space, H5P_DEFAULT, measured);
        write_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, words + i * kDatasetWords, measured);
        close_dataset(dataset, measured);
    }
    H5Sclose(memory);
    H5Sclose(space);
    free(words);
}

static int verify_datasets(hid_t file, const struct shape *shape, int rank) {
    const hsize_t size = kDatasetWords;
    uint64_t *expected = new_words(shape, rank, shape->count * kDatasetWords), found[kDatasetWords];
    hid_t memory = new_space(1, &size);
    int wrong = 0;
    for (uint64_t i = 0; i < shape->count; ++i) {
        char name[32];
        dataset_name(name, sizeof name, i);
        hid_t dataset = open_dataset(file, name), space = H5Dget_space(dataset);
        select_part(space, rank);
        read_selected(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, found);
        wrong |= differs(name, found, expected + i * kDatasetWords, sizeof found);
        H5Sclose(space);
        H5Dclose(dataset);
    }
    H5Sclose(memory);
    free(expected);
    return wrong;
}

/* Selects the pieces of a rank: strided blocks, or points. The pieces of one round adjoin, one of each rank. */
static void select_pieces(hid_t space, const struct shape *shape, int rank) {
    const hsize_t ranks = (hsize_t)shape->ranks.count, block = shape->piece_words, stride = block * ranks;
    if (!shape->points) {
        const hsize_t at = (hsize_t)rank * block;
        if (H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, &stride, &shape->count, &block) < 0)
            fail("hyperslab", "failed");
        return;
    }
    hsize_t *points = new_array(shape->count * sizeof *points);
    for (uint64_t i = 0; i < shape->count; ++i) points[i] = i * ranks + (word_at(9, i) + (uint64_t)rank) % ranks;
    if (H5Sselect_elements(space, H5S_SELECT_SET, shape->count, points) < 0) fail("points", "failed");
    free(points);
}

static void write_pieces(hid_t file, hid_t transfer, const struct shape *shape, struct measured *measured) {
    const hsize_t mine = shape->count * shape->piece_words, all = mine * (hsize_t)shape->ranks.count;
    uint64_t *words = new_words(shape, shape->ranks.mine, mine);
    hid_t space = new_space(1, &all), memory = new_space(1, &mine);
    select_pieces(space, shape, shape->ranks.mine);
    MPI_Barrier(MPI_COMM_WORLD);
    hid_t dataset = create_dataset(file, "pieces", H5T_NATIVE_UINT64, space, H5P_DEFAULT, measured);
    write_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, words, measured);
    close_dataset(dataset, measured);
    H5Sclose(memory);
    H5Sclose(space);
    free(words);
}

static int verify_pieces(hid_t file, const struct shape *shape, int rank) {
    const hsize_t size = shape->count * shape->piece_words, all = size * (hsize_t)shape->ranks.count;
    uint64_t *expected = new_words(shape, rank, size), *found = new_array(all * sizeof *found);
    uint64_t *picked = new_array(size * sizeof *picked);
    hid_t dataset = open_dataset(file, "pieces");
    read_selected(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, found);
    for (uint64_t i = 0; i < shape->count; ++i) {
        const uint64_t ranks = (uint64_t)shape->ranks.count;
        const uint64_t owner = shape->points ? (word_at(9, i) + (uint64_t)rank) % ranks : (uint64_t)rank;
        memcpy(picked + i * shape->piece_words, found + (i * ranks + owner) * shape->piece_words,
               shape->piece_words * sizeof *picked);
    }
    int wrong = differs("pieces", picked, expected, size * sizeof *picked);
    H5Dclose(dataset);
    free(picked);
    free(found);
    free(expected);
    return wrong;
}

static int write_file(const char *path, const struct shape *shape) {
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured), transfer = new_transfer(!shape->independent);
    if (shape->pattern == kDatasets) write_datasets(file, transfer, shape, &measured);
    else if (shape->pattern == kPieces) write_pieces(file, transfer, shape, &measured);
    else write_matrix(file, transfer, shape, &measured);
    H5Pclose(transfer);
    close_shared(file, &measured);
    print_measured(shape->ranks, &measured, NULL, 0);
    return 0;
}

static int verify_file(const char *path, const struct shape *shape) {
    const int rank = verified_rank(shape->ranks);
    hid_t file = open_to_verify(path);
    int wrong = shape->pattern == kDatasets ? verify_datasets(file, shape, rank)
                : shape->pattern == kPieces ? verify_pieces(file, shape, rank)
                                            : verify_matrix(file, shape, rank);
    H5Fclose(file);
    return say_verified(shape->ranks, wrong);
}

static enum pattern pattern_argument(int argc, char **argv) {
    static const char *const names[] = {"contiguous", "chunked", "datasets", "pieces"};
    const char *name = argument(argc, argv, "--pattern", "contiguous");
    for (int i = kContiguous; i <= kPieces; ++i)
        if (strcmp(name, names[i]) == 0) return (enum pattern)i;
    fail(name, "no such pattern");
    return kContiguous;
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL);
    const int points = flag(argc, argv, "--points");
    const struct shape shape = {.ranks = ranks,
                                .pattern = pattern_argument(argc, argv),
                                .rows = count_argument(argc, argv, "--rows", "64"),
                                .columns = count_argument(argc, argv, "--columns", "8192"),
                                .writes = count_argument(argc, argv, "--writes", "8"),
                                .chunk_rows = count_argument(argc, argv, "--chunk-rows", "48"),
                                .count = count_argument(argc, argv, "--count", "256"),
                                .piece_words = points ? 1 : count_argument(argc, argv, "--piece-words", "2"),
                                .fill = flag(argc, argv, "--fill"),
                                .points = points,
                                .independent = flag(argc, argv, "--independent")};
    if (path == NULL) fail("--file", "is needed");
    if (shape.rows == 0 || shape.columns == 0 || shape.writes == 0 || shape.chunk_rows == 0 || shape.count == 0 ||
        shape.piece_words == 0)
        fail("sizes", "nothing to write");
    return end_ranks(flag(argc, argv, "--verify") ? verify_file(path, &shape) : write_file(path, &shape));
}
