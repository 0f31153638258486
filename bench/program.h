/* Common parts of the measuring programs: clocks, arguments, test data, checked HDF5 calls.
 *
 * Everything is static so that each program stays one plain C file which knows nothing about forebay. A program prints
 * one JSON object on standard output. A failure prints a message on standard error and exits with 1, wrong data with
 * 3. */
#ifndef FOREBAY_BENCH_PROGRAM_H
#define FOREBAY_BENCH_PROGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNUSED_OK __attribute__((unused))

enum { kExitFailure = 1, kExitWrongData = 3 };

UNUSED_OK static double now_s(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

UNUSED_OK static void fail(const char *what, const char *detail) {
    fprintf(stderr, "%s: %s\n", what, detail);
    exit(kExitFailure);
}

/* Returns the value after `name` in the arguments, or `otherwise`. */
UNUSED_OK static const char *argument(int argc, char **argv, const char *name, const char *otherwise) {
    for (int i = 1; i + 1 < argc; ++i)
        if (strcmp(argv[i], name) == 0) return argv[i + 1];
    return otherwise;
}

UNUSED_OK static int flag(int argc, char **argv, const char *name) {
    for (int i = 1; i < argc; ++i)
        if (strcmp(argv[i], name) == 0) return 1;
    return 0;
}

UNUSED_OK static uint64_t count_argument(int argc, char **argv, const char *name, const char *otherwise) {
    const char *text = argument(argc, argv, name, otherwise);
    char *end = NULL;
    uint64_t value = strtoull(text, &end, 10);
    if (end == text || *end != '\0') fail(name, "not a number");
    return value;
}

UNUSED_OK static double seconds_argument(int argc, char **argv, const char *name, const char *otherwise) {
    const char *text = argument(argc, argv, name, otherwise);
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || value < 0) fail(name, "not a number of seconds");
    return value;
}

/* Returns a 64-bit word from its position and its array (the mixing step of SplitMix64). */
UNUSED_OK static uint64_t word_at(uint64_t array, uint64_t index) {
    uint64_t x = (array << 40) + index + 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Adds up the seconds spent inside HDF5. `call` must yield a value that is negative on failure. */
#define TIMED(total_s, result, call)             \
    do {                                         \
        double begin_s_ = now_s();               \
        (result) = (call);                       \
        (total_s) += now_s() - begin_s_;         \
        if ((result) < 0) fail(#call, "failed"); \
    } while (0)

#endif
