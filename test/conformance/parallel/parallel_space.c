/* Space of a file that HDF5 fills on behalf of all ranks, or frees and uses again.
 *
 *   mpiexec -n RANKS parallel_space FOLDER [WAY ...]
 *
 * Each way has a file of its own, FOLDER/WAY.h5, and prints one line, "WAY: ok", "WAY: N wrong" or "WAY: failed".
 *
 * Ways that free: rank 0 writes into an object, the object is freed, all ranks meet, and the last rank writes a new
 * dataset, which HDF5 puts to the same place. What was written first must not come back. Ways that fill: HDF5 fills a
 * dataset, or copies one, and then each rank writes its part. Ends with 3 if data were wrong, with 1 if a call failed.
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kExitFailure = 1, kExitUsage = 2, kExitWrongData = 3 };
enum { kWords = 48 * 1024, kChunk = kWords / 8, kLongName = 20000 };
static const int64_t kFill = -7, kOld = 1000000, kNew = 2000000;

static int rank, ranks, failures;
static const char *folder;
static char path[4096];
static int64_t words[2 * kWords];

#define OK(call) ok(#call, (int64_t)(call))
static hid_t ok(const char *what, int64_t result) {
    if (result < 0) {
        fprintf(stderr, "rank %d, %s: %s failed\n", rank, path, what);
        ++failures;
    }
    return (hid_t)result;
}

static hid_t access_list(void) {
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    OK(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL));
    OK(H5Pset_libver_bounds(list, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    return list;
}

static const char *path_of(const char *way, const char *suffix) {
    static char text[4096];
    snprintf(text, sizeof text, "%s/%s%s.h5", folder, way, suffix);
    return text;
}

static hid_t create_file(const char *name) {
    const hid_t list = access_list(), file = OK(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list));
    OK(H5Pclose(list));
    return file;
}

enum layout { kContiguous, kChunked, kFiltered };
static hid_t creation_list(enum layout layout, int filled) {
    const hsize_t chunk = kChunk;
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    if (layout != kContiguous) OK(H5Pset_chunk(list, 1, &chunk));
    if (layout == kFiltered) OK(H5Pset_deflate(list, 1));
    if (filled) OK(H5Pset_fill_value(list, H5T_NATIVE_INT64, &kFill));
    else OK(H5Pset_fill_time(list, H5D_FILL_TIME_NEVER));
    return list;
}

static hid_t create(hid_t place, const char *name, enum layout layout, int filled, hsize_t size) {
    const hsize_t most = layout == kContiguous ? size : H5S_UNLIMITED;
    const hid_t space = H5Screate_simple(1, &size, &most), list = creation_list(layout, filled);
    const hid_t made = name != NULL ? H5Dcreate2(place, name, H5T_NATIVE_INT64, space, H5P_DEFAULT, list, H5P_DEFAULT)
                                    : H5Dcreate_anon(place, H5T_NATIVE_INT64, space, list, H5P_DEFAULT);
    OK(H5Pclose(list));
    OK(H5Sclose(space));
    return OK(made);
}

/* Independently, `count` words from `begin`; their values count from `base`. */
static void move(hid_t dataset, hsize_t begin, hsize_t count, int64_t base, int writing, int collective) {
    const hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &count, NULL),
                list = H5Pcreate(H5P_DATASET_XFER);
    OK(H5Pset_dxpl_mpio(list, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT));
    OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &count, NULL));
    if (writing) {
        for (hsize_t i = 0; i < count; ++i) words[i] = base + (int64_t)(begin + i);
        OK(H5Dwrite(dataset, H5T_NATIVE_INT64, memory, space, list, words));
    } else {
        memset(words, 0, count * sizeof *words);
        OK(H5Dread(dataset, H5T_NATIVE_INT64, memory, space, list, words));
    }
    OK(H5Pclose(list));
    OK(H5Sclose(memory));
    OK(H5Sclose(space));
}

static void meet(void) { MPI_Barrier(MPI_COMM_WORLD); }
static int is_last(void) { return rank == ranks - 1; }

/* ---- ways to free what rank 0 has written; `place` is where the object is, `top` the file that leads to it ---- */

/* After a flush the file has its size: writes that do not make it longer can overtake each other. */
static void write_old(hid_t dataset) {
    OK(H5Fflush(dataset, H5F_SCOPE_GLOBAL));
    if (rank == 0) move(dataset, 0, kWords, kOld, 1, 0);
}
static void write_and_close(hid_t place, const char *name, enum layout layout) {
    const hid_t old = create(place, name, layout, 0, kWords);
    write_old(old);
    OK(H5Dclose(old));
}

static void free_link(hid_t place) {
    write_and_close(place, "old", kContiguous);
    OK(H5Ldelete(place, "old", H5P_DEFAULT));
}
static void free_link_by_index(hid_t place) {
    write_and_close(place, "old", kContiguous);
    OK(H5Ldelete_by_idx(place, ".", H5_INDEX_NAME, H5_ITER_INC, 0, H5P_DEFAULT));
}
static void free_chunked(hid_t place) {
    write_and_close(place, "old", kChunked);
    OK(H5Ldelete(place, "old", H5P_DEFAULT));
}
static void free_anonymous(hid_t place) { write_and_close(place, NULL, kContiguous); }
static void free_unlinked(hid_t place) {
    const hid_t old = create(place, "old", kContiguous, 0, kWords);
    OK(H5Ldelete(place, "old", H5P_DEFAULT));
    write_old(old);
    OK(H5Oclose(old));
}
static void free_counted(hid_t place) {
    const hid_t old = create(place, "old", kContiguous, 0, kWords);
    write_old(old);
    OK(H5Odecr_refcount(old));
    OK(H5Dclose(old));
}
static void free_group(hid_t place) {
    const hid_t group = OK(H5Gcreate2(place, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    write_and_close(group, "old", kContiguous);
    OK(H5Gclose(group));
    OK(H5Ldelete(place, "group", H5P_DEFAULT));
}
static void free_open_group(hid_t place) {
    const hid_t group = OK(H5Gcreate2(place, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    OK(H5Ldelete(place, "group", H5P_DEFAULT));
    write_and_close(group, "old", kContiguous);
    OK(H5Gclose(group));
}
static void free_shrunk(hid_t place) {
    const hsize_t none = 0;
    const hid_t old = create(place, "old", kChunked, 0, kWords);
    write_old(old);
    OK(H5Dset_extent(old, &none));
    OK(H5Dclose(old));
}
static void free_moved(hid_t place) { /* a soft link that is too long for the heap's blocks */
    char *target = calloc(1, kLongName + 1);
    const hid_t list = H5Pcreate(H5P_GROUP_CREATE);
    OK(H5Pset_link_phase_change(list, 0, 0));
    const hid_t group = OK(H5Gcreate2(place, "group", H5P_DEFAULT, list, H5P_DEFAULT));
    memset(target, 'x', kLongName);
    for (int i = 0; i < 8; ++i) {
        char one[16], other[16];
        snprintf(one, sizeof one, "old%d", i);
        snprintf(other, sizeof other, "new%d", i);
        OK(H5Lcreate_soft(target, group, one, H5P_DEFAULT, H5P_DEFAULT));
        meet(); /* all ranks write it to the same place */
        OK(H5Lmove(group, one, group, other, H5P_DEFAULT, H5P_DEFAULT));
        meet();
    }
    OK(H5Pclose(list));
    OK(H5Gclose(group));
    free(target);
}
static void free_attribute(
    hid_t place) { /* too large for an object header, and for the heap's blocks: a piece of raw data */
    const hsize_t size = kWords;
    const hid_t space = H5Screate_simple(1, &size, NULL), list = H5Pcreate(H5P_GROUP_CREATE);
    OK(H5Pset_attr_phase_change(list, 0, 0));
    const hid_t group = OK(H5Gcreate2(place, "group", H5P_DEFAULT, list, H5P_DEFAULT));
    const hid_t attribute = OK(H5Acreate2(group, "old", H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT));
    meet();
    for (hsize_t i = 0; i < size; ++i) words[i] = kOld;
    OK(H5Awrite(attribute, H5T_NATIVE_INT64, words));
    OK(H5Aclose(attribute));
    meet();
    OK(H5Adelete(group, "old"));
    OK(H5Gclose(group));
    OK(H5Pclose(list));
    OK(H5Sclose(space));
}
static void free_filtered(hid_t place) { /* chunks that grow move */
    const hid_t old = create(place, "old", kFiltered, 0, kWords);
    for (int64_t round = 0; round < 2; ++round) {
        const hsize_t count = kWords / (hsize_t)ranks, begin = (hsize_t)rank * count;
        const hid_t space = H5Dget_space(old), memory = H5Screate_simple(1, &count, NULL),
                    list = H5Pcreate(H5P_DATASET_XFER);
        OK(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE));
        OK(H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &count, NULL));
        for (hsize_t i = 0; i < count; ++i) words[i] = round == 0 ? 0 : (int64_t)((begin + i) * 0x9E3779B97F4A7C15u);
        OK(H5Dwrite(old, H5T_NATIVE_INT64, memory, space, list, words));
        OK(H5Pclose(list));
        OK(H5Sclose(memory));
        OK(H5Sclose(space));
    }
    OK(H5Dclose(old));
    OK(H5Ldelete(place, "old", H5P_DEFAULT));
}

/* ---- ways in which HDF5 fills what each rank then writes its part of ---- */

/* Free space before the end of the file, where HDF5 will put what comes next. */
static void make_hole(hid_t file) {
    const hid_t hole = create(file, "hole", kContiguous, 0, kWords);
    OK(H5Dclose(create(file, "tail", kContiguous, 0, kChunk)));
    OK(H5Dclose(hole));
    OK(H5Fflush(file, H5F_SCOPE_GLOBAL));
    OK(H5Ldelete(file, "hole", H5P_DEFAULT));
}

static void write_part(hid_t dataset, hsize_t size) {
    const hsize_t part = size / (hsize_t)ranks;
    if (rank == 1) move(dataset, part, part - 1, kNew, 1, 0); /* the last word stays as it was filled */
    if (rank == 0) move(dataset, 0, part - 1, kNew, 1, 0);
}

/* A file with datasets that have no space yet, made without MPI. */
static void lay_out_serially(const char *name) {
    if (rank == 0) {
        const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
        OK(H5Pset_libver_bounds(list, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
        const hid_t file = OK(H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list));
        OK(H5Dclose(create(file, "contiguous", kContiguous, 1, kWords)));
        OK(H5Dclose(create(file, "chunked", kChunked, 1, kWords)));
        OK(H5Fclose(file));
        OK(H5Pclose(list));
    }
    meet();
}

static hid_t fill_created(hid_t file, enum layout layout) {
    make_hole(file);
    return create(file, "real", layout, 1, kWords);
}
static hid_t fill_grown(hid_t file) {
    const hsize_t size = kWords;
    const hid_t real = create(file, "real", kChunked, 1, kChunk);
    make_hole(file);
    OK(H5Dset_extent(real, &size));
    return real;
}
static hid_t fill_cut_and_grown(hid_t file) {
    const hsize_t size = kWords, less = kChunk;
    const hid_t real = create(file, "real", kChunked, 1, kWords);
    write_old(real);
    OK(H5Dset_extent(real, &less));
    meet();
    OK(H5Dset_extent(real, &size));
    return real;
}
static hid_t fill_copied(hid_t file, enum layout layout) {
    OK(H5Dclose(create(file, "source", layout, 1, kWords)));
    make_hole(file);
    OK(H5Ocopy(file, "source", file, "real", H5P_DEFAULT, H5P_DEFAULT));
    return OK(H5Dopen2(file, "real", H5P_DEFAULT));
}

/* ---- what comes of it ---- */

static int64_t wrong_words(hid_t file, const char *name, int fills) {
    const hid_t real = OK(H5Dopen2(file, name, H5P_DEFAULT));
    int64_t wrong = 0;
    memset(words, 0, kWords * sizeof *words);
    OK(H5Dread(real, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, words));
    const int64_t part = kWords / ranks;
    for (int64_t i = 0; i < kWords; ++i) {
        const int filled = fills && (i >= 2 * part || i % part == part - 1);
        wrong += words[i] != (filled ? kFill : kNew + i);
    }
    OK(H5Dclose(real));
    return wrong;
}

typedef void (*freeing)(hid_t place);
static const struct {
    const char *way;
    freeing frees;
} kFreeing[] = {
    {"link", free_link},           {"link-by-index", free_link_by_index},
    {"chunked", free_chunked},     {"anonymous", free_anonymous},
    {"unlinked", free_unlinked},   {"counted", free_counted},
    {"group", free_group},         {"open-group", free_open_group},
    {"shrunk", free_shrunk},       {"moved", free_moved},
    {"attribute", free_attribute}, {"filtered", free_filtered},
    {"mounted", free_link},        {"mounted-anonymous", free_anonymous},
    {"external", free_link},       {"external-unlinked", free_unlinked},
};
static const char *const kFilling[] = {"create-contiguous", "create-chunked",  "grow",
                                       "cut-and-grow",      "open-contiguous", "open-chunked",
                                       "open-object",       "copy-contiguous", "copy-chunked"};

static int begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static int64_t run_freeing(const char *way, freeing frees) {
    char other[4096];
    snprintf(other, sizeof other, "%s", path_of(way, "-other"));
    const int mounted = begins(way, "mounted"), external = begins(way, "external");
    const hid_t file = create_file(path);
    hid_t child = H5I_INVALID_HID, place = file;
    if (mounted) {
        child = create_file(other);
        const hid_t group = OK(H5Gcreate2(file, "at", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        OK(H5Gclose(group));
        OK(H5Fmount(file, "at", child, H5P_DEFAULT));
        place = OK(H5Gopen2(file, "at", H5P_DEFAULT));
    } else if (external) {
        const hid_t target = create_file(other),
                    group = OK(H5Gcreate2(target, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        OK(H5Gclose(group));
        OK(H5Fclose(target));
        OK(H5Lcreate_external(other, "g", file, "at", H5P_DEFAULT, H5P_DEFAULT));
        place = OK(H5Gopen2(file, "at", H5P_DEFAULT));
    }
    frees(place);
    meet();
    const hid_t real = create(place, "real", kContiguous, 0, kWords);
    if (is_last()) move(real, 0, kWords, kNew, 1, 0);
    OK(H5Dclose(real));
    meet();
    if (place != file) OK(H5Gclose(place));
    if (mounted) {
        OK(H5Funmount(file, "at"));
        OK(H5Fclose(child));
    }
    OK(H5Fclose(file));
    meet();
    if (rank != 0) return 0;
    const hid_t result = OK(H5Fopen(mounted || external ? other : path, H5F_ACC_RDONLY, H5P_DEFAULT));
    const int64_t wrong = wrong_words(result, external ? "g/real" : "real", 0);
    OK(H5Fclose(result));
    return wrong;
}

static int64_t run_filling(const char *way) {
    const int opens = begins(way, "open-");
    const char *const name = !opens ? "real" : strcmp(way, "open-chunked") == 0 ? "chunked" : "contiguous";
    hid_t file, real;
    if (opens) {
        lay_out_serially(path);
        const hid_t list = access_list();
        file = OK(H5Fopen(path, H5F_ACC_RDWR, list));
        OK(H5Pclose(list));
        make_hole(file);
        real = OK(strcmp(way, "open-object") == 0 ? H5Oopen(file, name, H5P_DEFAULT)
                                                  : H5Dopen2(file, name, H5P_DEFAULT));
    } else {
        const enum layout layout = strstr(way, "contiguous") != NULL ? kContiguous : kChunked;
        file = create_file(path);
        real = strcmp(way, "grow") == 0           ? fill_grown(file)
               : strcmp(way, "cut-and-grow") == 0 ? fill_cut_and_grown(file)
               : begins(way, "copy-")             ? fill_copied(file, layout)
                                                  : fill_created(file, layout);
    }
    meet();
    write_part(real, kWords);
    OK(H5Dclose(real));
    OK(H5Fclose(file));
    meet();
    if (rank != 0) return 0;
    file = OK(H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT));
    const int64_t wrong = wrong_words(file, name, 1);
    OK(H5Fclose(file));
    return wrong;
}

static int wanted(int argc, char **argv, const char *way) {
    for (int i = 2; i < argc; ++i)
        if (strcmp(argv[i], way) == 0) return 1;
    return argc <= 2;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 2) return kExitUsage;
    folder = argv[1];
    int status = 0;
    const int freeing_ways = (int)(sizeof kFreeing / sizeof *kFreeing),
              filling_ways = (int)(sizeof kFilling / sizeof *kFilling);
    for (int i = 0; i < freeing_ways + filling_ways; ++i) {
        const char *const way = i < freeing_ways ? kFreeing[i].way : kFilling[i - freeing_ways];
        if (!wanted(argc, argv, way)) continue;
        snprintf(path, sizeof path, "%s", path_of(way, ""));
        failures = 0;
        int64_t wrong = i < freeing_ways ? run_freeing(way, kFreeing[i].frees) : run_filling(way);
        MPI_Bcast(&wrong, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (failures > 0) status = kExitFailure;
        else if (wrong > 0 && status == 0) status = kExitWrongData;
        if (rank != 0) continue;
        if (failures > 0) printf("%s: failed\n", way);
        else if (wrong > 0) printf("%s: %lld wrong\n", way, (long long)wrong);
        else printf("%s: ok\n", way);
        fflush(stdout);
    }
    MPI_Finalize();
    return status;
}
