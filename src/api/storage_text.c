#include "storage_text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char kBlanks[] = " \t\r\n\v\f", kSeparators[] = " \t\r\n\v\f:=", kUnits[] = "KMGT";
static const double kBytesMax = 1125899906842624.0; /* 1 PiB */

static const char *const kStorageKeys[] = {"HDF5_CACHE_STORAGE_PATH",      "HDF5_CACHE_STORAGE_SIZE",
                                           "HDF5_CACHE_WRITE_BUFFER_SIZE", "HDF5_CACHE_STORAGE_TYPE",
                                           "HDF5_CACHE_STORAGE_SCOPE",     "HDF5_CACHE_REPLACEMENT_POLICY",
                                           "HDF5_CACHE_FUSION_THRESHOLD"};
static const char *const kOlderKeys[][2] = {{"HDF5_LOCAL_STORAGE_PATH", "HDF5_CACHE_STORAGE_PATH"},
                                            {"HDF5_LOCAL_STORAGE_SIZE", "HDF5_CACHE_STORAGE_SIZE"},
                                            {"HDF5_LOCAL_STORAGE_TYPE", "HDF5_CACHE_STORAGE_TYPE"},
                                            {"HDF5_LOCAL_STORAGE_SCOPE", "HDF5_CACHE_STORAGE_SCOPE"},
                                            {"HDF5_WRITE_CACHE_SIZE", "HDF5_CACHE_WRITE_BUFFER_SIZE"},
                                            {"HDF5_CACHE_REPLACEMENT", "HDF5_CACHE_REPLACEMENT_POLICY"},
                                            {"HDF5_CACHE_FUSHION_THRESHOLD", "HDF5_CACHE_FUSION_THRESHOLD"}};

/* Returns NULL if the name is no key. */
static const char *key_named(const char *name) {
    for (size_t i = 0; i < sizeof kOlderKeys / sizeof *kOlderKeys; ++i)
        if (strcmp(name, kOlderKeys[i][0]) == 0) return kOlderKeys[i][1];
    for (size_t i = 0; i < sizeof kStorageKeys / sizeof *kStorageKeys; ++i)
        if (strcmp(name, kStorageKeys[i]) == 0) return kStorageKeys[i];
    return NULL;
}

static void read_line(char *line, forebay_take_setting take, void *into) {
    line += strspn(line, kBlanks);
    if (*line == '#') return;
    char *const end = line + strcspn(line, kSeparators);
    if (*end == '\0') return;
    char *const value = end + strspn(end, kSeparators);
    value[strcspn(value, kBlanks)] = '\0';
    *end = '\0';
    const char *const key = key_named(line);
    if (key != NULL && *value != '\0') take(into, key, value);
}

void forebay_read_settings(char *text, size_t size, forebay_take_setting take, void *into) {
    char *const end = text + size;
    *end = '\0';
    while (text < end) {
        char *const found = memchr(text, '\n', (size_t)(end - text)), *const line_end = found != NULL ? found : end;
        *line_end = '\0';
        read_line(text, take, into);
        text = line_end + 1;
    }
}

static char capital(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

bool forebay_same_word(const char *one, const char *other) {
    while (*one != '\0' && capital(*one) == capital(*other)) {
        ++one;
        ++other;
    }
    return *one == *other;
}

/* Accepts a decimal number, and no text after it. */
static bool number_in(const char *text, double *number) {
    if (*text == '\0' || *text == '+' || text[strspn(text, "0123456789.eE+-")] != '\0') return false;
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) return false;
    char *end = NULL;
    errno = 0;
    *number = strtod_l(text, &end, plain);
    freelocale(plain);
    return errno == 0 && end != text && *end == '\0';
}

/* Accepts a whole number with a unit. */
static bool size_in(const char *text, double *bytes) {
    const size_t digits = strspn(text, "0123456789");
    errno = 0;
    const unsigned long long number = digits > 0 ? strtoull(text, NULL, 10) : 0;
    if (digits == 0 || errno != 0) return false;
    const char *unit = text + digits + strspn(text + digits, kBlanks);
    *bytes = (double)number;
    if (forebay_same_word(unit, "B")) return true;
    const char first = capital(*unit), *const found = first != '\0' ? strchr(kUnits, first) : NULL;
    if (found == NULL) return false;
    ++unit;
    if (*unit != '\0' && !forebay_same_word(unit, "B") && !forebay_same_word(unit, "iB")) return false;
    const int shift = 10 * (int)(found - kUnits + 1);
    if (number > (~0ull >> shift)) return false;
    *bytes = ldexp(*bytes, shift);
    return true;
}

bool forebay_bytes_in(const char *text, double *bytes) {
    double number = 0;
    if (number_in(text, &number) ? number < 0 : !size_in(text, &number)) return false;
    *bytes = number < kBytesMax ? number : kBytesMax;
    return true;
}
