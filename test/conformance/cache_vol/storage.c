/* A program with a storage of its own: `cache_vol_storage WHAT`, which says what it sets in the storage. It writes
 * data.h5 with the storage in its access list. A call of the program's that fails has told why on standard error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cache_new_h5api.h>

static int write_file(hid_t list) {
    static double values[200000];
    const hsize_t extent[] = {200000};
    for (int i = 0; i < 200000; ++i) values[i] = i * 0.5;
    const hid_t file = H5Fcreate("data.h5", H5F_ACC_TRUNC, H5P_DEFAULT, list);
    if (file < 0) return 1;
    const hid_t space = H5Screate_simple(1, extent, NULL);
    const hid_t timeless = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(timeless, false);
    const hid_t dataset = H5Dcreate2(file, "x", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, timeless, H5P_DEFAULT);
    const herr_t written = H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    return written < 0 || H5Pclose(timeless) < 0 || H5Dclose(dataset) < 0 || H5Sclose(space) < 0 || H5Fclose(file) < 0;
}

/* A storage that the program keeps itself, with a path that nothing may free. */
static int read_into_own(const char *config) {
    char path[] = "/own";
    cache_storage_t own;
    memset(&own, 0, sizeof own);
    own.path = path;
    const herr_t first = readLSConf(config, &own);
    H5Eprint2(H5E_DEFAULT, stderr);
    char *const given = own.path;
    const herr_t second = readLSConf(config, &own);
    printf("%d %d %s %s\n", first < 0, second < 0, given, path);
    free(given); /* as with every path that a function has made for a program's own storage */
    free(own.path);
    return H5LSclose(&own) >= 0; /* it is not the library's */
}

int main(int argc, char **argv) {
    const char *const what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "own") == 0) return read_into_own(argv[2]);
    bool on = true;
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (strcmp(what, "native") == 0) return write_file(list);
    cache_storage_t *const storage = H5LScreate(H5P_DEFAULT);
    if (storage == NULL) return 1;
    if (strcmp(what, "set") == 0 && H5LSset(storage, argv[2], argv[3], (hsize_t)atoll(argv[4]), LRU) < 0)
        puts("refused");
    if (strcmp(what, "type") == 0) strcpy(storage->type, "TAPE");
    if (strcmp(what, "size") == 0) storage->mspace_total = (hsize_t)-1;
    if (strcmp(what, "policy") == 0) storage->replacement_policy = (cache_replacement_policy_t)17;
    if (strcmp(what, "buffer") == 0) storage->write_buffer_size = (double)storage->mspace_total * 2;
    if (H5Pset_fapl_cache(list, "LOCAL_STORAGE", storage) < 0 || H5Pset_fapl_cache(list, "HDF5_CACHE_WR", &on) < 0)
        return 1;
    const int failed = write_file(list);
    return H5Pclose(list) < 0 || H5LSclose(storage) < 0 || failed;
}
