/* The yardstick of staging: memcpy into mapped files on the staging device, and nothing else.
 *
 *   plain_copy --directory D [--datasets 8] [--mib 64] [--steps 4] [--piece-mib 64]
 *
 * The files are allocated, mapped, and written once before the clock starts; every step then copies all buffers
 * over them, as a staging log does which recycles its segments. No HDF5.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

/* A mapping of an allocated file that has no name any more. */
static char *new_segment(const char *directory, size_t size_bytes) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/segmentXXXXXX", directory);
    if (length >= (int)sizeof path) fail(directory, "name too long");
    int descriptor = mkstemp(path);
    if (descriptor < 0) fail(path, strerror(errno));
    unlink(path);
    int error = posix_fallocate(descriptor, 0, (off_t)size_bytes);
    if (error != 0) fail(path, strerror(error));
    char *at = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (at == MAP_FAILED) fail(path, strerror(errno));
    close(descriptor);
    memset(at, 1, size_bytes);
    return at;
}

int main(int argc, char **argv) {
    const char *directory = argument(argc, argv, "--directory", ".");
    uint64_t count = count_argument(argc, argv, "--datasets", "8");
    uint64_t steps = count_argument(argc, argv, "--steps", "4");
    size_t size_bytes = count_argument(argc, argv, "--mib", "64") << 20;
    size_t piece_bytes = count_argument(argc, argv, "--piece-mib", "64") << 20;
    if (piece_bytes == 0 || count == 0) fail("plain_copy", "nothing to copy");
    char **from = calloc(count, sizeof *from), **to = calloc(count, sizeof *to);
    if (from == NULL || to == NULL) fail("buffers", "out of memory");
    for (uint64_t d = 0; d < count; ++d) {
        from[d] = malloc(size_bytes);
        if (from[d] == NULL) fail("buffer", "out of memory");
        memset(from[d], (int)d + 1, size_bytes);
        to[d] = new_segment(directory, size_bytes);
    }
    double copy_s = 0;
    for (uint64_t step = 0; step < steps; ++step) {
        for (uint64_t d = 0; d < count; ++d) {
            double begin_s = now_s();
            for (size_t at = 0; at < size_bytes; at += piece_bytes) {
                size_t piece = size_bytes - at < piece_bytes ? size_bytes - at : piece_bytes;
                memcpy(to[d] + at, from[d] + at, piece);
            }
            copy_s += now_s() - begin_s;
        }
    }
    printf("{\"bytes\": %llu, \"copy_s\": %.6f}\n", (unsigned long long)(count * steps * size_bytes), copy_s);
    return 0;
}
