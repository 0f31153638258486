/* Preloaded into one rank: some system calls fail there, as if the device failed for that rank alone.
 *
 *   FAILING_CALLS   pwrite (with pwritev), pread, fallocate (with posix_fallocate), opendir (open with O_DIRECTORY);
 *                   several with '+' between them
 *   FAILING_PATH    a part of the path of the files that they fail on
 *   FAILING_ERRNO   a number
 *   FAILING_FROM    transfers that begin before this offset succeed; 0 if not set
 *   FAILING_AFTER   so many calls succeed first; 0 if not set
 *   FAILING_TOLD    where the number of failed calls is written at the end of the process */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static atomic_long failed, seen;

static long number_of(const char *variable) {
    const char *text = getenv(variable);
    return text != NULL ? atol(text) : 0;
}

static int is_failing(const char *call, int file, off_t offset) {
    const char *calls = getenv("FAILING_CALLS"), *part = getenv("FAILING_PATH");
    if (calls == NULL || part == NULL || strstr(calls, call) == NULL || offset < number_of("FAILING_FROM")) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    if (strstr(path, part) == NULL || atomic_fetch_add(&seen, 1) < number_of("FAILING_AFTER")) return 0;
    atomic_fetch_add(&failed, 1);
    errno = (int)number_of("FAILING_ERRNO");
    return 1;
}

EXPORTED ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) {
    return is_failing("pwrite", file, offset) ? -1 : NEXT(pwrite)(file, bytes, size, offset);
}

EXPORTED ssize_t pwritev(int file, const struct iovec *pieces, int count, off_t offset) {
    return is_failing("pwrite", file, offset) ? -1 : NEXT(pwritev)(file, pieces, count, offset);
}

EXPORTED ssize_t pread(int file, void *bytes, size_t size, off_t offset) {
    return is_failing("pread", file, offset) ? -1 : NEXT(pread)(file, bytes, size, offset);
}

EXPORTED int fallocate(int file, int mode, off_t offset, off_t length) {
    return mode == 0 && is_failing("fallocate", file, offset) ? -1 : NEXT(fallocate)(file, mode, offset, length);
}

EXPORTED int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = va_arg(more, mode_t);
    va_end(more);
    const char *calls = getenv("FAILING_CALLS"), *part = getenv("FAILING_PATH");
    if ((flags & O_DIRECTORY) != 0 && calls != NULL && part != NULL && strstr(calls, "opendir") != NULL &&
        strstr(path, part) != NULL) {
        atomic_fetch_add(&failed, 1);
        errno = (int)number_of("FAILING_ERRNO");
        return -1;
    }
    return NEXT(open)(path, flags, mode);
}

EXPORTED int posix_fallocate(int file, off_t offset, off_t length) {
    return is_failing("fallocate", file, offset) ? (int)number_of("FAILING_ERRNO")
                                                 : NEXT(posix_fallocate)(file, offset, length);
}

static void __attribute__((destructor)) tell(void) {
    const char *path = getenv("FAILING_TOLD");
    FILE *into = path != NULL ? fopen(path, "w") : NULL;
    if (into == NULL) return;
    fprintf(into, "%ld\n", atomic_load(&failed));
    fclose(into);
}
