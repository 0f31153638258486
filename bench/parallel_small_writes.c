/* small_writes.c with several ranks: one contiguous dataset, in which each rank writes its own region in 4 KiB pieces,
 * in order and independently. (With the MPI driver HDF5 has no sieve buffer: every H5Dwrite reaches the driver.)
 *
 *   parallel_small_writes --file F [--count 10000]
 *   parallel_small_writes --file F --verify [--count 10000]
 *
 * `count` is the number of writes of one rank. Prints, in addition to the common figures, the seconds of the writes in
 * writes_s, and the processor seconds of the rank's own thread among them in writes_cpu_s. The latter exclude the time
 * of other ranks and threads. open_s are the seconds of H5Fcreate, and waiting_cpu_s the processor seconds of all ranks
 * but the first in H5Fclose, summed. */
#include "parallel.h"

enum { kPieceWords = 512 };

static double thread_cpu_s(void) {
    struct timespec time;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) fail("clock_gettime", "failed");
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint64_t *new_words(int rank, uint64_t words) {
    uint64_t *data = new_array(words * sizeof *data);
    for (uint64_t i = 0; i < words; ++i) data[i] = word_at((uint64_t)rank, i);
    return data;
}

/* Returns the sum over all ranks but the first. Collective. */
static double sum_of_others(struct ranks ranks, double mine) {
    double sum = 0;
    if (ranks.mine == 0) mine = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static int write_file(const char *path, struct ranks ranks, uint64_t count) {
    const hsize_t mine = count * kPieceWords, all = mine * (hsize_t)ranks.count, piece = kPieceWords;
    uint64_t *words = new_words(ranks.mine, mine);
    struct measured measured = start_clocks();
    hid_t file = create_shared(path, &measured);
    const double open_s = measured.calls_s;
    hid_t space = new_space(1, &all), memory = new_space(1, &piece), transfer = new_transfer(0);
    hid_t dataset = create_dataset(file, "data", H5T_NATIVE_UINT64, space, H5P_DEFAULT, &measured);
    const double begin_s = now_s(), begin_cpu_s = thread_cpu_s();
    for (uint64_t i = 0; i < count; ++i) {
        const hsize_t at = (hsize_t)ranks.mine * mine + i * kPieceWords;
        select_block(space, &at, &piece);
        write_selected(dataset, H5T_NATIVE_UINT64, memory, space, transfer, words + i * kPieceWords, &measured);
    }
    const double writes_s = now_s() - begin_s, writes_cpu_s = thread_cpu_s() - begin_cpu_s;
    close_dataset(dataset, &measured);
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(transfer);
    const double before_close_s = cpu_now_s();
    close_shared(file, &measured);
    const struct figure more[] = {{"writes_s", writes_s},
                                  {"writes_cpu_s", writes_cpu_s},
                                  {"open_s", open_s},
                                  {"waiting_cpu_s", sum_of_others(ranks, cpu_now_s() - before_close_s)}};
    print_measured(ranks, &measured, more, 4);
    free(words);
    return 0;
}

static int verify_file(const char *path, struct ranks ranks, uint64_t count) {
    const hsize_t size = count * kPieceWords, at = (hsize_t)verified_rank(ranks) * size;
    uint64_t *expected = new_words(verified_rank(ranks), size), *found = new_array(size * sizeof *found);
    hid_t file = open_to_verify(path), dataset = open_dataset(file, "data"), space = H5Dget_space(dataset);
    hid_t memory = new_space(1, &size);
    select_block(space, &at, &size);
    read_selected(dataset, H5T_NATIVE_UINT64, memory, space, H5P_DEFAULT, found);
    int wrong = differs("data", found, expected, size * sizeof *found);
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
    uint64_t count = count_argument(argc, argv, "--count", "10000");
    if (path == NULL) fail("--file", "is needed");
    if (count == 0) fail("--count", "nothing to write");
    return end_ranks(flag(argc, argv, "--verify") ? verify_file(path, ranks, count) : write_file(path, ranks, count));
}
