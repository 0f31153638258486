// The functions of xxHash, compiled into forebay, as its header offers it ("Build modifiers").
#define XXH_STATIC_LINKING_ONLY
#define XXH_IMPLEMENTATION
#include <xxhash.h>

// Returns XXH3_64bits of these bytes, with the widest registers of this processor.
unsigned long long forebay_xxh3(const void* bytes, size_t size);

#ifdef FOREBAY_XXH3_AVX2
unsigned long long forebay_xxh3_wide(const void* bytes, size_t size);   // xxhash_wide.c

unsigned long long forebay_xxh3(const void* bytes, size_t size) {
    return __builtin_cpu_supports("avx2") ? forebay_xxh3_wide(bytes, size) : XXH3_64bits(bytes, size);
}
#else
unsigned long long forebay_xxh3(const void* bytes, size_t size) { return XXH3_64bits(bytes, size); }
#endif
