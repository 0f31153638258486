/* The connector `cache_ext`, for programs that name it themselves. Names and layouts are those of Cache VOL; the
 * functions are forebay's, in libcache_new_h5api.a. */
#ifndef _H5VLcache_ext_H /* as in Cache VOL's own header: see H5LS.h */
#define _H5VLcache_ext_H

#include <hdf5.h>

#include "H5LS.h"

#define H5VL_CACHE_EXT (H5VL_cache_ext_register())
#define H5VL_CACHE_EXT_NAME "cache_ext"
#define H5VL_CACHE_EXT_VALUE 513

/* For H5Pset_vol: the connector beneath, and the configuration file. HDF5 copies it, and what its pointers point to. */
typedef struct H5VL_cache_ext_info_t {
    hid_t under_vol_id;
    void *under_vol_info; /* NULL: none */
    char fconfig[255];
} H5VL_cache_ext_info_t;

/* An object of Cache VOL's connector: programs that name the type compile. forebay's objects have another layout. */
typedef struct H5VL_cache_ext_t {
    hid_t under_vol_id;
    void *under_object;
    io_handler_t *H5DRMM, *H5DWMM; /* for reading, for writing */
    bool async_pause, async_close, async_under;
    bool read_cache, write_cache;
    bool cache_created;
    int num_request_dataset;
    void *prefetch_req;
    hid_t hd_glob;
    object_close_task_t *async_close_task_list, *async_close_task_current, *async_close_task_head;
    hid_t es_id;
    void *parent;
    cache_storage_t *H5LS;
    H5I_type_t obj_type;
} H5VL_cache_ext_t;

#ifdef __cplusplus
extern "C" {
#endif

/* The connector's identifier, which the caller closes (H5VLclose); the plugin is searched for in HDF5_PLUGIN_PATH. */
hid_t H5VL_cache_ext_register(void);

/* Closing a dataset or a group never waits for the drain, so async_close_start and set_close_async do nothing.
 * async_close_wait waits until the staged bytes of every open file are in that file. */
herr_t async_close_start(void);
herr_t async_close_wait(void);
herr_t set_close_async(hbool_t on);

#ifdef __cplusplus
}
#endif

#endif
