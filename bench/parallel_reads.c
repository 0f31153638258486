/* Writes matrices, flushes, and reads them back while the file is open for writing. Each rank reads a band of columns,
 * so the ranks' parts of a row alternate in the file. Prints the seconds of the reads of the slowest rank.
 *
 *   parallel_reads --file F [--collective] [--rows 512] [--columns 512] [--matrices 4] */
#include "parallel.h"

int main(int argc, char **argv) {
    const struct ranks ranks = begin_ranks(&argc, &argv);
    const char *path = argument(argc, argv, "--file", NULL);
    const uint64_t rows = count_argument(argc, argv, "--rows", "512"),
                   columns = count_argument(argc, argv, "--columns", "512");
    const uint64_t matrices = count_argument(argc, argv, "--matrices", "4"), words = rows * columns;
    if (path == NULL) fail("--file", "is needed");
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured), transfer = new_transfer(flag(argc, argv, "--collective"));
    const hsize_t extent[] = {rows, columns * (hsize_t)ranks.count}, at[] = {0, columns * (hsize_t)ranks.mine},
                  size[] = {rows, columns};
    hid_t space = new_space(2, extent), memory = new_space(2, size);
    select_block(space, at, size);
    uint64_t *written = new_array(words * sizeof *written), *found = new_array(words * sizeof *found);
    char name[32];
    for (uint64_t m = 0; m < matrices; ++m) {
        snprintf(name, sizeof name, "matrix%u", (unsigned)m);
        hid_t dataset = create_dataset(file, name, H5T_NATIVE_UINT64, space, H5P_DEFAULT, &measured);
        for (uint64_t i = 0; i < words; ++i) written[i] = word_at((uint64_t)ranks.mine + m * 1000, i);
        write_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, written, &measured);
        close_dataset(dataset, &measured);
    }
    if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) fail("H5Fflush", "failed");
    MPI_Barrier(MPI_COMM_WORLD);
    double begin_s = now_s(), mine_s, all_s;
    int wrong = 0;
    for (uint64_t m = 0; m < matrices; ++m) {
        snprintf(name, sizeof name, "matrix%u", (unsigned)m);
        hid_t dataset = open_dataset(file, name);
        read_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, found);
        for (uint64_t i = 0; i < words; ++i) wrong |= found[i] != word_at((uint64_t)ranks.mine + m * 1000, i);
        H5Dclose(dataset);
    }
    mine_s = now_s() - begin_s;
    MPI_Reduce(&mine_s, &all_s, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(transfer);
    close_shared(file, &measured);
    free(written);
    free(found);
    if (ranks.mine == 0) printf("reading took %.6f\n", all_s);
    return end_ranks(wrong ? kExitWrongData : 0);
}
