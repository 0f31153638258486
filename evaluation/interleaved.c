/* Interleaved cells: rank r of n writes the cells r, r + n, r + 2n, ... of 4 KiB of one contiguous dataset. This is the
 * worst pattern of independent writes for a file system with stripes. Collective buffering was made for it.
 *
 *   interleaved --file F [--cells 1024] [--cells-per-write 1] [--collective]
 *   interleaved --file F --verify [--cells 1024]
 *
 * `cells` is the number of cells of one rank. */
#include "parallel.h"

enum { kCellWords = 512 };

static uint64_t *new_cells(int rank, uint64_t cells) {
    uint64_t *words = new_array(cells * kCellWords * sizeof *words);
    for (uint64_t i = 0; i < cells * kCellWords; ++i) words[i] = word_at((uint64_t)rank, i);
    return words;
}

/* Selects `count` cells of a rank, from its `first` on. The dataset has the shape rounds x ranks x words of a cell. */
static void select_cells(hid_t space, int rank, uint64_t first, uint64_t count) {
    const hsize_t at[] = {first, (hsize_t)rank, 0}, size[] = {count, 1, kCellWords};
    select_block(space, at, size);
}

static int write_file(const char *path, struct ranks ranks, uint64_t cells, uint64_t per_write, int collective) {
    const hsize_t extent[] = {cells, (hsize_t)ranks.count, kCellWords}, piece = per_write * kCellWords;
    uint64_t *words = new_cells(ranks.mine, cells);
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured);
    hid_t space = new_space(3, extent), memory = new_space(1, &piece), transfer = new_transfer(collective);
    hid_t dataset = create_dataset(file, "cells", H5T_NATIVE_UINT64, space, H5P_DEFAULT, &measured);
    for (uint64_t first = 0; first < cells; first += per_write) {
        select_cells(space, ranks.mine, first, per_write);
        write_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, words + first * kCellWords, &measured);
    }
    close_dataset(dataset, &measured);
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(transfer);
    close_shared(file, &measured);
    print_measured(ranks, &measured, NULL, 0);
    free(words);
    return 0;
}

static int verify_file(const char *path, struct ranks ranks, uint64_t cells) {
    const hsize_t words = cells * kCellWords;
    uint64_t *expected = new_cells(verified_rank(ranks), cells), *found = new_array(words * sizeof *found);
    hid_t file = open_to_verify(path), dataset = open_dataset(file, "cells"), space = H5Dget_space(dataset);
    hid_t memory = new_space(1, &words);
    select_cells(space, verified_rank(ranks), 0, cells);
    read_selected(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, found);
    int wrong = differs("cells", found, expected, words * sizeof *found);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Fclose(file);
    free(found);
    free(expected);
    return say_verified(ranks, wrong);
}

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL);
    uint64_t cells = count_argument(argc, argv, "--cells", "1024");
    uint64_t per_write = count_argument(argc, argv, "--cells-per-write", "1");
    if (path == NULL) fail("--file", "is needed");
    if (cells == 0 || per_write == 0 || cells % per_write != 0) fail("--cells-per-write", "must divide --cells");
    return end_ranks(flag(argc, argv, "--verify")
                         ? verify_file(path, ranks, cells)
                         : write_file(path, ranks, cells, per_write, flag(argc, argv, "--collective")));
}
