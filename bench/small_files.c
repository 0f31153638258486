/* Makes small files, one after the other, and opens them again. Prints one JSON object: the seconds of each half.
 *
 *   small_files --folder F [--files 1000] [--together]
 *
 * Each file gets one dataset of 4 KiB. The program then opens it for writing again, reads and compares it. One file
 * before the clock starts loads the libraries. With `--together` no file is closed before all are made and flushed;
 * the seconds of the flushes and of the closes are printed too. cpu_s are the processor seconds of the process, all
 * threads, without those of that first file. */
#include <hdf5.h>

#include "program.h"

enum { kWords = 512 };

static void name_of(char *path, size_t size, const char *folder, uint64_t number) {
    const int length = snprintf(path, size, "%s/%llu.h5", folder, (unsigned long long)number);
    if (length < 0 || (size_t)length >= size) fail(folder, "too long");
}

/* Returns the file, still open. */
static hid_t begin_one(const char *folder, uint64_t number) {
    char path[4096];
    uint64_t words[kWords];
    const hsize_t extent[] = {kWords};
    name_of(path, sizeof path, folder, number);
    for (uint64_t i = 0; i < kWords; ++i) words[i] = word_at(number, i);
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                space = H5Screate_simple(1, extent, NULL);
    const hid_t dataset = H5Dcreate2(file, "x", H5T_NATIVE_UINT64, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (H5Dwrite(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, words) < 0) fail(path, "cannot be written");
    if (H5Sclose(space) < 0 || H5Dclose(dataset) < 0) fail(path, "cannot be closed");
    return file;
}

static void make_one(const char *folder, uint64_t number) {
    if (H5Fclose(begin_one(folder, number)) < 0) fail(folder, "a file cannot be closed");
}

static void make_together(const char *folder, uint64_t files) {
    hid_t *const open = malloc((files + 1) * sizeof *open);
    if (open == NULL) fail("files", "out of memory");
    const double begin_s = now_s();
    for (uint64_t i = 0; i < files; ++i) open[i] = begin_one(folder, i);
    const double made_s = now_s();
    for (uint64_t i = 0; i < files; ++i)
        if (H5Fflush(open[i], H5F_SCOPE_GLOBAL) < 0) fail(folder, "a file cannot be flushed");
    const double flushed_s = now_s();
    for (uint64_t i = 0; i < files; ++i)
        if (H5Fclose(open[i]) < 0) fail(folder, "a file cannot be closed");
    printf("{\"make_s\": %.6f, \"flush_s\": %.6f, \"close_s\": %.6f, ", made_s - begin_s, flushed_s - made_s,
           now_s() - flushed_s);
    free(open);
}

static void open_one(const char *folder, uint64_t number) {
    char path[4096];
    uint64_t words[kWords];
    name_of(path, sizeof path, folder, number);
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), dataset = H5Dopen2(file, "x", H5P_DEFAULT);
    if (H5Dread(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, words) < 0) fail(path, "cannot be read");
    if (H5Dclose(dataset) < 0 || H5Fclose(file) < 0) fail(path, "cannot be closed");
    for (uint64_t i = 0; i < kWords; ++i)
        if (words[i] != word_at(number, i)) {
            fprintf(stderr, "%s: wrong data\n", path);
            exit(kExitWrongData);
        }
}

int main(int argc, char **argv) {
    const char *folder = argument(argc, argv, "--folder", NULL);
    const uint64_t files = count_argument(argc, argv, "--files", "1000");
    if (folder == NULL) fail("--folder", "missing");
    make_one(folder, files);
    open_one(folder, files);
    const clock_t used = clock();
    double made_s = now_s();
    if (flag(argc, argv, "--together")) {
        make_together(folder, files);
    } else {
        for (uint64_t i = 0; i < files; ++i) make_one(folder, i);
        printf("{\"make_s\": %.6f, ", now_s() - made_s);
    }
    made_s = now_s();
    for (uint64_t i = 0; i < files; ++i) open_one(folder, i);
    printf("\"open_s\": %.6f, \"cpu_s\": %.6f, \"compared\": %llu}\n", now_s() - made_s,
           (double)(clock() - used) / CLOCKS_PER_SEC, (unsigned long long)(files * kWords * sizeof(uint64_t)));
    return 0;
}
