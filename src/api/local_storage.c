#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "H5VLcache_ext.h"
#include "hdf5_calls.h"
#include "storage_text.h"

#undef H5Pset_fapl_cache

enum { kNameSize = 255 };
static const double kWriteBufferBytes = 2147483648.0;
static const char *const kWrite = "HDF5_CACHE_WR", *const kRead = "HDF5_CACHE_RD", *const kStorage = "LOCAL_STORAGE",
                         *const kSettings = "forebay.local_storage";   /* src/hdf5/identity/cache_ext.cc reads it */
static const char *const kPolicies[] = {"FIFO", "LIFO", "LRU", "LFU"}; /* in the order of the enumerators */

/* ---- storages ------------------------------------------------------------------------------------- */

cache_replacement_policy_t get_replacement_policy_from_str(const char *str) {
    if (str != NULL)
        for (size_t i = 0; i < sizeof kPolicies / sizeof *kPolicies; ++i)
            if (forebay_same_word(str, kPolicies[i])) return (cache_replacement_policy_t)i;
    return (cache_replacement_policy_t)-1;
}

static bool is_policy(cache_replacement_policy_t policy) { return (int)policy >= 0 && (int)policy <= (int)H5LS_LFU; }

static bool in_memory(const char *type) { return forebay_same_word(type, "MEMORY") || forebay_same_word(type, "GPU"); }

static bool is_type(const char *type) {
    return in_memory(type) || forebay_same_word(type, "SSD") || forebay_same_word(type, "BURST_BUFFER");
}

static void copy_name(char *into, const char *name) {
    size_t length = strlen(name);
    if (length >= kNameSize) length = kNameSize - 1;
    memmove(into, name, length);
    into[length] = '\0';
}

static char *copy_of(const char *text) {
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy != NULL) memcpy(copy, text, size);
    return copy;
}

/* ---- storages that H5LScreate has made ------------------------------------------------------------- */

enum { kType, kPath, kSize, kBuffer, kPolicy, kScope, kFusion, kKeys };
static const char *const kKeyNames[kKeys] = {"HDF5_CACHE_STORAGE_TYPE",       "HDF5_CACHE_STORAGE_PATH",
                                             "HDF5_CACHE_STORAGE_SIZE",       "HDF5_CACHE_WRITE_BUFFER_SIZE",
                                             "HDF5_CACHE_REPLACEMENT_POLICY", "HDF5_CACHE_STORAGE_SCOPE",
                                             "HDF5_CACHE_FUSION_THRESHOLD"};

/* The part of a storage that forebay keeps beside it: a path that forebay made, and values without meaning. The
 * connector refuses these values when a file is opened (src/cache_vol/settings.cc), like those of a configuration
 * file. */
typedef struct Made {
    cache_storage_t storage;
    char *path;
    char *refused[kKeys];
    struct Made *next;
} Made;

static Made *the_made;
static pthread_mutex_t the_made_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns NULL for a storage that the program made itself. */
static Made *made_of(const cache_storage_t *storage) {
    pthread_mutex_lock(&the_made_lock);
    Made *one = the_made;
    while (one != NULL && &one->storage != storage) one = one->next;
    pthread_mutex_unlock(&the_made_lock);
    return one;
}

static void add_made(Made *made) {
    pthread_mutex_lock(&the_made_lock);
    made->next = the_made;
    the_made = made;
    pthread_mutex_unlock(&the_made_lock);
}

static void free_made(Made *made) {
    pthread_mutex_lock(&the_made_lock);
    Made **at = &the_made;
    while (*at != NULL && *at != made) at = &(*at)->next;
    if (*at == made) *at = made->next;
    pthread_mutex_unlock(&the_made_lock);
    for (int key = 0; key < kKeys; ++key) free(made->refused[key]);
    free(made->path);
    free(made);
}

/* Takes ownership of `path`. Frees the old path only if this file made it: a program's own may be static. */
static void set_path(cache_storage_t *storage, char *path) {
    Made *const made = made_of(storage);
    if (made != NULL) {
        free(made->path);
        made->path = path;
    }
    storage->path = path;
}

/* `value` is NULL if the key's new value has a meaning. */
static void refuse_value(cache_storage_t *storage, int key, const char *value) {
    Made *const made = made_of(storage);
    if (made == NULL) return;
    free(made->refused[key]);
    made->refused[key] = value != NULL ? copy_of(value) : NULL;
}

/* ---- configuration files --------------------------------------------------------------------------- */

static bool set_value(cache_storage_t *storage, int key, const char *value) {
    double bytes = 0;
    switch (key) {
        case kPath: set_path(storage, strcmp(value, "NULL") == 0 ? NULL : copy_of(value)); return true;
        case kScope: copy_name(storage->scope, value); return true;
        case kType:
            if (!is_type(value)) return false;
            copy_name(storage->type, value);
            return true;
        case kPolicy:
            if (!is_policy(get_replacement_policy_from_str(value))) return false;
            storage->replacement_policy = get_replacement_policy_from_str(value);
            return true;
        default: break;
    }
    if (!forebay_bytes_in(value, &bytes)) return false;
    if (key == kSize) storage->mspace_total = storage->mspace_left = (hsize_t)bytes;
    else if (key == kBuffer) storage->write_buffer_size = bytes;
    else storage->fusion_threshold = bytes;
    return true;
}

enum { kRefusalsSize = 512 };
typedef struct Reading {
    cache_storage_t *storage;
    char refusals[kRefusalsSize]; /* pairs without meaning, as text */
} Reading;

static void take_setting(void *into, const char *name, const char *value) {
    Reading *const reading = into;
    for (int key = 0; key < kKeys; ++key) {
        if (strcmp(name, kKeyNames[key]) != 0) continue;
        const bool means_something = set_value(reading->storage, key, value);
        refuse_value(reading->storage, key, means_something ? NULL : value);
        const size_t length = strlen(reading->refusals);
        if (!means_something)
            snprintf(reading->refusals + length, kRefusalsSize - length, "%s%s=%.80s", length > 0 ? ", " : "", name,
                     value);
    }
}

static herr_t read_configuration(const char *fname, Reading *reading) {
    struct stat facts;
    if (stat(fname, &facts) != 0 || !S_ISREG(facts.st_mode))
        return FOREBAY_FAIL(H5E_CANTOPENFILE_g, "the configuration file is not there");
    if (facts.st_size > kForebayStorageTextMax)
        return FOREBAY_FAIL(H5E_CANTOPENFILE_g, "the configuration file is too long");
    FILE *file = fopen(fname, "rbe");
    if (file == NULL) return FOREBAY_FAIL(H5E_CANTOPENFILE_g, "the configuration file cannot be read");
    char *text = malloc((size_t)facts.st_size + 1);
    const size_t size = text != NULL ? fread(text, 1, (size_t)facts.st_size, file) : 0;
    const bool failed = text == NULL || ferror(file) != 0;
    fclose(file);
    if (!failed) forebay_read_settings(text, size, take_setting, reading);
    free(text);
    return failed ? FOREBAY_FAIL(H5E_CANTOPENFILE_g, "the configuration file cannot be read") : 0;
}

herr_t readLSConf(const char *fname, cache_storage_t *LS) {
    if (fname == NULL || LS == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no file name, or no storage");
    Reading reading = {LS, ""};
    if (read_configuration(fname, &reading) < 0) return -1;
    if (reading.refusals[0] == '\0') return 0;
    char text[kRefusalsSize + 80];
    snprintf(text, sizeof text, "the configuration file has values that mean nothing: %s", reading.refusals);
    return FOREBAY_FAIL(H5E_BADVALUE_g, text);
}

/* The configuration file that HDF5_VOL_CONNECTOR names. The caller frees the text. */
static char *configured_file(void) {
    const char *text = getenv("HDF5_VOL_CONNECTOR");
    const char *found = text != NULL && strstr(text, "cache_ext") != NULL ? strstr(text, "config=") : NULL;
    if (found == NULL) return NULL;
    char *name = copy_of(found + strlen("config="));
    if (name != NULL) name[strcspn(name, "; \t\r\n")] = '\0';
    return name;
}

cache_storage_t *H5LScreate(hid_t plist) {
    static const char *const kVariables[][2] = {{"HDF5_LOCAL_STORAGE_PATH", "HDF5_CACHE_STORAGE_PATH"},
                                                {"HDF5_LOCAL_STORAGE_SIZE", "HDF5_CACHE_STORAGE_SIZE"},
                                                {"HDF5_LOCAL_STORAGE_TYPE", "HDF5_CACHE_STORAGE_TYPE"},
                                                {"HDF5_WRITE_CACHE_SIZE", "HDF5_CACHE_WRITE_BUFFER_SIZE"},
                                                {"HDF5_CACHE_REPLACEMENT", "HDF5_CACHE_REPLACEMENT_POLICY"}};
    if (forebay_open_hdf5() < 0) return NULL;
    if (plist != H5P_DEFAULT && FOREBAY_CALL(H5Iget_type)(plist) != H5I_GENPROP_LST) {
        (void)FOREBAY_FAIL(H5E_BADTYPE_g, "not a property list");
        return NULL;
    }
    Made *const made = calloc(1, sizeof *made);
    if (made == NULL) {
        (void)FOREBAY_FAIL(H5E_NOSPACE_g, "out of memory");
        return NULL;
    }
    add_made(made);
    cache_storage_t *const storage = &made->storage;
    copy_name(storage->type, "SSD");
    copy_name(storage->scope, "LOCAL");
    storage->mspace_total = storage->mspace_left = (hsize_t)137438953472;
    storage->write_buffer_size = kWriteBufferBytes;
    storage->replacement_policy = H5LS_LRU;
    storage->io_node = true;
    Reading reading = {storage, ""};
    for (size_t i = 0; i < sizeof kVariables / sizeof *kVariables; ++i) {
        const char *value = getenv(kVariables[i][0]);
        if (value != NULL && *value != '\0') take_setting(&reading, kVariables[i][1], value);
    }
    char *name = configured_file();
    struct stat facts;
    if (name != NULL && stat(name, &facts) == 0) (void)read_configuration(name, &reading);
    free(name);
    return storage;
}

herr_t H5LSclose(cache_storage_t *LS) {
    if (LS == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no storage");
    Made *const made = made_of(LS);
    if (made == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "H5LScreate has not made this storage, or it is closed");
    (void)H5LSremove_cache_all(LS);
    free_made(made);
    return 0;
}

/* Keeps the value too: a program that ignores the result gets the failure when it opens a file. */
static herr_t refuse_setting(cache_storage_t *storage, int key, const char *value, const char *why) {
    refuse_value(storage, key, value);
    return FOREBAY_FAIL(H5E_BADVALUE_g, why);
}

herr_t H5LSset(cache_storage_t *LS, const char *type, const char *path, hsize_t avail_space,
               cache_replacement_policy_t replacement) {
    if (LS == NULL || type == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no storage, or no type");
    struct stat facts;
    if (!is_type(type)) return refuse_setting(LS, kType, type, "the type is none of SSD, BURST_BUFFER, MEMORY, GPU");
    if (!is_policy(replacement)) return refuse_setting(LS, kPolicy, "unknown", "no such replacement policy");
    if (avail_space > (hsize_t)INT64_MAX)
        return refuse_setting(LS, kSize, "-1", "the size of the storage is a negative number, or beyond all storages");
    if (path != NULL && strchr(path, '\n') != NULL)
        return FOREBAY_FAIL(H5E_BADVALUE_g, "the path of the storage has a line break");
    if (!in_memory(type) && (path == NULL || stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)))
        return refuse_setting(LS, kPath, path, "the path of the storage is no directory");
    char *copy = path != NULL ? copy_of(path) : NULL;
    if (path != NULL && copy == NULL) return FOREBAY_FAIL(H5E_NOSPACE_g, "out of memory");
    if (copy != NULL) set_path(LS, copy);
    copy_name(LS->type, type);
    LS->mspace_total = LS->mspace_left = avail_space;
    LS->replacement_policy = replacement;
    refuse_value(LS, kType, NULL);
    refuse_value(LS, kPath, NULL);
    refuse_value(LS, kSize, NULL);
    refuse_value(LS, kPolicy, NULL);
    return 0;
}

herr_t H5LSget(cache_storage_t *LS, const char *flag, void *value) {
    if (LS == NULL || flag == NULL || value == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "an argument is missing");
    if (strcmp(flag, "TYPE") == 0) *(char **)value = LS->type;
    else if (strcmp(flag, "PATH") == 0) *(char **)value = LS->path;
    else if (strcmp(flag, "SIZE") == 0) *(hsize_t *)value = LS->mspace_total;
    else return FOREBAY_FAIL(H5E_BADVALUE_g, "the flag is none of TYPE, PATH, SIZE");
    return 0;
}

/* ---- the account of caches ------------------------------------------------------------------------ */

herr_t H5LSregister_cache(cache_storage_t *LS, cache_t *cache, void *target) {
    if (LS == NULL || cache == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no storage, or no cache");
    for (CacheList *one = LS->cache_head; one != NULL; one = one->next)
        if (one->cache == cache) return FOREBAY_FAIL(H5E_BADVALUE_g, "the cache is registered already");
    CacheList *added = malloc(sizeof *added);
    if (added == NULL) return FOREBAY_FAIL(H5E_NOSPACE_g, "out of memory");
    *added = (CacheList){cache, target, NULL};
    if (LS->cache_head == NULL) LS->cache_head = added;
    else LS->cache_list->next = added;
    LS->cache_list = added;
    ++LS->num_cache;
    cache->access_history.count = 0;
    cache->access_history.time_stamp[0] = time(NULL);
    return 0;
}

herr_t H5LSremove_cache(cache_storage_t *LS, cache_t *cache) {
    if (LS == NULL || cache == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no storage, or no cache");
    CacheList *before = NULL;
    for (CacheList *one = LS->cache_head; one != NULL; before = one, one = one->next) {
        if (one->cache != cache) continue;
        if (before == NULL) LS->cache_head = one->next;
        else before->next = one->next;
        if (LS->cache_list == one) LS->cache_list = before;
        const hsize_t taken = LS->mspace_total - LS->mspace_left;
        LS->mspace_left += cache->mspace_total < taken ? cache->mspace_total : taken;
        --LS->num_cache;
        free(one);
        return 0;
    }
    return FOREBAY_FAIL(H5E_BADVALUE_g, "the storage has no such cache");
}

herr_t H5LSremove_cache_all(cache_storage_t *LS) {
    if (LS == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no storage");
    while (LS->cache_head != NULL)
        if (H5LSremove_cache(LS, LS->cache_head->cache) < 0) return -1;
    return 0;
}

static time_t last_access(const cache_t *cache) {
    return cache->access_history.time_stamp[cache->access_history.count % MAX_NUM_CACHE_ACCESS];
}

/* Returns true if `second` goes before `first`. Both are temporal caches, and `first` was registered earlier. */
static bool goes_before(const cache_t *second, const cache_t *first, cache_replacement_policy_t policy) {
    switch (policy) {
        case H5LS_LIFO: return true;
        case H5LS_LRU: return last_access(second) < last_access(first);
        case H5LS_LFU: return second->access_history.count < first->access_history.count;
        default: return false;
    }
}

herr_t H5LSclaim_space(cache_storage_t *LS, hsize_t size, cache_claim_t type, cache_replacement_policy_t replacement) {
    if (LS == NULL || !is_policy(replacement)) return FOREBAY_FAIL(H5E_BADVALUE_g, "no storage, or no such policy");
    hsize_t removable = 0;
    for (CacheList *one = LS->cache_head; one != NULL; one = one->next)
        if (one->cache->duration == H5LS_TEMPORAL) removable += one->cache->mspace_total;
    if (LS->mspace_left < size && (type == H5LS_SOFT || LS->mspace_left + removable < size))
        return FOREBAY_FAIL(H5E_NOSPACE_g, "the storage has too little space left");
    while (LS->mspace_left < size) {
        cache_t *next = NULL;
        for (CacheList *one = LS->cache_head; one != NULL; one = one->next)
            if (one->cache->duration == H5LS_TEMPORAL && (next == NULL || goes_before(one->cache, next, replacement)))
                next = one->cache;
        if (next == NULL || H5LSremove_cache(LS, next) < 0)
            return FOREBAY_FAIL(H5E_NOSPACE_g, "the storage has too little space left");
    }
    LS->mspace_left -= size;
    return 0;
}

herr_t H5LSrecord_cache_access(cache_t *cache) {
    if (cache == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no cache");
    AccessHistory *history = &cache->access_history;
    if (history->count < 0) history->count = 0;
    ++history->count;
    history->time_stamp[history->count % MAX_NUM_CACHE_ACCESS] = time(NULL);
    return 0;
}

/* ---- property lists ------------------------------------------------------------------------------- */

hid_t H5LSget_create_class(void) {
    static hid_t made = H5I_INVALID_HID; /* HDF5 closes it at its end, and then starts with other identifiers */
    if (forebay_open_hdf5() < 0) return H5I_INVALID_HID;
    if (made < 0 || FOREBAY_CALL(H5Iget_type)(made) != H5I_GENPROP_CLS)
        made = FOREBAY_CALL(H5Pcreate_class)(FOREBAY_ID(H5P_CLS_ROOT_ID_g), "local storage create", NULL, NULL, NULL,
                                             NULL, NULL, NULL);
    return made;
}

static herr_t put(hid_t plist, const char *name, size_t size, void *value) {
    const htri_t there = FOREBAY_CALL(H5Pexist)(plist, name);
    if (there < 0 || (there > 0 && FOREBAY_CALL(H5Premove)(plist, name) < 0)) return -1;
    return FOREBAY_CALL(H5Pinsert2)(plist, name, size, value, NULL, NULL, NULL, NULL, NULL, NULL);
}

static bool is_switch(const char *flag) { return strcmp(flag, kWrite) == 0 || strcmp(flag, kRead) == 0; }

static herr_t check_list(hid_t plist, const char *flag) {
    if (flag == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no flag");
    if (forebay_open_hdf5() < 0) return -1;
    if (FOREBAY_CALL(H5Pisa_class)(plist, FOREBAY_ID(H5P_CLS_FILE_ACCESS_ID_g)) <= 0)
        return FOREBAY_FAIL(H5E_BADTYPE_g, "not a file access property list");
    return 0;
}

herr_t H5Pset_fapl_cache_flag(hid_t plist, const char *flag, int value) {
    if (check_list(plist, flag) < 0) return -1;
    if (!is_switch(flag)) return FOREBAY_FAIL(H5E_BADVALUE_g, "the flag is neither HDF5_CACHE_WR nor HDF5_CACHE_RD");
    bool on = value != 0;
    return put(plist, flag, sizeof on, &on);
}

/* Puts the storage into the list as lines of a configuration file. A value without meaning goes along as given, and
 * the connector refuses it. A write buffer of the default size is left out, so that the connector fits it to the
 * storage. */
static herr_t put_storage(hid_t plist, cache_storage_t *storage) {
    char size[32], buffer[340], policy[32];
    snprintf(size, sizeof size, "%" PRId64, (int64_t)storage->mspace_total);
    snprintf(buffer, sizeof buffer, "%.0f", storage->write_buffer_size);
    snprintf(policy, sizeof policy, "%d", (int)storage->replacement_policy);
    const bool own_buffer = storage->write_buffer_size != kWriteBufferBytes ||
                            storage->mspace_total >= (hsize_t)kWriteBufferBytes;
    const char *values[kKeys] = {
        storage->type,
        storage->path != NULL ? storage->path : "NULL",
        size,
        own_buffer ? buffer : NULL,
        is_policy(storage->replacement_policy) ? kPolicies[storage->replacement_policy] : policy,
        storage->scope,
        NULL};
    const Made *const made = made_of(storage);
    size_t bytes = 1;
    for (int key = 0; key < kKeys; ++key) {
        if (made != NULL && made->refused[key] != NULL) values[key] = made->refused[key];
        if (values[key] != NULL) bytes += strlen(kKeyNames[key]) + strlen(values[key]) + 2;
    }
    char *const text = calloc(1, bytes);
    if (text == NULL) return FOREBAY_FAIL(H5E_NOSPACE_g, "out of memory");
    size_t length = 0;
    for (int key = 0; key < kKeys; ++key)
        if (values[key] != NULL)
            length += (size_t)snprintf(text + length, bytes - length, "%s:%s\n", kKeyNames[key], values[key]);
    const herr_t result = put(plist, kSettings, bytes, text);
    free(text);
    return result < 0 ? result : put(plist, kStorage, sizeof storage, &storage);
}

herr_t H5Pset_fapl_cache(hid_t plist, const char *flag, void *value) {
    if (check_list(plist, flag) < 0) return -1;
    if (is_switch(flag)) {
        /* Some programs were compiled with `true` in the place of a pointer to it. */
        if ((size_t)value <= 1) return H5Pset_fapl_cache_flag(plist, flag, value != NULL);
        return H5Pset_fapl_cache_flag(plist, flag, *(const bool *)value);
    }
    if (strcmp(flag, kStorage) != 0)
        return FOREBAY_FAIL(H5E_BADVALUE_g, "the flag is none of HDF5_CACHE_WR, HDF5_CACHE_RD, LOCAL_STORAGE");
    if (value == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no storage");
    return put_storage(plist, value);
}

herr_t H5Pget_fapl_cache(hid_t plist, const char *flag, void *value) {
    if (check_list(plist, flag) < 0) return -1;
    if (value == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no place for the value");
    if (!is_switch(flag) && strcmp(flag, kStorage) != 0)
        return FOREBAY_FAIL(H5E_BADVALUE_g, "the flag is none of HDF5_CACHE_WR, HDF5_CACHE_RD, LOCAL_STORAGE");
    if (FOREBAY_CALL(H5Pexist)(plist, flag) <= 0) return FOREBAY_FAIL(H5E_BADVALUE_g, "the list has no such value");
    return FOREBAY_CALL(H5Pget)(plist, flag, value);
}

/* ---- tables of functions -------------------------------------------------------------------------- */

static herr_t map_nothing(void) {
    return FOREBAY_FAIL(H5E_UNSUPPORTED_g, "forebay maps no files for its caches: docs/migrating.md");
}

static herr_t map_size(H5LS_mmap_t *mmap, hsize_t size) {
    (void)mmap, (void)size;
    return map_nothing();
}

static void *map_buffer(hid_t space, hid_t type, const void *buf, hsize_t size, H5LS_mmap_t *mmap) {
    (void)space, (void)type, (void)buf, (void)size, (void)mmap;
    (void)map_nothing();
    return NULL;
}

static herr_t map_folder(const char *path) {
    (void)path;
    return map_nothing();
}

#define MAPS_NOTHING(type) {type, map_size, map_size, map_buffer, map_size, map_size, map_folder}

const H5LS_mmap_class_t *get_H5LS_mmap_class_t(const char *type) {
    static const H5LS_mmap_class_t kClasses[] = {MAPS_NOTHING("SSD"), MAPS_NOTHING("BURST_BUFFER"),
                                                 MAPS_NOTHING("MEMORY"), MAPS_NOTHING("GPU")};
    for (size_t i = 0; type != NULL && i < sizeof kClasses / sizeof *kClasses; ++i)
        if (forebay_same_word(type, kClasses[i].type)) return &kClasses[i];
    (void)FOREBAY_FAIL(H5E_BADVALUE_g, "the type is none of SSD, BURST_BUFFER, MEMORY, GPU");
    return NULL;
}

/* ---- the connector -------------------------------------------------------------------------------- */

hid_t H5VL_cache_ext_register(void) {
    if (forebay_open_hdf5() < 0) return H5I_INVALID_HID;
    return FOREBAY_CALL(H5VLregister_connector_by_value)(H5VL_CACHE_EXT_VALUE, H5P_DEFAULT);
}
