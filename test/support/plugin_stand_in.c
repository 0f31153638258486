// A replacement of the plugin for tests of the Python package. It has the same C functions, and records each call. It
// refuses files named *refused*, *uncached* or *busy* with ENODEV, ENOTSUP or EAGAIN. Every second call of
// forebay_path_prefetch_left delivers 4096 bytes. Records go to the file STAND_IN_RECORDS, one line each.
// test/integration/test_python_api.py compiles and loads this file.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Marks an HDF5 plugin. No test calls it.
const void *H5PLget_plugin_info(void) { return NULL; }

static int64_t left_bytes = 0;
static int polls = 0;

static int fails(int number) {
    errno = number;
    return -1;
}

int forebay_path_prefetch(const char *path, uint64_t count, const uint64_t *offsets, const uint64_t *lengths) {
    if (strstr(path, "refused") != NULL) return fails(ENODEV);
    if (strstr(path, "uncached") != NULL) return fails(ENOTSUP);
    if (strstr(path, "busy") != NULL) return fails(EAGAIN);
    FILE *records = fopen(getenv("STAND_IN_RECORDS"), "a");
    if (records == NULL) return -1;
    fprintf(records, "%s %llu", path, (unsigned long long)count);
    for (uint64_t i = 0; i < count; ++i) {
        left_bytes += (int64_t)lengths[i];
        fprintf(records, " %llu+%llu", (unsigned long long)offsets[i], (unsigned long long)lengths[i]);
    }
    fputc('\n', records);
    fclose(records);
    return 0;
}

int forebay_path_prefetch_left(const char *path, uint64_t *bytes) {
    if (strstr(path, "uncached") != NULL) return fails(ENOTSUP);
    if (left_bytes > 0 && ++polls % 2 == 0) left_bytes = left_bytes > 4096 ? left_bytes - 4096 : 0;
    *bytes = (uint64_t)left_bytes;
    return 0;
}

int forebay_path_prefetch_cancel(const char *path) {
    (void)path;
    left_bytes = 0;
    return 0;
}

int forebay_statistics(char *into, uint64_t size, uint64_t *length) {
    // Longer than the first buffer of any caller.
    *length = (uint64_t)snprintf(into, size, "{\"process\":{\"pid\":1,\"files_opened\":3,\"padding\":\"%20000d\"}}", 7);
    return 0;
}
