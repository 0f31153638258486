/* Calls of a program to forebay, beside HDF5. All are advice: a file's data are the same with and without them. Every
 * function returns 0, or -1 with errno set. Results go to where the last arguments point, and are not touched on
 * failure. Functions that take an identifier leave a message on HDF5's error stack as well. The values of errno:
 *
 *   ENOSYS   forebay is not loaded in this process
 *   EINVAL   an argument is wrong: a null pointer, an identifier of no open object, one that was not opened through
 *            forebay, a row that the dataset does not have
 *   ENOENT   by path: no such file, or this process does not have it open through forebay
 *   ENOTSUP  the file is not read through the cache, or has a driver that forebay leaves alone
 *   EAGAIN   too many ranges wait already, or there is no room for them; none of these was taken
 *   ENOMEM   out of memory
 *   other    the operating system's error; EIO if it gave none
 *
 * A name is forebay_OBJECT_ACTION, without OBJECT for the process. The functions are in libforebay.a, which is linked
 * with the program's HDF5. The plugin, libforebay_vol.so, also has the functions by path and those of the process.
 * Programs without libforebay.a find them with dlsym, on the handle that dlopen gives for the plugin's path. Fork: a
 * child does not find the files by path that its parent has opened. */
#ifndef FOREBAY_FOREBAY_H
#define FOREBAY_FOREBAY_H

#include <stdint.h>

#include "forebay/version.h" /* FOREBAY_VERSION_MAJOR, _MINOR, _PATCH: of these headers */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The process. Thread-safety: any thread. Nothing blocks. ---- */

/* The version of the plugin that is loaded, which may be another one than that of the headers. */
int forebay_version(unsigned *major, unsigned *minor, unsigned *patch);

/* After `forebay_pause` the process neither stages nor caches files that it opens, and counts them with the reason
 * `paused`. It must call `forebay_resume` as often. Open files stay as they are, also where they are opened again. With
 * MPI, no rank stages a file if one of them has paused. EINVAL: the process is not paused. */
int forebay_pause(void);
int forebay_resume(void);

/* Writes the process's statistics (docs/statistics.md) to `into` as one JSON object, with a zero byte at its end, cut
 * to `size` bytes. `length` receives the length of the whole object without the zero byte, or 0 if nothing was opened
 * yet; it may be null. With several HDF5 libraries, the first one that found the plugin answers. */
int forebay_statistics(char *into, uint64_t size, uint64_t *length);

/* ---- By identifier ---- `file` and `dataset` are identifiers of HDF5 (hid_t) of open objects. Each function is one of
 * HDF5's optional operations (forebay/operations.h). Thread-safety: as HDF5's. With MPI none is collective.
 * `forebay_file_wait_durable` blocks; prefetching a chunked dataset reads its chunk index. */

/* Pauses the file's drain until `forebay_file_resume_drain`. A call that needs room in the log or waits for the file
 * (close, flush with option flush=drain, forebay_file_wait_durable) ends the pause. With MPI the lowest rank of each
 * node decides, and files of several nodes go on draining. */
int forebay_file_pause_drain(int64_t file);
int forebay_file_resume_drain(int64_t file);

/* Waits until all flushed bytes (H5Fflush) are in the file itself, and on its device (fsync). Also waits for later
 * writes that may drain before the next flush, but for no others: a crash leaves the last flush whole. If ranks of
 * one node share the file, it drains all bytes: a crash before the next flush may leave the file between two flushes.
 */
int forebay_file_wait_durable(int64_t file);

/* Fetches `count` ranges of the file, of `lengths[i]` bytes from `offsets[i]` on, or a part of a dataset, into the read
 * cache. It does so in the background, in this order, after earlier requests, and skips bytes that are there. `count`
 * 0: the whole file. Ranges beyond the end of the file are cut. `file_space`: H5S_ALL (0), or a selection. */
int forebay_file_prefetch(int64_t file, uint64_t count, const uint64_t *offsets, const uint64_t *lengths);
int forebay_dataset_prefetch(int64_t dataset, int64_t file_space);
/* Fetches the rows of the dataset (its first axis) in this order, in which the program is going to read them. Rows may
 * come more than once. Call it for each part of a long order. */
int forebay_dataset_follow(int64_t dataset, uint64_t count, const uint64_t *rows);
/* `bytes`: requested bytes not looked at yet, or not in the cache yet. 0 also once the cache can store nothing more. */
int forebay_file_prefetch_left(int64_t file, uint64_t *bytes);
/* Drops the requests that have not begun. */
int forebay_file_prefetch_cancel(int64_t file);

/* A pinned file stays in a full read cache, also when no process has the file open. `on` 0: unpins it. */
int forebay_file_pin(int64_t file, int on);
/* Removes the file's bytes from the read cache, pinned or not, except those that another process is storing. `bytes`
 * receives how many were removed; it may be null. */
int forebay_file_evict(int64_t file, uint64_t *bytes);

/* Writes the statistics of the file; arguments as of `forebay_statistics`. */
int forebay_file_statistics(int64_t file, char *into, uint64_t size, uint64_t *length);

/* ---- By path ---- For a file that the path leads to, which may be another path than the one that HDF5 was given. The
 * file must be open, read-only, in this process, with any copy of libhdf5 that it has. These functions need neither
 * HDF5 nor MPI, and do not wait for the file. Thread-safety: any thread. */
int forebay_path_prefetch(const char *path, uint64_t count, const uint64_t *offsets, const uint64_t *lengths);
int forebay_path_prefetch_left(const char *path, uint64_t *bytes);
int forebay_path_prefetch_cancel(const char *path);

#ifdef __cplusplus
}
#endif

#endif
