/* Buffers with known bytes, and computing, for programs that write checkpoints. Everything is static, as in program.h.
 * An array is identified by a number, a word by its index in the array. */
#ifndef FOREBAY_BENCH_CHECKPOINT_DATA_H
#define FOREBAY_BENCH_CHECKPOINT_DATA_H

#include "program.h"

enum { kPageWords = 512, kGrid = 256, kMostSteps = 64 };

static double grid[2][kGrid][kGrid];

/* Computes for `seconds` (a five-point stencil on one core) and returns the number of sweeps done. */
UNUSED_OK static uint64_t compute(double seconds) {
    uint64_t sweeps = 0;
    double end_s = now_s() + seconds;
    while (now_s() < end_s) {
        double(*from)[kGrid] = grid[sweeps % 2], (*to)[kGrid] = grid[(sweeps + 1) % 2];
        from[0][kGrid / 2] = 1.0;
        for (int i = 1; i < kGrid - 1; ++i)
            for (int j = 1; j < kGrid - 1; ++j)
                to[i][j] = 0.25 * (from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1]);
        ++sweeps;
    }
    return sweeps;
}

/* Returns the word of a checkpoint of `step`. */
UNUSED_OK static uint64_t checkpoint_word(uint64_t array, uint64_t index, uint64_t step) {
    return word_at(array, index) + (index % kPageWords == 0 ? step : 0);
}

/* Changes the first word of every 4 KiB, as a step does. This is cheap, so a run without computing is all I/O. */
UNUSED_OK static void stamp(uint64_t *words, uint64_t count, uint64_t array, uint64_t step) {
    for (uint64_t i = 0; i < count; i += kPageWords) words[i] = checkpoint_word(array, i, step);
}

/* Makes `count` arrays of `words` words each, numbered from `first`. */
UNUSED_OK static uint64_t **new_buffers(uint64_t first, uint64_t count, uint64_t words) {
    uint64_t **buffers = calloc(count, sizeof *buffers);
    if (buffers == NULL) fail("buffers", "out of memory");
    for (uint64_t d = 0; d < count; ++d) {
        buffers[d] = malloc(words * sizeof **buffers);
        if (buffers[d] == NULL) fail("buffer", "out of memory");
        for (uint64_t i = 0; i < words; ++i) buffers[d][i] = word_at(first + d, i);
    }
    return buffers;
}

UNUSED_OK static void delete_buffers(uint64_t **buffers, uint64_t count) {
    for (uint64_t d = 0; d < count; ++d) free(buffers[d]);
    free(buffers);
}

#endif
