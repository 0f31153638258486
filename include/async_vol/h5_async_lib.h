/* Async VOL's calls for programs, in libasynchdf5.a, with its names and prototypes: programs compile and link as they
 * are. Text and functions are forebay's; docs/migrating.md describes each. All return 0, or -1 with an error on HDF5's
 * stack: a wrong identifier, or an object of another connector. They call HDF5's optional operations, so they need a
 * plugin of forebay, under any of its names. Thread-safety: as HDF5's. `H5Fwait` and `H5Dwait` block until asynchronous
 * calls on the file have ended. None is collective. */
#ifndef FOREBAY_ASYNC_VOL_H5_ASYNC_LIB_H
#define FOREBAY_ASYNC_VOL_H5_ASYNC_LIB_H

#include <hdf5.h>
#include <stdint.h>

#include "h5_async_vol.h"

#define H5VL_ASYNC_DISABLE_IMPLICIT_NAME "gov.lbl.async.disable.implicit"
#define H5VL_ASYNC_DELAY_NAME "gov.lbl.async.delay"
#define H5VL_ASYNC_PAUSE_NAME "gov.lbl.async.pause"

#ifdef __cplusplus
extern "C" {
#endif

/* Files of the access list are opened with the connector `async`, which is searched for in HDF5_PLUGIN_PATH. */
herr_t H5Pset_vol_async(hid_t fapl_id);

/* Settings of lists: kept, without effect. No call is asynchronous unless its name says so; nothing is delayed. */
herr_t H5Pset_fapl_disable_async_implicit(hid_t fapl, hbool_t is_disable);
herr_t H5Pget_fapl_disable_async_implicit(hid_t fapl, hbool_t *is_disable);
herr_t H5Pset_dxpl_disable_async_implicit(hid_t dxpl, hbool_t is_disable);
herr_t H5Pget_dxpl_disable_async_implicit(hid_t dxpl, hbool_t *is_disable);
herr_t H5Pset_dxpl_pause(hid_t dxpl, hbool_t is_pause);
herr_t H5Pget_dxpl_pause(hid_t dxpl, hbool_t *is_pause);
herr_t H5Pset_dxpl_delay(hid_t dxpl, uint64_t time_us);
herr_t H5Pget_dxpl_delay(hid_t dxpl, uint64_t *time_us);

herr_t H5Fwait(hid_t file_id, hid_t dxpl_id);
herr_t H5Dwait(hid_t dset_id, hid_t dxpl_id);
/* The drain of the file goes on, or is held back. */
herr_t H5Fstart(hid_t file_id, hid_t dxpl_id);
herr_t H5Dstart(hid_t dset_id, hid_t dxpl_id);
herr_t H5Fpause(hid_t file_id, hid_t dxpl_id);
herr_t H5Dpause(hid_t dset_id, hid_t dxpl_id);
/* Accepted: nothing is delayed. */
herr_t H5Fset_delay_time(hid_t file_id, hid_t dxpl_id, uint64_t time_us);
herr_t H5Dset_delay_time(hid_t dset_id, hid_t dxpl_id, uint64_t time_us);

/* For connectors above. Accepted: requests begin at once, and each depends on those before it. */
herr_t H5async_set_request_dep(void *request, void *parent_request);
herr_t H5async_start(void *request);

#ifdef __cplusplus
}
#endif

#endif
