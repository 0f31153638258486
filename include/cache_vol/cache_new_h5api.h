/* Cache VOL's calls for programs, in libcache_new_h5api.a, with its names and prototypes: programs compile and link as
 * they are. Text and functions are forebay's; docs/migrating.md describes each. Each function takes the place of the
 * call first (file, function, line): the macros below add it, so a program writes H5Dprefetch(dataset, space, list).
 * All return 0, or -1 with an error on HDF5's stack: a wrong identifier, or an object of another connector. They call
 * HDF5's optional operations, so they need a plugin of forebay, under the name cache_ext or forebay. The data of a file
 * are the same with and without them. `..._async` take an event set; they end before they return. Thread-safety: as
 * HDF5's. `H5Fcache_async_close_wait` and `H5Fcache_remove` block until the file has its staged bytes; reads block as
 * H5Dread. With MPI `H5Fcache_remove` is collective, and reads as the transfer list says. */
#ifndef _cache_new_h5api_H /* as in Cache VOL's own header: see H5LS.h */
#define _cache_new_h5api_H

#include <hdf5.h>

#include "H5LS.h"

#ifdef __cplusplus
extern "C" {
#endif

herr_t H5Dmmap_remap(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id);
herr_t H5Dprefetch(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id, hid_t file_space_id,
                   hid_t dxpl_id);
herr_t H5Dprefetch_async(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id,
                         hid_t file_space_id, hid_t dxpl_id, hid_t es_id);
herr_t H5Dread_to_cache(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id, hid_t mem_type_id,
                        hid_t mem_space_id, hid_t file_space_id, hid_t dxpl_id, void *buf);
herr_t H5Dread_to_cache_async(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id,
                              hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id, hid_t dxpl_id, void *buf,
                              hid_t es_id);
herr_t H5Dread_from_cache(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id,
                          hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id, hid_t dxpl_id, void *buf);
herr_t H5Dread_from_cache_async(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id,
                                hid_t mem_type_id, hid_t mem_space_id, hid_t file_space_id, hid_t dxpl_id, void *buf,
                                hid_t es_id);
herr_t H5Dcache_create(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id, const char *name);
herr_t H5Dcache_create_async(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id,
                             const char *name, hid_t es_id);
herr_t H5Dcache_remove(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id);
herr_t H5Dcache_remove_async(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id, hid_t es_id);
herr_t H5Dcache_async_op_pause(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id);
herr_t H5Dcache_async_op_start(const char *app_file, const char *app_func, unsigned app_line, hid_t dset_id);
herr_t H5Fcache_create(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id, hid_t fapl_id,
                       hsize_t size, cache_purpose_t purpose, cache_duration_t duration);
herr_t H5Fcache_create_async(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id,
                             hid_t fapl_id, hsize_t size, cache_purpose_t purpose, cache_duration_t duration,
                             hid_t es_id);
herr_t H5Fcache_remove(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id);
herr_t H5Fcache_remove_async(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id, hid_t es_id);
herr_t H5Freserve_cache(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id, hid_t dxpl_id,
                        hsize_t size, cache_purpose_t purpose, cache_duration_t duration);
herr_t H5Fquery_cache(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id, hid_t dxpl_id,
                      hsize_t *size);
herr_t H5Fcache_async_op_pause(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id);
herr_t H5Fcache_async_op_start(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id);
herr_t H5Fasync_pause(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id);
herr_t H5Fasync_start(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id);
herr_t H5Fcache_async_close_set(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id);
herr_t H5Fcache_async_close_wait(const char *app_file, const char *app_func, unsigned app_line, hid_t file_id);

#ifdef __cplusplus
}
#endif

#ifndef NEW_H5API_IMPL
#define H5Dmmap_remap(...) H5Dmmap_remap(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dprefetch(...) H5Dprefetch(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dprefetch_async(...) H5Dprefetch_async(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dread_to_cache(...) H5Dread_to_cache(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dread_to_cache_async(...) H5Dread_to_cache_async(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dread_from_cache(...) H5Dread_from_cache(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dread_from_cache_async(...) H5Dread_from_cache_async(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dcache_create(...) H5Dcache_create(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dcache_create_async(...) H5Dcache_create_async(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dcache_remove(...) H5Dcache_remove(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dcache_remove_async(...) H5Dcache_remove_async(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dcache_async_op_pause(...) H5Dcache_async_op_pause(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Dcache_async_op_start(...) H5Dcache_async_op_start(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fcache_create(...) H5Fcache_create(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fcache_create_async(...) H5Fcache_create_async(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fcache_remove(...) H5Fcache_remove(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fcache_remove_async(...) H5Fcache_remove_async(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Freserve_cache(...) H5Freserve_cache(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fquery_cache(...) H5Fquery_cache(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fcache_async_op_pause(...) H5Fcache_async_op_pause(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fcache_async_op_start(...) H5Fcache_async_op_start(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fasync_pause(...) H5Fasync_pause(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fasync_start(...) H5Fasync_start(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fcache_async_close_set(...) H5Fcache_async_close_set(__FILE__, __func__, __LINE__, __VA_ARGS__)
#define H5Fcache_async_close_wait(...) H5Fcache_async_close_wait(__FILE__, __func__, __LINE__, __VA_ARGS__)
#endif

#endif
