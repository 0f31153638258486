/* Local storage, and the settings of Cache VOL in file access lists. Names, types and layouts are those of Cache VOL:
 * programs compile and link as they are. Comments and functions are forebay's; docs/migrating.md describes each
 * setting. A storage (`cache_storage_t`) is a description: a path, a size, and an account of its claims. It stores
 * nothing. A file access list that names it (`LOCAL_STORAGE`) has files staged there.
 *
 * All functions return 0, or -1 with an error on HDF5's stack. `H5LScreate` and `readLSConf` block, as they read a
 * file, and `H5LSset`, which looks at the path. One thread at a time uses a storage. The enumerators have short names,
 * as in Cache VOL. Where other code has the same names, define H5LS_NO_SHORT_NAMES before the header is included: then
 * only the long ones (`H5LS_READ`, ...) are there. */
/* Cache VOL's own header has this guard: of the two, a program gets the one that it includes first. */
#ifndef H5LS_H__
#define H5LS_H__

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

/* Types that Cache VOL keeps of a cached file or dataset. Programs use some for themselves (a list of samples, a piece
 * of mapped memory); forebay makes and reads none. Without MPI, members of its types are pointers. */
#if defined(H5_HAVE_PARALLEL) || defined(MPI_VERSION)
typedef MPI_Comm H5LS_mpi_comm_t;
typedef MPI_Win H5LS_mpi_win_t;
typedef MPI_Datatype H5LS_mpi_datatype_t;
#else
typedef void *H5LS_mpi_comm_t, *H5LS_mpi_win_t, *H5LS_mpi_datatype_t;
#endif

/* A write that is to reach the file. Since HDF5 1.13.3 one may be of several datasets. */
#if H5_VERSION_GE(1, 13, 3)
#define H5LS_OF_EACH *
#else
#define H5LS_OF_EACH
#endif
typedef struct _task_data_t {
    char fname[255];
#if H5_VERSION_GE(1, 13, 3)
    size_t count;
#endif
    void *H5LS_OF_EACH dataset_obj;
    hid_t H5LS_OF_EACH dataset_id;
    hid_t H5LS_OF_EACH mem_type_id;
    hid_t H5LS_OF_EACH mem_space_id;
    hid_t H5LS_OF_EACH file_space_id;
    hid_t xfer_plist_id;
    void *req;
    void *h5_state;
    int id;
    hsize_t offset; /* in the mapped file */
    hsize_t size;
    void *H5LS_OF_EACH buf;
#if H5_VERSION_GE(1, 13, 3)
    struct _task_data_t *previous;
#endif
    struct _task_data_t *next;
} task_data_t;
#undef H5LS_OF_EACH

typedef struct _request_list_t {
    void *req;
    struct _request_list_t *next;
} request_list_t;

typedef struct _object_close_task_t {
    close_object_t type;
    void *obj;
    void *req;
    struct _object_close_task_t *next;
} object_close_task_t;

typedef struct _MPI_INFO {
    int rank, nproc;     /* of all */
    int local_rank, ppn; /* of those on this node */
    H5LS_mpi_comm_t comm, comm_t;
    H5LS_mpi_comm_t node_comm;
    H5LS_mpi_win_t win, win_t;
    hsize_t offset;
} H5LS_mpi_info_t;

typedef struct _IO_THREAD {
    int num_request;
    task_data_t *request_list, *current_request, *first_request, *flush_request;
    int num_fusion_requests;
    double fusion_data_size; /* bytes */
    bool batch_cached, dset_cached;
    hsize_t offset_current;
    int round;
} H5LS_io_thread_t;

typedef struct _MMAP {
    int fd;
    char fname[255];
    void *obj;
    void *buf; /* the mapped memory */
    void *tmp_buf;
    hsize_t offset;
} H5LS_mmap_t;

typedef struct _SAMPLE {
    size_t dim;  /* dimensions */
    size_t size; /* bytes */
    size_t nel;  /* elements */
} H5LS_sample_t;

typedef struct _BATCH {
    int *list; /* numbers of samples */
    int size;  /* how many */
} H5LS_batch_t;

typedef struct _DSET {
    H5LS_sample_t sample;
    size_t ns_loc, ns_glob; /* samples of this rank, and of all */
    size_t s_offset;        /* first sample of this rank */
    hsize_t size;           /* bytes of this rank */
    H5LS_batch_t batch;
    int ns_cached;
    bool contig_read;
    H5LS_mpi_datatype_t mpi_datatype;
    hid_t h5_datatype;
    size_t esize; /* bytes of an element */
} H5LS_dset_t;

typedef struct _io_handler_t {
    H5LS_mmap_t *mmap;
    H5LS_mpi_info_t *mpi;
    H5LS_io_thread_t *io;
    H5LS_dset_t dset;
    cache_t *cache;
} io_handler_t;

#ifndef H5LS_NO_SHORT_NAMES
typedef H5LS_mpi_info_t MPI_INFO;
typedef H5LS_io_thread_t IO_THREAD;
typedef H5LS_mmap_t MMAP;
typedef H5LS_sample_t SAMPLE;
typedef H5LS_batch_t BATCH;
typedef H5LS_dset_t DSET;
#endif

/* How Cache VOL stores: one table of functions for each type of storage, and one for each scope. */
typedef struct H5LS_mmap_class_t {
    char type[255];
    herr_t (*create_write_mmap)(H5LS_mmap_t *mmap, hsize_t size);
    herr_t (*remove_write_mmap)(H5LS_mmap_t *mmap, hsize_t size);
    void *(*write_buffer_to_mmap)(hid_t mem_space_id, hid_t mem_type_id, const void *buf, hsize_t size,
                                  H5LS_mmap_t *mmap);
    herr_t (*create_read_mmap)(H5LS_mmap_t *mmap, hsize_t size);
    herr_t (*remove_read_mmap)(H5LS_mmap_t *mmap, hsize_t size);
    herr_t (*removeCacheFolder)(const char *path);
} H5LS_mmap_class_t;

typedef struct H5LS_cache_io_class_t {
    char scope[255];
    herr_t (*create_cache)(void *obj, void *file_args, void **req);
    herr_t (*remove_cache)(void *file, void **req);
    herr_t (*create_file_cache)(void *obj, void *file_args, void **req);
    herr_t (*remove_file_cache)(void *file, void **req);
    herr_t (*create_group_cache)(void *obj, void *group_args, void **req);
    herr_t (*remove_group_cache)(void *obj, void **req);
    herr_t (*create_dataset_cache)(void *obj, void *dset_args, void **req);
    herr_t (*remove_dataset_cache)(void *obj, void **req);
    void *(*write_data_to_cache)(void *dset, hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id, hid_t plist_id,
                                 const void *buf, void **req);
    void *(*write_data_to_cache2)(void *dset, hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id,
                                  hid_t plist_id, const void *buf, void **req);
    herr_t (*flush_data_from_cache)(void *current_request, void **req);
    herr_t (*read_data_from_cache)(void *dset, hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id,
                                   hid_t plist_id, void *buf, void **req);
} H5LS_cache_io_class_t;

typedef struct _CacheList {
    cache_t *cache;
    void *target; /* the cached object */
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
    const H5LS_mmap_class_t *mmap_cls; /* NULL in storages of forebay */
    const H5LS_cache_io_class_t *cache_io_cls;
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

/* Makes a storage from the configuration file that HDF5_VOL_CONNECTOR names. Values that it lacks come from the
 * variables HDF5_LOCAL_STORAGE_PATH and its kin, and otherwise have defaults. An invalid value has its default in the
 * storage; until H5LSset replaces it, a file that is opened with the storage is refused. `plist`: any property list, or
 * H5P_DEFAULT; nothing is read from it. NULL: an error. The caller owns the storage: `H5LSclose`. */
cache_storage_t *H5LScreate(hid_t plist);
herr_t H5LSclose(cache_storage_t *LS);

/* Sets all values. If one is invalid, sets none, and a file that is opened with the storage is refused. `path`, a
 * directory, is copied; it may be NULL for MEMORY and GPU. The former path is freed only if H5LScreate has made the
 * storage; otherwise the program frees it. */
herr_t H5LSset(cache_storage_t *LS, const char *type, const char *path, hsize_t avail_space,
               cache_replacement_policy_t replacement);
/* `flag` TYPE or PATH: `value` points to a char *, which then points into the storage. SIZE: to an hsize_t. */
herr_t H5LSget(cache_storage_t *LS, const char *flag, void *value);
/* Reads a configuration file (docs/migrating.md); ignores unknown keys. Sets all valid values. If some are invalid,
 * returns -1, and the error names them. Frees the former path as H5LSset does. */
herr_t readLSConf(const char *fname, cache_storage_t *LS);
/* For programs that name it. forebay maps no files: each function of the table fails, with an error on HDF5's stack.
 * NULL, with an error: no such type. Static storage. */
const H5LS_mmap_class_t *get_H5LS_mmap_class_t(const char *type);
/* -1: no such policy. */
cache_replacement_policy_t get_replacement_policy_from_str(const char *str);

/* Takes `size` bytes of what is left. If there are too few, SOFT fails; HARD first removes temporal caches, in the
 * order of `replacement`, if that makes enough room. */
herr_t H5LSclaim_space(cache_storage_t *LS, hsize_t size, cache_claim_t type, cache_replacement_policy_t replacement);
/* The caller owns `cache`, and frees it only after H5LSremove_cache. It takes the space that was claimed for it. */
herr_t H5LSregister_cache(cache_storage_t *LS, cache_t *cache, void *target);
/* Frees the space that it took. No file is touched: forebay removes what it has staged by itself. */
herr_t H5LSremove_cache(cache_storage_t *LS, cache_t *cache);
herr_t H5LSremove_cache_all(cache_storage_t *LS);
herr_t H5LSrecord_cache_access(cache_t *cache);
#define H5LSregister_access_count(cache) H5LSrecord_cache_access(cache)

/* `flag` HDF5_CACHE_WR or HDF5_CACHE_RD: `value` points to a bool: whether files opened with this list are staged, or
 * read through the cache. The variables of these names are stronger. LOCAL_STORAGE: `value` is a cache_storage_t *,
 * whose values are copied now. They take effect if the first file that the process opens uses this list. */
herr_t H5Pset_fapl_cache(hid_t plist, const char *flag, void *value);
/* Gets the same values; for LOCAL_STORAGE, `value` points to a cache_storage_t *. An error if the list has none. */
herr_t H5Pget_fapl_cache(hid_t plist, const char *flag, void *value);
/* Takes the switch by value, as some examples of Cache VOL pass it. */
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
