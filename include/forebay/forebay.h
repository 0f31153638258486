/* What a program may ask forebay for, beside HDF5: the drain and the read cache of a file that it has open, and what
 * was counted. All of it is advice: the data of a file are the same with and without.
 *
 * There are two groups. Those that take identifiers are for programs that link libforebay.a, and HDF5. Those that take
 * a path are for programs that link neither.
 */
#ifndef FOREBAY_FOREBAY_H
#define FOREBAY_FOREBAY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- by identifier -----------------------------------------------------------------------------------
 *
 * `file` and `dataset` are identifiers of HDF5 (hid_t) of objects that are open. All functions return 0, or -1 with an
 * error on HDF5's stack: a wrong identifier; an object that is not opened through forebay; or what each says. They are
 * HDF5's optional operations (operations.h). Thread-safety: as HDF5's. With MPI none is collective. Blocking:
 * `forebay_wait_durable`; prefetching a chunked dataset reads its chunk index.
 */

/* Nothing of the file drains until `forebay_start`. Whoever needs room in the log, or waits for the file (close, flush
 * with option flush=drain, forebay_wait_durable), ends that. With MPI the lowest rank of each node decides, and files
 * of several nodes go on draining. */
int forebay_pause(int64_t file);
int forebay_start(int64_t file);

/* Waits until what was flushed (H5Fflush) is in the file itself, and on its device (fsync). What was written since the
 * last flush is as well, as far as it may be: what has to wait for the next flush, so that a crash leaves the last one
 * whole, is not. */
int forebay_wait_durable(int64_t file);

/* Fetches a part of a file, or of a dataset, into the read cache, in the background, after what was asked for before.
 * `count` 0: the whole file. `file_space`: H5S_ALL (0), or a selection. An error too: the file is not read through the
 * cache; too many ranges wait already. */
int forebay_prefetch_file(int64_t file, uint64_t count, const uint64_t *offsets, const uint64_t *lengths);
int forebay_prefetch_dataset(int64_t dataset, int64_t file_space);
/* The dataset is going to be read row by row (its first axis) in this order: fetches the rows in that order. Rows may
 * come more than once. Call it for each part of a long order. Errors as above; a row that the dataset does not have. */
int forebay_follow(int64_t dataset, uint64_t count, const uint64_t *rows);
/* How many bytes are still to come; 0 too where nothing more can be stored. */
int forebay_prefetch_left_of(int64_t file, uint64_t *bytes);
int forebay_prefetch_cancel_of(int64_t file);

/* A pinned file stays in the read cache when that is full, also when nobody has it open. `on` 0: no longer. */
int forebay_pin(int64_t file, int on);
/* Removes what the read cache has of the file, pinned or not; what somebody is just storing stays. `bytes` may be
 * null. */
int forebay_evict(int64_t file, uint64_t *bytes);

/* What was counted of the file, as one JSON object with a zero byte at its end (docs/statistics.md), into `size` bytes
 * at `into`; what does not fit is left out. `length`: of all of it, without the zero byte. */
int forebay_file_statistics(int64_t file, char *into, uint64_t size, uint64_t *length);

/* ---- by path -----------------------------------------------------------------------------------------
 *
 * These functions are in the plugin, libforebay_vol.so, that HDF5 has loaded: find them with dlsym, on the handle that
 * dlopen gives for the plugin's path. They need neither HDF5 nor MPI. Files are named by a path that leads to them;
 * what counts is the file, so it may be another path than the one that was given to HDF5. The file must be open,
 * read-only, in this process, with any copy of libhdf5 that it has.
 *
 * Thread-safety: all of them, from any thread. Fork: in a child, files that the parent had opened are not found.
 * docs/read-cache.md.
 */

/* Fetches `count` ranges of the file, of `lengths[i]` bytes from `offsets[i]` on, into the read cache: in this order,
 * after those of earlier calls, in the background, as far as they are not there. `count` 0: the whole file. Ranges
 * beyond the end of the file are cut. Does not wait for the file.
 *
 * Returns 0, or an error number: ENOENT, the file is not open; ENOTSUP, it is not read through the cache; EAGAIN, too
 * many ranges wait already, and none of these was taken; EINVAL, an array is missing; ENOMEM; EIO, anything else that
 * failed; or one of stat(2). */
int forebay_prefetch(const char *path, uint64_t count, const uint64_t *offsets, const uint64_t *lengths);

/* How many of those bytes have not been seen to yet, and how many of those that were read are still on their way into
 * the cache: the progress of a prefetch. 0 too once nothing more can be stored. -1: the file is not open, or not read
 * through the cache. */
int64_t forebay_prefetch_left(const char *path);

/* Drops what has not begun. Returns as `forebay_prefetch`. */
int forebay_prefetch_cancel(const char *path);

/* Writes the line of statistics of the files of the first libhdf5 that found the plugin, as of now
 * (docs/statistics.md), with a zero byte at its end, into `size` bytes at `into`; what does not fit is left out.
 * Returns its length without the zero byte, which may be more than fits; 0 if nothing was opened yet, -1 if there is no
 * memory. */
int64_t forebay_statistics(char *into, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
