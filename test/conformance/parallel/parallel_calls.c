/* Calls of parallel HDF5 that are about more than one thing, or that not all ranks make.
 *
 *   mpiexec -n RANKS parallel_calls PART [PART ...]
 *
 * The parts are multi, nested, closed, rejected, external, alone, bad-space and strategies. Each begins with the line
 * "part PART". Prints what each call returned, and how many values were wrong, over all ranks: the same lines must come
 * natively and with forebay (but for bad-space, which hangs natively). Files are made in the current folder. Ends with
 * 1 if something failed that must not. */
#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { kExitFailure = 1, kExitUsage = 2 };
enum { kValues = 4096, kMost = 4 };

static int rank, ranks, status;

/* HDF5 stamps objects with the time: the same at each run, between MPI_Init and MPI_Finalize, which wait for time to
 * pass. */
static int clock_stands_still;
__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec real = {.tv_sec = 1700000000};
    if (!clock_stands_still) clock_gettime(CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec;
    now->tv_usec = real.tv_nsec / 1000;
    return 0;
}

#define OK(call) ok(#call, (int64_t)(call))
static hid_t ok(const char *what, int64_t result) {
    if (result < 0) {
        fprintf(stderr, "rank %d: %s failed\n", rank, what);
        status = kExitFailure;
    }
    return (hid_t)result;
}

/* The result of a call that may fail, without what HDF5 prints about it. */
#define TRIED(call)                                                  \
    (H5Eset_auto2(H5E_DEFAULT, NULL, NULL), tried = (int64_t)(call), \
     H5Eset_auto2(H5E_DEFAULT, (H5E_auto2_t)H5Eprint2, stderr), tried < 0 ? -1 : 0)
static int64_t tried;

static void meet(void) { MPI_Barrier(MPI_COMM_WORLD); }

/* Rank 0 prints what each rank has got. */
static void tell(const char *what, int mine) {
    int all[64];
    MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank != 0) return;
    printf("%s:", what);
    for (int i = 0; i < ranks; ++i) printf(" %d", all[i]);
    printf("\n");
    fflush(stdout);
}

static hid_t access_list(void) {
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    OK(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL));
    return list;
}
static hid_t create_file(const char *name) {
    const hid_t list = access_list(), file = OK(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list));
    OK(H5Pclose(list));
    return file;
}
static hid_t transfer_list(int collective, int selection_mode) {
    const hid_t list = H5Pcreate(H5P_DATASET_XFER);
    OK(H5Pset_dxpl_mpio(list, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT));
    if (selection_mode > 0)
        OK(H5Pset_selection_io(list, selection_mode == 1 ? H5D_SELECTION_IO_MODE_OFF : H5D_SELECTION_IO_MODE_ON));
    return list;
}

/* ---- multi ---- */

/* u contiguous, c chunked, z filtered, k compact, x external, t converted, r converted on the last rank only,
 * n nothing on the last rank, s the second part of the dataset before it */
static hid_t create_kind(hid_t file, char kind, int number) {
    const hsize_t size = kValues, chunk = kValues / 8;
    char name[8], raw[32];
    snprintf(name, sizeof name, "%c%d", kind, number);
    snprintf(raw, sizeof raw, "raw%d", number);
    const hid_t space = H5Screate_simple(1, &size, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
    if (kind == 'c' || kind == 'z') OK(H5Pset_chunk(list, 1, &chunk));
    if (kind == 'z') OK(H5Pset_deflate(list, 4));
    if (kind == 'k') OK(H5Pset_layout(list, H5D_COMPACT));
    if (kind == 'x') OK(H5Pset_external(list, raw, 0, H5F_UNLIMITED));
    const hid_t made = OK(H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT));
    OK(H5Pclose(list));
    OK(H5Sclose(space));
    return made;
}

static int value_of(int number, hsize_t at) { return (int)at * 7 + number * 100000 + 1; }

static void multi(const char *kinds, int collective, int selection_mode) {
    static double storage[kMost][kValues];
    const size_t count = strlen(kinds);
    const hsize_t size = kValues, part = kValues / (hsize_t)ranks;
    hid_t datasets[kMost], types[kMost], memory[kMost], file_spaces[kMost];
    const void *from[kMost];
    void *into[kMost];
    char line[64];
    const hid_t file = create_file("multi.h5"), list = transfer_list(collective, selection_mode);
    hsize_t begins[kMost], counts[kMost];
    for (size_t i = 0; i < count; ++i) {
        const int halves = kinds[i] == 's' || (i + 1 < count && kinds[i + 1] == 's');
        begins[i] = (hsize_t)rank * part + (kinds[i] == 's' ? part / 2 : 0);
        counts[i] = halves ? part / 2 : part;
        datasets[i] = kinds[i] == 's' ? datasets[i - 1] : create_kind(file, kinds[i], (int)i);
        types[i] = kinds[i] == 't' || (kinds[i] == 'r' && rank == ranks - 1) ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT;
        memory[i] = H5Screate_simple(1, &counts[i], NULL);
        file_spaces[i] = H5Screate_simple(1, &size, NULL);
        OK(H5Sselect_hyperslab(file_spaces[i], H5S_SELECT_SET, &begins[i], NULL, &counts[i], NULL));
        if (kinds[i] == 'n' && rank == ranks - 1) {
            OK(H5Sselect_none(memory[i]));
            OK(H5Sselect_none(file_spaces[i]));
            counts[i] = 0;
        }
        for (hsize_t at = 0; at < counts[i]; ++at) {
            if (types[i] == H5T_NATIVE_DOUBLE) storage[i][at] = value_of((int)i, begins[i] + at);
            else ((int *)storage[i])[at] = value_of((int)i, begins[i] + at);
        }
        from[i] = into[i] = storage[i];
    }
    const int written = TRIED(H5Dwrite_multi(count, datasets, types, memory, file_spaces, list, from));
    meet();
    memset(storage, 0, sizeof storage);
    const int read = TRIED(H5Dread_multi(count, datasets, types, memory, file_spaces, list, into));
    int wrong = 0;
    for (size_t i = 0; i < count; ++i)
        for (hsize_t at = 0; at < counts[i]; ++at) {
            const double got = types[i] == H5T_NATIVE_DOUBLE ? storage[i][at] : ((int *)storage[i])[at];
            wrong += written == 0 && read == 0 && got != value_of((int)i, begins[i] + at);
        }
    for (size_t i = 0; i < count; ++i) {
        if (i + 1 == count || kinds[i + 1] != 's') OK(H5Dclose(datasets[i]));
        OK(H5Sclose(memory[i]));
        OK(H5Sclose(file_spaces[i]));
    }
    OK(H5Pclose(list));
    OK(H5Fclose(file));
    snprintf(line, sizeof line, "%s %s, selection I/O %d, written", kinds, collective ? "together" : "alone",
             selection_mode);
    tell(line, written);
    tell("  read", read);
    tell("  wrong", wrong);
}

static void all_multis(void) {
    static const char *const kKinds[] = {"u",  "z",  "uz", "zu", "cz", "zc", "ucz", "zz", "uc", "uk",
                                         "zk", "ux", "zx", "ut", "zt", "ur", "zr",  "un", "zn", "nz"};
    for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; ++i)
        for (int mode = 0; mode < 3; ++mode) multi(kKinds[i], 1, mode);
    multi("us", 1, 1); /* with the other modes HDF5 itself fails, and with chunks it crashes */
    multi("uc", 0, 0);
    multi("uz", 0, 0);
}

/* ---- nested: a conversion that writes ---- */

static hid_t nested_dataset = H5I_INVALID_HID, nested_list = H5I_INVALID_HID;
static int conversions;

static herr_t convert(hid_t source, hid_t target, H5T_cdata_t *data, size_t count, size_t stride,
                      size_t background_stride, void *buffer, void *background, hid_t list) {
    (void)source, (void)target, (void)stride, (void)background_stride, (void)background, (void)list;
    if (data->command != H5T_CONV_CONV) return 0;
    ++conversions;
    const hsize_t begin = (hsize_t)rank, one = 1;
    const int value = 1000 + rank;
    const hid_t space = H5Dget_space(nested_dataset), memory = H5Screate_simple(1, &one, NULL);
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &one, NULL));
    OK(H5Dwrite(nested_dataset, H5T_NATIVE_INT, memory, space, nested_list, &value));
    OK(H5Sclose(memory));
    OK(H5Sclose(space));
    signed char *const bytes = buffer;
    for (size_t i = count; i-- > 0;) {
        const int64_t wide = bytes[i];
        memcpy((char *)buffer + i * sizeof wide, &wide, sizeof wide);
    }
    return 0;
}

static void nested(void) {
    const hsize_t size = kValues, members = (hsize_t)ranks, part = kValues / (hsize_t)ranks,
                  begin = (hsize_t)rank * part;
    static signed char bytes[kValues];
    static int64_t words[kValues];
    const hid_t file = create_file("nested.h5"), list = transfer_list(1, 0), space = H5Screate_simple(1, &size, NULL);
    const hid_t small = H5Screate_simple(1, &members, NULL), memory = H5Screate_simple(1, &part, NULL);
    const hid_t outer = OK(H5Dcreate2(file, "outer", H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    nested_dataset = OK(H5Dcreate2(file, "inner", H5T_NATIVE_INT, small, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    nested_list = transfer_list(1, 0);
    OK(H5Tregister(H5T_PERS_HARD, "widen", H5T_NATIVE_SCHAR, H5T_NATIVE_INT64, convert));
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &part, NULL));
    for (hsize_t i = 0; i < part; ++i) bytes[i] = (signed char)((begin + i) % 100);
    for (int round = 0; round < 3; ++round) OK(H5Dwrite(outer, H5T_NATIVE_SCHAR, memory, space, list, bytes));
    meet();
    int inner[64] = {0}, wrong = 0;
    OK(H5Dread(outer, H5T_NATIVE_INT64, memory, space, list, words));
    OK(H5Dread(nested_dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, inner));
    for (hsize_t i = 0; i < part; ++i) wrong += words[i] != (int64_t)((begin + i) % 100);
    for (int i = 0; i < ranks; ++i) wrong += inner[i] != 1000 + i;
    tell("nested conversions", conversions > 0);
    tell("lists that are lists", H5Iget_type(list) == H5I_GENPROP_LST && H5Iget_type(nested_list) == H5I_GENPROP_LST);
    tell("wrong", wrong);
    OK(H5Tunregister(H5T_PERS_HARD, "widen", H5T_NATIVE_SCHAR, H5T_NATIVE_INT64, convert));
    OK(H5Sclose(space));
    OK(H5Sclose(small));
    OK(H5Sclose(memory));
    OK(H5Pclose(list));
    OK(H5Pclose(nested_list));
    OK(H5Dclose(outer));
    OK(H5Dclose(nested_dataset));
    OK(H5Fclose(file));
}

/* ---- state that must not outlive a call, or the library ---- */

static int write_together(const char *name, hid_t list) {
    const hsize_t size = kValues, part = kValues / (hsize_t)ranks, begin = (hsize_t)rank * part;
    static int values[kValues];
    const hid_t file = create_file(name), space = H5Screate_simple(1, &size, NULL),
                memory = H5Screate_simple(1, &part, NULL);
    const hid_t dataset = OK(H5Dcreate2(file, "d", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &part, NULL));
    for (hsize_t i = 0; i < part; ++i) values[i] = value_of(3, begin + i);
    OK(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, list, values));
    memset(values, 0, sizeof values);
    OK(H5Dread(dataset, H5T_NATIVE_INT, memory, space, list, values));
    int wrong = 0;
    for (hsize_t i = 0; i < part; ++i) wrong += values[i] != value_of(3, begin + i);
    OK(H5Sclose(space));
    OK(H5Sclose(memory));
    OK(H5Dclose(dataset));
    OK(H5Fclose(file));
    return wrong;
}

static void closed(void) {
    for (int round = 0; round < 3; ++round) {
        /* When the library begins anew it gives the same identifiers again. */
        hid_t lists[64];
        const int count = round == 0 ? 2 : 64;
        for (int i = 0; i < count; ++i) lists[i] = transfer_list(1, 0);
        tell("wrong", write_together("closed.h5", lists[0]));
        tell("wrong", write_together("closed2.h5", lists[1]));
        int lost = 0;
        for (int i = 0; i < count; ++i) lost += H5Iget_type(lists[i]) != H5I_GENPROP_LST;
        tell("lists lost", lost);
        OK(H5close()); /* with the lists open */
        OK(H5open());
    }
}

/* Rank 0 alone works on a file of its own, in which nobody else has a part. */
static void work_alone(void) {
    if (rank == 0) {
        const hsize_t size = kValues, most = H5S_UNLIMITED, more = 2 * kValues;
        const hid_t file = OK(H5Fcreate("alone.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)),
                    list = H5Pcreate(H5P_DATASET_CREATE);
        const hid_t space = H5Screate_simple(1, &size, &most);
        OK(H5Pset_chunk(list, 1, &size));
        OK(H5Pset_deflate(list, 1));
        const hid_t dataset = OK(H5Dcreate2(file, "d", H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT));
        OK(H5Dset_extent(dataset, &more));
        OK(H5Dclose(dataset));
        OK(H5Ldelete(file, "d", H5P_DEFAULT));
        OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
        OK(H5Fclose(file));
        OK(H5Pclose(list));
        OK(H5Sclose(space));
    }
    tell("after work of rank 0 alone", 0);
}

static void rejected(void) {
    if (rank == 0) {
        FILE *const junk = fopen("junk.h5", "w");
        for (int i = 0; i < 5000; ++i) fputc('x', junk);
        fclose(junk);
    }
    meet();
    const hid_t list = access_list();
    tell("open of no HDF5 file", TRIED(H5Fopen("junk.h5", H5F_ACC_RDWR, list)));
    work_alone();
    tell("open of no file", TRIED(H5Fopen("missing.h5", H5F_ACC_RDWR, list)));
    work_alone();
    const hid_t transfer = transfer_list(1, 0);
    tell("wrong", write_together("right.h5", transfer));
    tell("create of what is there", TRIED(H5Fcreate("right.h5", H5F_ACC_EXCL, H5P_DEFAULT, list)));
    work_alone();
    OK(H5Pclose(transfer));
    OK(H5Pclose(list));
}

static void external(void) {
    const hid_t list = transfer_list(1, 0);
    tell("wrong", write_together("target.h5", list));
    const hid_t file = create_file("leading.h5");
    OK(H5Lcreate_external("target.h5", "d", file, "link", H5P_DEFAULT, H5P_DEFAULT));
    const hid_t dataset = OK(H5Dopen2(file, "link", H5P_DEFAULT));
    const int value = -5;
    const hsize_t begin = (hsize_t)rank, one = 1;
    const hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &one, NULL);
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &one, NULL));
    OK(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, list, &value));
    work_alone();
    OK(H5Dclose(dataset));
    OK(H5Sclose(space));
    OK(H5Sclose(memory));
    work_alone();
    OK(H5Fclose(file));
    OK(H5Pclose(list));
}

/* ---- calls that not all ranks make, or that fail on some ---- */

static void alone(void) {
    const hid_t file = create_file("calls.h5"), filtered = create_kind(file, 'z', 0), plain = create_kind(file, 'u', 1);
    static int values[kValues];
    const hsize_t less = 1;
    int done = 0;
    if (rank == 0) done = TRIED(H5Dwrite(filtered, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    tell("independent write to a filtered dataset by one rank", done);
    tell("by all", TRIED(H5Dwrite(filtered, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values)));
    done = 0;
    if (rank == 0) done = TRIED(H5Ldelete(file, "missing", H5P_DEFAULT));
    tell("deleting a link that is not there, by one rank", done);
    tell("by all, with an empty name on one", TRIED(H5Ldelete(file, rank == 0 ? "missing" : "", H5P_DEFAULT)));
    done = 0;
    if (rank == 0) done = TRIED(H5Dset_extent(plain, &less));
    tell("changing the extent of a contiguous dataset, by one rank", done);
    if (rank == 0) done = TRIED(H5Odecr_refcount(H5I_INVALID_HID));
    tell("lowering the reference count of nothing, by one rank", done);
    const hsize_t size = kValues;
    const hid_t space = H5Screate_simple(1, &size, NULL);
    const hid_t scratch = OK(H5Dcreate_anon(file, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT));
    OK(H5Dwrite(scratch, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    if (rank == 0) OK(H5Dclose(scratch));
    meet();
    if (rank != 0) OK(H5Dclose(scratch));
    tell("closing a dataset one after the other", 0);
    done = 0;
    if (rank == 0) done = TRIED(H5Dopen2(file, "missing", H5P_DEFAULT));
    tell("opening what is not there, by one rank", done);
    const hid_t chunked = create_kind(file, 'c',
                                      2); /* each rank writes a chunk of its own, and reads that of the next one */
    const hsize_t chunk = kValues / 8, place = (hsize_t)rank * chunk, next = (hsize_t)((rank + 1) % ranks) * chunk;
    for (hsize_t i = 0; i < chunk; ++i) values[i] = value_of(2, place + i);
    OK(H5Dwrite_chunk(chunked, H5P_DEFAULT, 0, &place, chunk * sizeof *values, values));
    OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    uint32_t mask = 0;
    int wrong = 0;
    OK(H5Dread_chunk(chunked, H5P_DEFAULT, &next, &mask, values));
    for (hsize_t i = 0; i < chunk; ++i) wrong += values[i] != value_of(2, next + i);
    tell("chunks written directly, wrong", wrong);
    OK(H5Dclose(chunked));
    OK(H5Sclose(space));
    OK(H5Dclose(filtered));
    OK(H5Dclose(plain));
    OK(H5Fclose(file));
    tell("closed", 0);
}

static void bad_space(void) {
    const hid_t file = create_file("bad.h5"), plain = create_kind(file, 'u', 1), list = transfer_list(1, 0);
    static int values[kValues];
    const hsize_t few = 3;
    const hid_t memory = rank == ranks - 1 ? H5Screate_simple(1, &few, NULL) : H5S_ALL;
    tell("collective write with a bad memory space on the last rank",
         TRIED(H5Dwrite(plain, H5T_NATIVE_INT, memory, H5S_ALL, list, values)));
    OK(H5Pclose(list));
    OK(H5Dclose(plain));
    OK(H5Fclose(file));
    tell("closed", 0);
}

/* ---- the same bytes, however a file manages its space ---- */

static void fill_file(hid_t file, int round) {
    /* Nothing is written collectively: MPI-IO may write what it likes into gaps then. */
    const hsize_t sizes[] = {1024, 4096, 3072, 20480, 64};
    for (int i = 0; i < 5; ++i) {
        char name[16];
        snprintf(name, sizeof name, "d%d-%d", round, i);
        const hid_t space = H5Screate_simple(1, &sizes[i], NULL), list = H5Pcreate(H5P_DATASET_CREATE);
        const hsize_t chunk = 64;
        OK(H5Pset_obj_track_times(list, 0));
        if (i % 2 == 1) OK(H5Pset_chunk(list, 1, i == 3 ? &sizes[1] : &chunk));
        OK(H5Pset_fill_time(list, H5D_FILL_TIME_NEVER));
        const hid_t dataset = OK(H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT));
        const hsize_t part = sizes[i] / (hsize_t)ranks, begin = part * (hsize_t)rank;
        static int values[20480];
        for (hsize_t at = 0; at < part; ++at) values[at] = value_of(i, begin + at);
        const hid_t memory = H5Screate_simple(1, &part, NULL), transfer = transfer_list(0, 0);
        OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &part, NULL));
        OK(H5Dwrite(dataset, H5T_NATIVE_INT, memory, space, transfer, values));
        OK(H5Pclose(transfer));
        OK(H5Sclose(memory));
        OK(H5Dclose(dataset));
        OK(H5Pclose(list));
        OK(H5Sclose(space));
        meet();
        if (i == 2) {
            snprintf(name, sizeof name, "d%d-%d", round, 1);
            OK(H5Ldelete(file, name, H5P_DEFAULT));
        }
    }
}

static void strategies(void) {
    static const struct {
        const char *name;
        H5F_fspace_strategy_t strategy;
        int persists;
    } kWays[] = {{"fsm", H5F_FSPACE_STRATEGY_FSM_AGGR, 0},    {"fsm-kept", H5F_FSPACE_STRATEGY_FSM_AGGR, 1},
                 {"page", H5F_FSPACE_STRATEGY_PAGE, 0},       {"page-kept", H5F_FSPACE_STRATEGY_PAGE, 1},
                 {"aggregated", H5F_FSPACE_STRATEGY_AGGR, 0}, {"none", H5F_FSPACE_STRATEGY_NONE, 0}};
    /* What HDF5 leaves uninitialised in its blocks is what malloc gives it: the same always with MALLOC_PERTURB_. */
    OK(H5set_free_list_limits(0, 0, 0, 0, 0, 0));
    for (int way = 0; way < 6; ++way)
        for (int more = 0; more < 4; ++more) {
            char name[64];
            const hid_t creation = H5Pcreate(H5P_FILE_CREATE), list = access_list();
            OK(H5Pset_file_space_strategy(creation, kWays[way].strategy, kWays[way].persists, 1));
            if (more & 1) OK(H5Pset_userblock(creation, 16384));
            if (more == 2 && kWays[way].strategy == H5F_FSPACE_STRATEGY_PAGE)
                OK(H5Pset_file_space_page_size(creation, 8192));
            if (more & 2) OK(H5Pset_libver_bounds(list, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
            if (more == 3) OK(H5Pset_alignment(list, 1024, 512));
            snprintf(name, sizeof name, "%s-%d.h5", kWays[way].name, more);
            hid_t file = OK(H5Fcreate(name, H5F_ACC_TRUNC, creation, list));
            fill_file(file, 0);
            OK(H5Fclose(file));
            file = OK(H5Fopen(name, H5F_ACC_RDWR, list));
            fill_file(file, 1);
            OK(H5Fclose(file));
            OK(H5Pclose(creation));
            OK(H5Pclose(list));
        }
    tell("made", 0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } kParts[] = {{"multi", all_multis},  {"nested", nested}, {"closed", closed},       {"rejected", rejected},
                  {"external", external}, {"alone", alone},   {"bad-space", bad_space}, {"strategies", strategies}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    clock_stands_still = 1;
    int known = 0;
    for (int at = 1; at < argc; ++at)
        for (size_t i = 0; i < sizeof kParts / sizeof *kParts; ++i)
            if (strcmp(argv[at], kParts[i].name) == 0) {
                ++known;
                if (rank == 0) printf("part %s\n", argv[at]);
                kParts[i].run();
            }
    if (known == 0 || known + 1 < argc) status = kExitUsage;
    clock_stands_still = 0;
    MPI_Finalize();
    return status;
}
