/* Preloaded into an MPI program: sees which thread calls MPI. At its end each process says on standard error
 *
 *   thread_witness: N calls by forebay, M by other threads than the first
 *
 * A program that calls MPI_Init may use MPI from its first thread alone. The functions below are those that forebay's
 * library for MPI uses (test_parallel_threads.py compares the lists); calls of the program and of HDF5 to them are
 * looked at too, and only not counted as forebay's. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_ulong by_forebay, by_others;

static void see(const void *caller) {
    Dl_info whose;
    if (dladdr(caller, &whose) != 0 && whose.dli_fname != NULL && strstr(whose.dli_fname, "libforebay_mpi") != NULL)
        atomic_fetch_add(&by_forebay, 1);
    if (syscall(SYS_gettid) != getpid()) atomic_fetch_add(&by_others, 1);
}

__attribute__((destructor)) static void say(void) {
    if (atomic_load(&by_forebay) + atomic_load(&by_others) > 0)
        fprintf(stderr, "thread_witness: %lu calls by forebay, %lu by other threads than the first\n",
                atomic_load(&by_forebay), atomic_load(&by_others));
}

#define SEE(name, parameters, arguments)                               \
    __attribute__((visibility("default"))) int MPI_##name parameters { \
        see(__builtin_return_address(0));                              \
        return PMPI_##name arguments;                                  \
    }

SEE(Allgather, (const void *from, int sent, MPI_Datatype type, void *to, int received, MPI_Datatype of, MPI_Comm all),
    (from, sent, type, to, received, of, all))
SEE(Allgatherv,
    (const void *from, int sent, MPI_Datatype type, void *to, const int counts[], const int places[], MPI_Datatype of,
     MPI_Comm all),
    (from, sent, type, to, counts, places, of, all))
SEE(Allreduce, (const void *from, void *to, int count, MPI_Datatype type, MPI_Op how, MPI_Comm all),
    (from, to, count, type, how, all))
SEE(Barrier, (MPI_Comm all), (all))
SEE(Bcast, (void *bytes, int count, MPI_Datatype type, int from, MPI_Comm all), (bytes, count, type, from, all))
SEE(Comm_create_keyval, (MPI_Comm_copy_attr_function * copy, MPI_Comm_delete_attr_function *end, int *key, void *more),
    (copy, end, key, more))
SEE(Comm_set_attr, (MPI_Comm all, int key, void *value), (all, key, value))
SEE(Comm_free, (MPI_Comm * all), (all))
SEE(Comm_rank, (MPI_Comm all, int *rank), (all, rank))
SEE(Comm_set_errhandler, (MPI_Comm all, MPI_Errhandler handler), (all, handler))
SEE(Comm_size, (MPI_Comm all, int *size), (all, size))
SEE(Comm_group, (MPI_Comm all, MPI_Group *group), (all, group))
SEE(Error_string, (int code, char *text, int *length), (code, text, length))
SEE(Finalized, (int *yes), (yes))
SEE(Get, (void *to, int count, MPI_Datatype type, int rank, MPI_Aint at, int there, MPI_Datatype of, MPI_Win window),
    (to, count, type, rank, at, there, of, window))
SEE(Group_free, (MPI_Group * group), (group))
SEE(Group_rank, (MPI_Group group, int *rank), (group, rank))
SEE(Group_size, (MPI_Group group, int *size), (group, size))
SEE(Group_translate_ranks, (MPI_Group from, int count, const int ranks[], MPI_Group to, int found[]),
    (from, count, ranks, to, found))
SEE(Info_create, (MPI_Info * info), (info))
SEE(Info_free, (MPI_Info * info), (info))
SEE(Initialized, (int *yes), (yes))
SEE(Iprobe, (int from, int tag, MPI_Comm all, int *found, MPI_Status *status), (from, tag, all, found, status))
SEE(Raccumulate,
    (const void *from, int count, MPI_Datatype type, int rank, MPI_Aint at, int there, MPI_Datatype of, MPI_Op how,
     MPI_Win window, MPI_Request *request),
    (from, count, type, rank, at, there, of, how, window, request))
SEE(Rget,
    (void *to, int count, MPI_Datatype type, int rank, MPI_Aint at, int there, MPI_Datatype of, MPI_Win window,
     MPI_Request *request),
    (to, count, type, rank, at, there, of, window, request))
SEE(Rget_accumulate,
    (const void *from, int count, MPI_Datatype type, void *to, int got, MPI_Datatype as, int rank, MPI_Aint at,
     int there, MPI_Datatype of, MPI_Op how, MPI_Win window, MPI_Request *request),
    (from, count, type, to, got, as, rank, at, there, of, how, window, request))
SEE(Testall, (int count, MPI_Request requests[], int *done, MPI_Status statuses[]), (count, requests, done, statuses))
SEE(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]), (count, requests, statuses))
SEE(Win_allocate, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm all, void *base, MPI_Win *window),
    (size, unit, info, all, base, window))
SEE(Win_get_attr, (MPI_Win window, int key, void *value, int *known), (window, key, value, known))
SEE(Win_sync, (MPI_Win window), (window))
SEE(Win_create, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm all, MPI_Win *window),
    (base, size, unit, info, all, window))
SEE(Win_flush, (int rank, MPI_Win window), (rank, window))
SEE(Win_free, (MPI_Win * window), (window))
SEE(Win_lock_all, (int assertion, MPI_Win window), (assertion, window))
SEE(Win_set_errhandler, (MPI_Win window, MPI_Errhandler handler), (window, handler))
SEE(Win_unlock_all, (MPI_Win window), (window))
