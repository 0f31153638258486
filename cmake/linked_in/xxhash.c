// The functions of xxHash, compiled into forebay, as its header offers it ("Build modifiers").
#define XXH_STATIC_LINKING_ONLY
#define XXH_IMPLEMENTATION
#include <xxhash.h>
