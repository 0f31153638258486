/* The functions of forebay/forebay.h. A function that takes an identifier calls an optional operation of HDF5. The
 * others call the plugin, which they find among the libraries that the process has loaded. */
#include <H5VLconnector.h>
#include <dlfcn.h>
#include <errno.h>
#include <forebay/forebay.h>
#include <forebay/operations.h>
#include <hdf5.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- by identifier ---- */

/* The plugin ends its messages with their errno, like HDF5's own drivers. */
static herr_t note_number(unsigned index, const H5E_error2_t *error, void *number) {
    static const char kMark[] = "errno = ";
    const char *const found = error->desc != NULL ? strstr(error->desc, kMark) : NULL;
    (void)index;
    if (found != NULL) *(int *)number = atoi(found + sizeof kMark - 1);
    else if (error->min_num == H5E_NOSPACE) *(int *)number = ENOMEM;
    return 0;
}

/* Returns EINVAL if HDF5 itself refuses the identifier. */
static int outcome_of(herr_t result) {
    int number = EINVAL;
    if (result >= 0) return 0;
    (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, note_number, &number);
    errno = number;
    return -1;
}

static int find_operation(H5VL_subclass_t subclass, const char *name, int *value) {
    if (H5open() >= 0 && H5VLfind_opt_operation(subclass, name, value) >= 0) return 0;
    errno = ENOSYS;
    return -1;
}

static int of_file(const char *name, int64_t file, void *arguments) {
    H5VL_optional_args_t call = {-1, arguments};
    if (find_operation(H5VL_SUBCLS_FILE, name, &call.op_type) != 0) return -1;
    return outcome_of(H5VLfile_optional_op(file, &call, H5P_DATASET_XFER_DEFAULT, H5ES_NONE));
}

static int of_dataset(const char *name, int64_t dataset, void *arguments) {
    H5VL_optional_args_t call = {-1, arguments};
    if (find_operation(H5VL_SUBCLS_DATASET, name, &call.op_type) != 0) return -1;
    return outcome_of(H5VLdataset_optional_op(dataset, &call, H5P_DATASET_XFER_DEFAULT, H5ES_NONE));
}

int forebay_file_pause_drain(int64_t file) { return of_file(FOREBAY_FILE_PAUSE_DRAIN, file, NULL); }

int forebay_file_resume_drain(int64_t file) { return of_file(FOREBAY_FILE_RESUME_DRAIN, file, NULL); }

int forebay_file_wait_durable(int64_t file) { return of_file(FOREBAY_FILE_WAIT_DURABLE, file, NULL); }

int forebay_file_prefetch(int64_t file, uint64_t count, const uint64_t *offsets, const uint64_t *lengths) {
    struct forebay_ranges ranges = {count, offsets, lengths};
    return of_file(FOREBAY_FILE_PREFETCH, file, &ranges);
}

int forebay_dataset_prefetch(int64_t dataset, int64_t file_space) {
    struct forebay_selection selection = {file_space};
    return of_dataset(FOREBAY_DATASET_PREFETCH, dataset, &selection);
}

int forebay_dataset_follow(int64_t dataset, uint64_t count, const uint64_t *rows) {
    struct forebay_rows order = {count, rows};
    return of_dataset(FOREBAY_DATASET_FOLLOW, dataset, &order);
}

int forebay_file_prefetch_left(int64_t file, uint64_t *bytes) {
    struct forebay_bytes left = {bytes};
    return of_file(FOREBAY_FILE_PREFETCH_LEFT, file, &left);
}

int forebay_file_prefetch_cancel(int64_t file) { return of_file(FOREBAY_FILE_PREFETCH_CANCEL, file, NULL); }

int forebay_file_pin(int64_t file, int on) {
    struct forebay_switch pinned = {on};
    return of_file(FOREBAY_FILE_PIN, file, &pinned);
}

int forebay_file_evict(int64_t file, uint64_t *bytes) {
    uint64_t ignored = 0;
    struct forebay_bytes evicted = {bytes != NULL ? bytes : &ignored};
    return of_file(FOREBAY_FILE_EVICT, file, &evicted);
}

int forebay_file_statistics(int64_t file, char *into, uint64_t size, uint64_t *length) {
    uint64_t ignored = 0;
    struct forebay_text text = {into, size, length != NULL ? length : &ignored};
    return of_file(FOREBAY_FILE_STATISTICS, file, &text);
}

/* ---- of the plugin ---- */

/* The plugins that HDF5 finds by their path. They load further copies of themselves, and answer for them. */
static const char *const kPlugins[] = {"libforebay_vol.so", "libh5cache_vol.so", "libh5async.so"};
enum { kPluginCount = sizeof kPlugins / sizeof *kPlugins };

/* Notes the path of each plugin. Must not call dlopen: the list of libraries is locked. */
static int note_plugin(struct dl_phdr_info *library, size_t size, void *paths) {
    const char *const path = library->dlpi_name != NULL ? library->dlpi_name : "", *const slash = strrchr(path, '/');
    const char *const name = slash != NULL ? slash + 1 : path;
    char **const noted = paths;
    (void)size;
    for (size_t i = 0; i < kPluginCount; ++i)
        if (noted[i] == NULL && strncmp(name, kPlugins[i], strlen(kPlugins[i])) == 0) noted[i] = strdup(path);
    return 0;
}

/* Returns null and sets errno if forebay is not loaded. H5open loads the plugin that the environment names. */
static void *find_in_plugin(const char *name) {
    char *paths[kPluginCount] = {NULL};
    void *function = NULL;
    if (H5open() >= 0) (void)dl_iterate_phdr(note_plugin, paths);
    for (size_t i = 0; i < kPluginCount; ++i) {
        void *const handle = paths[i] != NULL && function == NULL
                                 ? dlopen(paths[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD)
                                 : NULL;
        if (handle != NULL) {
            function = dlsym(handle, name);
            (void)dlclose(handle); /* it is linked to stay loaded */
        }
        free(paths[i]);
    }
    if (function == NULL) errno = ENOSYS;
    return function;
}

#define FIND(function) __typeof__(&function) const found = (__typeof__(&function))find_in_plugin(#function)

int forebay_version(unsigned *major, unsigned *minor, unsigned *patch) {
    FIND(forebay_version);
    return found != NULL ? found(major, minor, patch) : -1;
}

int forebay_pause(void) {
    FIND(forebay_pause);
    return found != NULL ? found() : -1;
}

int forebay_resume(void) {
    FIND(forebay_resume);
    return found != NULL ? found() : -1;
}

int forebay_statistics(char *into, uint64_t size, uint64_t *length) {
    FIND(forebay_statistics);
    return found != NULL ? found(into, size, length) : -1;
}

int forebay_path_prefetch(const char *path, uint64_t count, const uint64_t *offsets, const uint64_t *lengths) {
    FIND(forebay_path_prefetch);
    return found != NULL ? found(path, count, offsets, lengths) : -1;
}

int forebay_path_prefetch_left(const char *path, uint64_t *bytes) {
    FIND(forebay_path_prefetch_left);
    return found != NULL ? found(path, bytes) : -1;
}

int forebay_path_prefetch_cancel(const char *path) {
    FIND(forebay_path_prefetch_cancel);
    return found != NULL ? found(path) : -1;
}
