// Ranks that ask alone where in the file their data are, and read the file there by its path.
//
//   parallel_addresses FILE WAY        WAY: offset, chunk or iter
//
// Each rank writes its own half of two datasets. The rank that asks checks, by the path, what it has written before and
// after the answer, also where it overwrites what was flushed; after a flush, what all have written. Prints "wrong N"
// and the file's totals.
#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kRows = 8, kColumns = 40000 };
static int rank, size, wrong;
static hid_t independent;

static void write_rows(hid_t dataset, int of_rank, int value) {
    const hsize_t begin[2] = {(hsize_t)(of_rank * kRows), 0}, count[2] = {kRows, kColumns};
    hid_t file_space = H5Dget_space(dataset), memory_space = H5Screate_simple(2, count, NULL);
    int *data = malloc(sizeof *data * kRows * kColumns);
    for (int i = 0; i < kRows * kColumns; ++i) data[i] = value;
    H5Sselect_hyperslab(file_space, H5S_SELECT_SET, begin, NULL, count, NULL);
    wrong += H5Dwrite(dataset, H5T_NATIVE_INT, memory_space, file_space, independent, data) < 0;
    free(data);
    H5Sclose(memory_space);
    H5Sclose(file_space);
}
struct found {
    haddr_t address;
    hsize_t row;
};
static int keep(const hsize_t *offset, unsigned mask, haddr_t address, hsize_t bytes, void *data) {
    struct found *found = data;
    (void)mask;
    (void)bytes;
    if (offset[0] == found->row) found->address = address;
    return 0;
}
static haddr_t where(hid_t dataset, const char *way, hsize_t row) {
    unsigned mask;
    hsize_t bytes;
    const hsize_t offset[2] = {row, 0};
    struct found found = {HADDR_UNDEF, row};
    if (!strcmp(way, "offset")) return H5Dget_offset(dataset) + row * kColumns * sizeof(int);
    if (!strcmp(way, "chunk")) H5Dget_chunk_info_by_coord(dataset, offset, &mask, &found.address, &bytes);
    else H5Dchunk_iter(dataset, H5P_DEFAULT, keep, &found);
    return found.address;
}
static void expect(const char *path, haddr_t address, int value, const char *when) {
    int *row = malloc(sizeof *row * kColumns), differ = 0;
    const int plain = open(path, O_RDONLY);
    if (plain < 0 || pread(plain, row, sizeof *row * kColumns, (off_t)address) != (ssize_t)(sizeof *row * kColumns))
        differ = kColumns;
    for (int i = 0; i < kColumns && differ < kColumns; ++i) differ += row[i] != value;
    if (differ) printf("rank %d, %s: %d of %d values are not %d\n", rank, when, differ, kColumns, value);
    wrong += differ;
    close(plain);
    free(row);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *path = argc > 1 ? argv[1] : "addresses.h5", *way = argc > 2 ? argv[2] : "offset";
    const int chunked = strcmp(way, "offset") != 0;
    const hsize_t extent[2] = {(hsize_t)(size * kRows), kColumns}, chunk[2] = {1, kColumns};
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_DATASET_CREATE),
          space = H5Screate_simple(2, extent, NULL);
    independent = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_obj_track_times(creation, 0);
    if (chunked) H5Pset_chunk(creation, 2, chunk);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hid_t dataset = H5Dcreate2(file, "asked", H5T_NATIVE_INT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    hid_t other = H5Dcreate2(file, "other", H5T_NATIVE_INT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    const int asks = size - 1;   // not the one that drains, if there are several
    write_rows(dataset, rank, 10 + rank);
    write_rows(other, rank, 20 + rank);
    if (rank == asks || rank == 0) {
        const haddr_t mine = where(dataset, way, (hsize_t)(rank * kRows + 3));
        expect(path, mine, 10 + rank, "before the answer");
        write_rows(dataset, rank, 30 + rank);
        expect(path, mine, 30 + rank, "after the answer");
        write_rows(other, rank, 40 + rank);
        expect(path, where(other, way, (hsize_t)(rank * kRows + 3)), 40 + rank, "another dataset");
    }
    wrong += H5Fflush(file, H5F_SCOPE_GLOBAL) < 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == asks)
        for (int each = 0; each < size; ++each) {
            const int asked = each == asks || each == 0;
            expect(path, where(dataset, way, (hsize_t)(each * kRows)), (asked ? 30 : 10) + each, "all, after a flush");
        }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == asks) {
        const haddr_t mine = where(dataset, way, (hsize_t)(rank * kRows + 5));
        write_rows(dataset, rank, 50 + rank);
        expect(path, mine, 50 + rank, "overwritten after a flush");
    } else {
        write_rows(dataset, rank, 60 + rank);
    }
    H5Dclose(other);
    H5Dclose(dataset);
    wrong += H5Fclose(file) < 0;
    int all = 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("wrong %d\n", all);
    H5Sclose(space);
    H5Pclose(creation);
    H5Pclose(access);
    H5Pclose(independent);
    MPI_Finalize();
    return all != 0;
}
