/* The text of a Cache VOL configuration file, as src/cache_vol reads it, in C: for programs that keep a storage of
 * their own (local_storage.c). It needs no HDF5, and no locale matters. test/fuzz compares the two.
 *
 * Thread-safety: any thread. Nothing blocks, allocates or is kept. */
#ifndef FOREBAY_API_STORAGE_TEXT_H
#define FOREBAY_API_STORAGE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A longer file is none. */
enum { kForebayStorageTextMax = 1 << 20 };

/* What is found, one after the other; the later one counts. `key` has its name of today. Both end with a zero byte. */
typedef void (*forebay_take_setting)(void *into, const char *key, const char *value);

/* `text` has `size` bytes, and room for one more. It is cut into pieces. Lines that set nothing are left out. */
void forebay_read_settings(char *text, size_t size, forebay_take_setting take, void *into);

/* "137438953472", "1.37e11", "128GiB"; more than 1 PiB counts as that. False: it is no number of bytes. */
bool forebay_bytes_in(const char *text, double *bytes);

/* As if both were written in capitals. */
bool forebay_same_word(const char *one, const char *other);

#ifdef __cplusplus
}
#endif

#endif
