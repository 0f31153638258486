#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "H5VLcache_ext.h"
#include "hdf5_calls.h"
#include "storage_text.h"

#undef H5Pset_fapl_cache

enum { kNameSize = 255 };
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

static void set_key(cache_storage_t *storage, const char *key, const char *value) {
    double bytes = 0;
    if (strcmp(key, "HDF5_CACHE_STORAGE_PATH") == 0) {
        char *path = strcmp(value, "NULL") == 0 ? NULL : copy_of(value);
        free(storage->path);
        storage->path = path;
    } else if (strcmp(key, "HDF5_CACHE_STORAGE_SIZE") == 0 && forebay_bytes_in(value, &bytes)) {
        storage->mspace_total = storage->mspace_left = (hsize_t)bytes;
    } else if (strcmp(key, "HDF5_CACHE_WRITE_BUFFER_SIZE") == 0 && forebay_bytes_in(value, &bytes)) {
        storage->write_buffer_size = bytes;
    } else if (strcmp(key, "HDF5_CACHE_FUSION_THRESHOLD") == 0 && forebay_bytes_in(value, &bytes)) {
        storage->fusion_threshold = bytes;
    } else if (strcmp(key, "HDF5_CACHE_STORAGE_TYPE") == 0 && is_type(value)) {
        copy_name(storage->type, value);
    } else if (strcmp(key, "HDF5_CACHE_STORAGE_SCOPE") == 0) {
        copy_name(storage->scope, value);
    } else if (strcmp(key, "HDF5_CACHE_REPLACEMENT_POLICY") == 0 && is_policy(get_replacement_policy_from_str(value))) {
        storage->replacement_policy = get_replacement_policy_from_str(value);
    }
}

static void take_setting(void *into, const char *key, const char *value) { set_key(into, key, value); }

herr_t readLSConf(const char *fname, cache_storage_t *LS) {
    if (fname == NULL || LS == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no file name, or no storage");
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
    if (!failed) forebay_read_settings(text, size, take_setting, LS);
    free(text);
    return failed ? FOREBAY_FAIL(H5E_CANTOPENFILE_g, "the configuration file cannot be read") : 0;
}

/* What HDF5_VOL_CONNECTOR names, in memory of the caller's. */
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
    cache_storage_t *storage = calloc(1, sizeof *storage);
    if (storage == NULL) {
        (void)FOREBAY_FAIL(H5E_NOSPACE_g, "out of memory");
        return NULL;
    }
    copy_name(storage->type, "SSD");
    copy_name(storage->scope, "LOCAL");
    storage->mspace_total = storage->mspace_left = (hsize_t)137438953472;
    storage->write_buffer_size = 2147483648.0;
    storage->replacement_policy = H5LS_LRU;
    storage->io_node = true;
    for (size_t i = 0; i < sizeof kVariables / sizeof *kVariables; ++i) {
        const char *value = getenv(kVariables[i][0]);
        if (value != NULL && *value != '\0') set_key(storage, kVariables[i][1], value);
    }
    char *name = configured_file();
    struct stat facts;
    if (name != NULL && stat(name, &facts) == 0) (void)readLSConf(name, storage);
    free(name);
    return storage;
}

herr_t H5LSclose(cache_storage_t *LS) {
    if (LS == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no storage");
    (void)H5LSremove_cache_all(LS);
    free(LS->path);
    free(LS);
    return 0;
}

herr_t H5LSset(cache_storage_t *LS, const char *type, const char *path, hsize_t avail_space,
               cache_replacement_policy_t replacement) {
    if (LS == NULL || type == NULL) return FOREBAY_FAIL(H5E_BADVALUE_g, "no storage, or no type");
    if (!is_type(type)) return FOREBAY_FAIL(H5E_BADVALUE_g, "the type is none of SSD, BURST_BUFFER, MEMORY, GPU");
    if (!is_policy(replacement)) return FOREBAY_FAIL(H5E_BADVALUE_g, "no such replacement policy");
    struct stat facts;
    if (!in_memory(type) && (path == NULL || stat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)))
        return FOREBAY_FAIL(H5E_BADVALUE_g, "the path of the storage is no directory");
    char *copy = path != NULL ? copy_of(path) : NULL;
    if (path != NULL && copy == NULL) return FOREBAY_FAIL(H5E_NOSPACE_g, "out of memory");
    if (copy != NULL) {
        free(LS->path);
        LS->path = copy;
    }
    copy_name(LS->type, type);
    LS->mspace_total = LS->mspace_left = avail_space;
    LS->replacement_policy = replacement;
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

/* Of two temporal caches, `first` having been registered first: whether `second` goes before it. */
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
    static hid_t made = H5I_INVALID_HID; /* HDF5 closes it when it ends, and begins with other identifiers then */
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

/* What the storage says, as lines of a configuration file. */
static herr_t put_storage(hid_t plist, cache_storage_t *storage) {
    const char *path = storage->path != NULL ? storage->path : "NULL";
    const char *policy = is_policy(storage->replacement_policy) ? kPolicies[storage->replacement_policy] : "LRU";
    const double buffer = storage->write_buffer_size < (double)storage->mspace_total ? storage->write_buffer_size
                                                                                     : (double)storage->mspace_total;
    const size_t size = strlen(path) + 2 * kNameSize + 512;
    char *text = calloc(1, size);
    if (text == NULL) return FOREBAY_FAIL(H5E_NOSPACE_g, "out of memory");
    snprintf(text, size,
             "HDF5_CACHE_STORAGE_TYPE:%s\nHDF5_CACHE_STORAGE_PATH:%s\nHDF5_CACHE_STORAGE_SIZE:%llu\n"
             "HDF5_CACHE_WRITE_BUFFER_SIZE:%.0f\nHDF5_CACHE_REPLACEMENT_POLICY:%s\nHDF5_CACHE_STORAGE_SCOPE:%s\n",
             storage->type, path, (unsigned long long)storage->mspace_total, buffer, policy, storage->scope);
    const herr_t result = put(plist, kSettings, size, text);
    free(text);
    return result < 0 ? result : put(plist, kStorage, sizeof storage, &storage);
}

herr_t H5Pset_fapl_cache(hid_t plist, const char *flag, void *value) {
    if (check_list(plist, flag) < 0) return -1;
    if (is_switch(flag)) {
        /* Programs that were compiled with `true` in the place of a pointer to it. */
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

/* ---- the connector -------------------------------------------------------------------------------- */

hid_t H5VL_cache_ext_register(void) {
    if (forebay_open_hdf5() < 0) return H5I_INVALID_HID;
    return FOREBAY_CALL(H5VLregister_connector_by_value)(H5VL_CACHE_EXT_VALUE, H5P_DEFAULT);
}
