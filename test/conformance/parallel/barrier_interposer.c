/* Preloaded into a program whose ranks all take part in every collective HDF5 call: all ranks meet after each of them.
 *
 * HDF5's ranks usually run ahead of each other, which hides calls in which one rank waits for what another has not come
 * to yet, and calls that are ordered by chance only. With a meeting after each collective call, the first kind hangs
 * and the second goes wrong reliably. The ranks meet on a communicator of this library's own, so that no message of the
 * program's is touched. Transfers are counted as collective when their transfer list says so. */
#include <dlfcn.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

static void *next_of(const char *name) {
    void *next = dlsym(RTLD_NEXT, name);
    if (next == NULL) {
        fprintf(stderr, "barrier_interposer: no %s\n", name);
        abort();
    }
    return next;
}

static void meet(void) {
    static MPI_Comm meeting = MPI_COMM_NULL;
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (!begun || ended) return;
    if (meeting == MPI_COMM_NULL) MPI_Comm_dup(MPI_COMM_WORLD, &meeting);
    MPI_Barrier(meeting);
}

/* Only what goes through mpio is collective. */
static int shared(hid_t object) {
    int yes = 0;
    H5E_BEGIN_TRY {
        const hid_t file = H5Iget_file_id(object), access = file < 0 ? H5I_INVALID_HID : H5Fget_access_plist(file);
        yes = access >= 0 && H5Pget_driver(access) == H5FD_MPIO;
        if (access >= 0) H5Pclose(access);
        if (file >= 0) H5Idec_ref(file); /* H5Fclose is this library's own */
    }
    H5E_END_TRY
    return yes;
}

static int shared_list(hid_t access) {
    return access > 0 && access != H5P_DEFAULT && H5Pget_driver(access) == H5FD_MPIO;
}

static int collective(hid_t list) {
    H5FD_mpio_xfer_t mode = H5FD_MPIO_INDEPENDENT;
    return list != H5P_DEFAULT && H5Pget_dxpl_mpio(list, &mode) >= 0 && mode == H5FD_MPIO_COLLECTIVE;
}

/* The function of this name, which calls HDF5's and lets the ranks meet afterwards if `when`, looked at before. */
#define AFTER(type, name, parameters, arguments, when)      \
    EXPORTED type name parameters {                         \
        static type(*next) parameters;                      \
        if (next == NULL) *(void **)&next = next_of(#name); \
        const int together = (when);                        \
        const type result = next arguments;                 \
        if (together) meet();                               \
        return result;                                      \
    }

AFTER(hid_t, H5Fcreate, (const char *name, unsigned flags, hid_t creation, hid_t access),
      (name, flags, creation, access), shared_list(access))
AFTER(hid_t, H5Fopen, (const char *name, unsigned flags, hid_t access), (name, flags, access), shared_list(access))
AFTER(herr_t, H5Fclose, (hid_t file), (file), shared(file))
AFTER(herr_t, H5Fflush, (hid_t object, H5F_scope_t scope), (object, scope), shared(object))
AFTER(herr_t, H5Fset_mpi_atomicity, (hid_t file, hbool_t atomic), (file, atomic), shared(file))
AFTER(hid_t, H5Gcreate2, (hid_t at, const char *name, hid_t links, hid_t creation, hid_t access),
      (at, name, links, creation, access), shared(at))
AFTER(hid_t, H5Dcreate2,
      (hid_t at, const char *name, hid_t type, hid_t space, hid_t links, hid_t creation, hid_t access),
      (at, name, type, space, links, creation, access), shared(at))
AFTER(herr_t, H5Dclose, (hid_t dataset), (dataset), shared(dataset))
AFTER(herr_t, H5Dset_extent, (hid_t dataset, const hsize_t extents[]), (dataset, extents), shared(dataset))
AFTER(herr_t, H5Dwrite, (hid_t dataset, hid_t type, hid_t memory, hid_t space, hid_t list, const void *buffer),
      (dataset, type, memory, space, list, buffer), collective(list) && shared(dataset))
AFTER(herr_t, H5Dread, (hid_t dataset, hid_t type, hid_t memory, hid_t space, hid_t list, void *buffer),
      (dataset, type, memory, space, list, buffer), collective(list) && shared(dataset))
AFTER(herr_t, H5Dwrite_multi,
      (size_t count, hid_t datasets[], hid_t types[], hid_t memories[], hid_t spaces[], hid_t list,
       const void *buffers[]),
      (count, datasets, types, memories, spaces, list, buffers), count > 0 && collective(list) && shared(datasets[0]))
AFTER(herr_t, H5Dread_multi,
      (size_t count, hid_t datasets[], hid_t types[], hid_t memories[], hid_t spaces[], hid_t list, void *buffers[]),
      (count, datasets, types, memories, spaces, list, buffers), count > 0 && collective(list) && shared(datasets[0]))
AFTER(hid_t, H5Acreate2, (hid_t at, const char *name, hid_t type, hid_t space, hid_t creation, hid_t access),
      (at, name, type, space, creation, access), shared(at))
AFTER(herr_t, H5Awrite, (hid_t attribute, hid_t type, const void *buffer), (attribute, type, buffer), shared(attribute))
AFTER(herr_t, H5Adelete, (hid_t at, const char *name), (at, name), shared(at))
AFTER(herr_t, H5Ldelete, (hid_t at, const char *name, hid_t access), (at, name, access), shared(at))
