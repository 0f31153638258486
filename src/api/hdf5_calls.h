/* The HDF5 functions for these files. The static library is linked with the program's HDF5. The plugin has these
 * calls too, for programs that were linked with Cache VOL's plugin. It is linked with no HDF5 and looks the
 * functions up. */
#ifndef FOREBAY_API_HDF5_CALLS_H
#define FOREBAY_API_HDF5_CALLS_H

#include <hdf5.h>

#ifdef FOREBAY_IN_PLUGIN

#include <dlfcn.h>

#define FOREBAY_CALL(name) ((__typeof__(&name))dlsym(RTLD_DEFAULT, #name))
#define FOREBAY_ID(name) (*(const hid_t *)dlsym(RTLD_DEFAULT, #name))
/* Initialises HDF5. Returns a negative value if the program has no HDF5. */
static inline herr_t forebay_open_hdf5(void) {
    herr_t (*open)(void) = (herr_t(*)(void))dlsym(RTLD_DEFAULT, "H5open");
    return open != NULL ? open() : -1;
}

#else

#define FOREBAY_CALL(name) name
#define FOREBAY_ID(name) (name)
static inline herr_t forebay_open_hdf5(void) { return H5open(); }

#endif

/* Returns -1, with a message on HDF5's error stack. */
#define FOREBAY_FAIL(minor, text)                                                                        \
    (forebay_open_hdf5() < 0                                                                             \
         ? -1                                                                                            \
         : (FOREBAY_CALL(H5Epush2)(H5E_DEFAULT, __FILE__, __func__, __LINE__, FOREBAY_ID(H5E_ERR_CLS_g), \
                                   FOREBAY_ID(H5E_ARGS_g), FOREBAY_ID(minor), "%s", text),               \
            -1))

#endif
