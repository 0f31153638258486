/* Local storage, and what of Cache VOL is set in file access lists.
 *
 * The names, types and layouts are those of Cache VOL, so that programs compile and link as they are. The text and the
 * functions are forebay's. What each setting comes to is in docs/cache-vol.md.
 *
 * A storage (`cache_storage_t`) is a description: a path, a size, and an account of what was claimed of it. It stores
 * nothing. A file access list that names it (`LOCAL_STORAGE`) has files staged there.
 *
 * All functions return 0, or -1 with an error on HDF5's stack. None blocks but `H5LScreate` and `readLSConf`, which
 * read a file, and `H5LSset`, which looks at the path. One storage is used by one thread at a time.
 *
 * The enumerators have short names, as in Cache VOL. Beside code that uses the same names for something else, define
 * H5LS_NO_SHORT_NAMES before the header is included: then only the long ones (`H5LS_READ`, ...) are there.
 */
#ifndef FOREBAY_CACHE_VOL_H5LS_H
#define FOREBAY_CACHE_VOL_H5LS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <hdf5.h>

#define MAX_NUM_CACHE_FILE 1000
#define MAX_NUM_CACHE_ACCESS 1000

/* clang-format off: it takes the names for calls. */
#ifndef H5LS_NO_SHORT_NAMES
#define H5LS_SHORT_NAMES(...) , __VA_ARGS__
#else
#define H5LS_SHORT_NAMES(...)
#endif
enum cache_purpose { H5LS_READ, H5LS_WRITE, H5LS_RDWR H5LS_SHORT_NAMES(READ = H5LS_READ, WRITE, RDWR) };
enum cache_duration { H5LS_PERMANENT, H5LS_TEMPORAL H5LS_SHORT_NAMES(PERMANENT = H5LS_PERMANENT, TEMPORAL) };
enum cache_claim { H5LS_SOFT, H5LS_HARD H5LS_SHORT_NAMES(SOFT = H5LS_SOFT, HARD) };
enum cache_replacement_policy {
    H5LS_FIFO,
    H5LS_LIFO,
    H5LS_LRU,
    H5LS_LFU H5LS_SHORT_NAMES(FIFO = H5LS_FIFO, LIFO, LRU, LFU)
};
enum close_object {
    H5LS_FILE_CLOSE,
    H5LS_GROUP_CLOSE,
    H5LS_DATASET_CLOSE H5LS_SHORT_NAMES(FILE_CLOSE = H5LS_FILE_CLOSE, GROUP_CLOSE, DATASET_CLOSE)
};
#undef H5LS_SHORT_NAMES
/* clang-format on */

typedef enum cache_purpose cache_purpose_t;
typedef enum cache_duration cache_duration_t;
typedef enum cache_claim cache_claim_t;
typedef enum cache_replacement_policy cache_replacement_policy_t;
typedef enum close_object close_object_t;

/* When a cache was used. The newest time is at `count`, which goes round. */
typedef struct _AcessHistory {
    time_t time_stamp[MAX_NUM_CACHE_ACCESS];
    int count;
} AccessHistory;

/* One cache that was registered with a storage. Sizes are bytes. */
typedef struct cache_t {
    cache_purpose_t purpose;
    cache_duration_t duration;
    bool growable;
    hsize_t mspace_total; /* per node */
    hsize_t mspace_left;
    hsize_t mspace_per_rank_total;
    hsize_t mspace_per_rank_left;
    hid_t fd;
    char path[255];
    AccessHistory access_history;
} cache_t;

typedef struct _CacheList {
    cache_t *cache;
    void *target; /* what it is the cache of */
    struct _CacheList *next;
} CacheList;

typedef struct cache_storage_t {
    char type[255];  /* SSD, BURST_BUFFER, MEMORY, GPU */
    char *path;      /* NULL: none */
    char scope[255]; /* LOCAL, GLOBAL */
    hsize_t mspace_total;
    hsize_t mspace_left;
    CacheList *cache_list, *cache_head; /* the last and the first that were registered */
    int num_cache;
    bool io_node;
    double write_buffer_size;
    double fusion_threshold;
    void *previous_write_req;
    cache_replacement_policy_t replacement_policy;
    const void *mmap_cls;
    const void *cache_io_cls;
} cache_storage_t;

/* Earlier names. */
typedef cache_t Cache;
typedef cache_storage_t CacheStorage;
typedef cache_storage_t LocalStorage;

#ifdef __cplusplus
extern "C" {
#endif

/* A property list class: H5Pcreate(H5P_LOCAL_STORAGE_CREATE). Its lists have no properties of their own. */
#define H5P_LOCAL_STORAGE_CREATE (H5LSget_create_class())
hid_t H5LSget_create_class(void);

/* A new storage, as the configuration file says that HDF5_VOL_CONNECTOR names, else as the variables say; with
 * defaults for what neither says. `plist`: any property list, or H5P_DEFAULT; nothing is read from it. NULL: an error.
 * The caller owns it: `H5LSclose`. */
cache_storage_t *H5LScreate(hid_t plist);
herr_t H5LSclose(cache_storage_t *LS);

/* Sets what is given. `path` may be NULL for MEMORY and GPU; else it is a directory. `LS` was made by H5LScreate. */
herr_t H5LSset(cache_storage_t *LS, const char *type, const char *path, hsize_t avail_space,
               cache_replacement_policy_t replacement);
/* `flag` TYPE or PATH: `value` points to a char *, which then points into the storage. SIZE: to an hsize_t. */
herr_t H5LSget(cache_storage_t *LS, const char *flag, void *value);
/* Reads a configuration file. Lines as in docs/cache-vol.md; what nobody knows is passed over. */
herr_t readLSConf(const char *fname, cache_storage_t *LS);
/* -1: no such policy. */
cache_replacement_policy_t get_replacement_policy_from_str(const char *str);

/* Takes `size` bytes of what is left. If there are too few, SOFT fails; HARD first removes temporal caches, in the
 * order of `replacement`, if that makes enough room. */
herr_t H5LSclaim_space(cache_storage_t *LS, hsize_t size, cache_claim_t type, cache_replacement_policy_t replacement);
/* `cache` stays the caller's, and outlives its place in the storage. What it takes is what was claimed for it. */
herr_t H5LSregister_cache(cache_storage_t *LS, cache_t *cache, void *target);
/* What it took is free again. No file is touched: forebay removes what it has staged by itself. */
herr_t H5LSremove_cache(cache_storage_t *LS, cache_t *cache);
herr_t H5LSremove_cache_all(cache_storage_t *LS);
herr_t H5LSrecord_cache_access(cache_t *cache);
#define H5LSregister_access_count(cache) H5LSrecord_cache_access(cache)

/* `flag` HDF5_CACHE_WR or HDF5_CACHE_RD: `value` points to a bool: whether files opened with this list are staged, or
 * read through the cache. The variables of these names are stronger. LOCAL_STORAGE: `value` is a cache_storage_t *,
 * whose present values hold for files that are opened with this list, if they are the first ones of the process. */
herr_t H5Pset_fapl_cache(hid_t plist, const char *flag, void *value);
/* The same values; LOCAL_STORAGE: `value` points to a cache_storage_t *. An error if the list has none. */
herr_t H5Pget_fapl_cache(hid_t plist, const char *flag, void *value);
/* The truth value itself, as some documents have it. */
herr_t H5Pset_fapl_cache_flag(hid_t plist, const char *flag, int value);

#ifdef __cplusplus
}
inline herr_t H5Pset_fapl_cache(hid_t plist, const char *flag, bool value) {
    return H5Pset_fapl_cache_flag(plist, flag, value ? 1 : 0);
}
#else
#define H5Pset_fapl_cache(plist, flag, value)                                                                        \
    _Generic((value), _Bool: H5Pset_fapl_cache_flag, int: H5Pset_fapl_cache_flag, default: H5Pset_fapl_cache)(plist, \
                                                                                                              flag,  \
                                                                                                              value)
#endif
#define H5Pset_fapl_plist(plist, flag, value) H5Pset_fapl_cache(plist, flag, value)

#endif
