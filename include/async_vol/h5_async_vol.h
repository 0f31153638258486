/* The connector `async`, for programs that name it themselves. Names are those of Async VOL. */
#ifndef FOREBAY_ASYNC_VOL_H5_ASYNC_VOL_H
#define FOREBAY_ASYNC_VOL_H5_ASYNC_VOL_H

#include <hdf5.h>

#define H5VL_ASYNC (H5VL_async_register())
#define H5VL_ASYNC_NAME "async"
#define H5VL_ASYNC_VALUE 512

/* For H5Pset_vol: the connector beneath. HDF5 copies what it points to. */
typedef struct H5VL_async_info_t {
    hid_t under_vol_id;
    void *under_vol_info; /* NULL: none */
} H5VL_async_info_t;

#ifdef __cplusplus
extern "C" {
#endif

/* The connector's identifier, which the caller closes (H5VLclose). */
hid_t H5VL_async_register(void);

#ifdef __cplusplus
}
#endif

#endif
