/* The reference for staging: memcpy into mapped files on the staging device, and writes to new files there.
 *
 *   plain_copy --directory D [--datasets 8] [--mib 64] [--steps 4] [--piece-mib 64] [--processes 1]
 *
 * copy_s: the program allocates, maps, and writes the files once before the clock starts. Every step then copies all
 * buffers over them, as a staging log does that reuses its segments.
 * new_files_s: the time of one step that writes its buffers to new files, as the first step of a log must. The memory
 * for them is freed just before, so a virtual machine need not ask its host for it.
 * No HDF5. Several processes have their own buffers and files, and start together. The seconds are those of the
 * last. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

/* Makes a file and removes its name. */
static int new_file(const char *directory) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/segmentXXXXXX", directory);
    if (length >= (int)sizeof path) fail(directory, "name too long");
    int descriptor = mkstemp(path);
    if (descriptor < 0) fail(path, strerror(errno));
    unlink(path);
    return descriptor;
}

/* Maps an allocated file. */
static char *new_segment(const char *directory, size_t size_bytes) {
    int descriptor = new_file(directory), error = posix_fallocate(descriptor, 0, (off_t)size_bytes);
    if (error != 0) fail(directory, strerror(error));
    char *at = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (at == MAP_FAILED) fail(directory, strerror(errno));
    close(descriptor);
    memset(at, 1, size_bytes);
    return at;
}

enum { kMostProcesses = 64 };

/* The memory that the processes share. */
struct shared {
    pthread_barrier_t start;
    struct seconds {
        double copy_s, new_files_s;
    } of[kMostProcesses];
};

struct amounts {
    uint64_t count, steps;
    size_t size_bytes, piece_bytes;
};

/* Returns the seconds of a step that writes every buffer to a new file. */
static double write_new_files(const char *directory, char *const *from, const struct amounts *amounts) {
    int *descriptors = calloc(amounts->count, sizeof *descriptors);
    if (descriptors == NULL) fail("descriptors", "out of memory");
    double begin_s = now_s();
    for (uint64_t d = 0; d < amounts->count; ++d) {
        descriptors[d] = new_file(directory);
        for (size_t at = 0; at < amounts->size_bytes;) {
            ssize_t written = write(descriptors[d], from[d] + at, amounts->size_bytes - at);
            if (written < 0) fail(directory, strerror(errno));
            at += (size_t)written;
        }
    }
    double taken_s = now_s() - begin_s;
    for (uint64_t d = 0; d < amounts->count; ++d) close(descriptors[d]);
    free(descriptors);
    return taken_s;
}

/* Returns the seconds of all steps, which copy every buffer over the same mapped files. */
static double copy_over(char *const *to, char *const *from, const struct amounts *amounts) {
    double begin_s = now_s();
    for (uint64_t step = 0; step < amounts->steps; ++step)
        for (uint64_t d = 0; d < amounts->count; ++d)
            for (size_t at = 0; at < amounts->size_bytes; at += amounts->piece_bytes) {
                size_t left = amounts->size_bytes - at;
                memcpy(to[d] + at, from[d] + at, left < amounts->piece_bytes ? left : amounts->piece_bytes);
            }
    return now_s() - begin_s;
}

static struct seconds measure(const char *directory, const struct amounts *amounts, pthread_barrier_t *start) {
    struct seconds measured;
    char **from = calloc(amounts->count, sizeof *from), **to = calloc(amounts->count, sizeof *to);
    if (from == NULL || to == NULL) fail("buffers", "out of memory");
    for (uint64_t d = 0; d < amounts->count; ++d) {
        from[d] = malloc(amounts->size_bytes);
        if (from[d] == NULL) fail("buffer", "out of memory");
        memset(from[d], (int)d + 1, amounts->size_bytes);
        to[d] = new_segment(directory, amounts->size_bytes);
    }
    pthread_barrier_wait(start);
    measured.copy_s = copy_over(to, from, amounts);
    pthread_barrier_wait(start);
    for (uint64_t d = 0; d < amounts->count; ++d) munmap(to[d], amounts->size_bytes);
    pthread_barrier_wait(start);
    measured.new_files_s = write_new_files(directory, from, amounts);
    return measured;
}

static struct shared *new_shared(uint64_t processes) {
    pthread_barrierattr_t across;
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || pthread_barrierattr_init(&across) != 0 ||
        pthread_barrierattr_setpshared(&across, PTHREAD_PROCESS_SHARED) != 0 ||
        pthread_barrier_init(&shared->start, &across, (unsigned)processes) != 0)
        fail("barrier", "cannot be made");
    return shared;
}

int main(int argc, char **argv) {
    const char *directory = argument(argc, argv, "--directory", ".");
    const struct amounts amounts = {.count = count_argument(argc, argv, "--datasets", "8"),
                                    .steps = count_argument(argc, argv, "--steps", "4"),
                                    .size_bytes = count_argument(argc, argv, "--mib", "64") << 20,
                                    .piece_bytes = count_argument(argc, argv, "--piece-mib", "64") << 20};
    const uint64_t processes = count_argument(argc, argv, "--processes", "1");
    if (amounts.piece_bytes == 0 || amounts.count == 0) fail("plain_copy", "nothing to copy");
    if (processes == 0 || processes > kMostProcesses) fail("--processes", "are too few or too many");
    struct shared *shared = new_shared(processes);
    uint64_t mine = 0;
    for (uint64_t other = 1; other < processes && mine == 0; ++other) {
        pid_t child = fork();
        if (child < 0) fail("fork", strerror(errno));
        if (child == 0) mine = other;
    }
    shared->of[mine] = measure(directory, &amounts, &shared->start);
    if (mine != 0) return 0;
    struct seconds longest = shared->of[0];
    for (uint64_t other = 1; other < processes; ++other) {
        int status = 0;
        if (wait(&status) < 0 || status != 0) fail("plain_copy", "a process failed");
    }
    for (uint64_t other = 1; other < processes; ++other) {
        if (shared->of[other].copy_s > longest.copy_s) longest.copy_s = shared->of[other].copy_s;
        if (shared->of[other].new_files_s > longest.new_files_s) longest.new_files_s = shared->of[other].new_files_s;
    }
    printf("{\"bytes\": %llu, \"copy_s\": %.6f, \"new_files_s\": %.6f}\n",
           (unsigned long long)(processes * amounts.count * amounts.steps * amounts.size_bytes), longest.copy_s,
           longest.new_files_s);
    return 0;
}
