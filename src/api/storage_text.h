/* Reads the text of a Cache VOL configuration file like src/cache_vol does, but in C, for programs with a storage of
 * their own (local_storage.c). It needs no HDF5, and ignores the locale. test/fuzz compares the two readers.
 * Thread-safety: any thread. Does not block, allocate or keep state. */
#ifndef FOREBAY_API_STORAGE_TEXT_H
#define FOREBAY_API_STORAGE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the longest file that counts as a configuration. */
enum { kForebayStorageTextMax = 1 << 20 };

/* Called for each setting in order; a later one overrides. `key` has its name of today. Both end with a zero byte. */
typedef void (*forebay_take_setting)(void *into, const char *key, const char *value);

/* `text` has `size` bytes and room for one more; the call cuts it into pieces. Lines without a setting are skipped. */
void forebay_read_settings(char *text, size_t size, forebay_take_setting take, void *into);

/* Accepts "137438953472", "1.37e11", "128GiB"; caps at 1 PiB. Returns false if the text is no number of bytes. */
bool forebay_bytes_in(const char *text, double *bytes);

/* Compares two words, ignoring case. */
bool forebay_same_word(const char *one, const char *other);

#ifdef __cplusplus
}
#endif

#endif
