/* What a program may ask forebay for, beside HDF5: the read cache of a file that it has open, and what was counted.
 *
 * These functions are in the plugin, libforebay_vol.so, that HDF5 has loaded: find them with dlsym, on the handle that
 * dlopen gives for the plugin's path. They need neither HDF5 nor MPI. Files are named by a path that leads to them;
 * what counts is the file, so it may be another path than the one that was given to HDF5. The file must be open,
 * read-only, in this process; a file that is open with another copy of libhdf5 than the plugin's first one is not
 * found.
 *
 * Thread-safety: all of them, from any thread. Fork: in a child, files that the parent had opened are not found.
 * docs/read-cache.md.
 */
#ifndef FOREBAY_FOREBAY_H
#define FOREBAY_FOREBAY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fetches `count` ranges of the file, of `lengths[i]` bytes from `offsets[i]` on, into the read cache: in this order,
 * after those of earlier calls, in the background, as far as they are not there. `count` 0: the whole file. Ranges
 * beyond the end of the file are cut. Does not wait for the file.
 *
 * Returns 0, or an error number: ENOENT, the file is not open; ENOTSUP, it is not read through the cache; EAGAIN, too
 * many ranges wait already, and none of these was taken; EINVAL, an array is missing; ENOMEM; EIO, anything else that
 * failed; or one of stat(2). */
int forebay_prefetch(const char* path, uint64_t count, const uint64_t* offsets, const uint64_t* lengths);

/* How many of those bytes have not been seen to yet, and how many of those that were read are still on their way into
 * the cache: the progress of a prefetch. 0 too once nothing more can be stored. -1: the file is not open, or not read
 * through the cache. */
int64_t forebay_prefetch_left(const char* path);

/* Drops what has not begun. Returns as `forebay_prefetch`. */
int forebay_prefetch_cancel(const char* path);

/* Writes the process's line of statistics as of now (docs/statistics.md), with a zero byte at its end, into `size`
 * bytes at `into`; what does not fit is left out. Returns its length without the zero byte, which may be more than
 * fits; 0 if nothing was opened yet, -1 if there is no memory. */
int64_t forebay_statistics(char* into, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
