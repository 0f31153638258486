/* Common parts of the kernels that write whole files and read them back, beside those of bench/parallel.h.
 *
 * A kernel writes its files and then reads them through the same HDF5, all ranks together, and counts wrong bytes. With
 * --verify, the same sizes and the same number of ranks, it only reads, with HDF5's serial driver. In both cases a rank
 * reads the part of its neighbour. The clocks of `measured` run while it writes; `read_s` is the time of the reads. */
#ifndef FOREBAY_EVALUATION_KERNEL_H
#define FOREBAY_EVALUATION_KERNEL_H

#include "parallel.h"

enum { kMostDimensions = 4 };

/* A rank's block of a dataset: the dataset's extent, and the block's begin and size. A size of 0 selects nothing. */
struct block {
    int dimensions;
    hsize_t extent[kMostDimensions], at[kMostDimensions], size[kMostDimensions];
};

UNUSED_OK static uint64_t values_of(const struct block *block) {
    uint64_t values = 1;
    for (int d = 0; d < block->dimensions; ++d) values *= block->size[d];
    return values;
}

/* A one-dimensional block. */
UNUSED_OK static struct block row_block(hsize_t extent, hsize_t at, hsize_t size) {
    return (struct block){1, {extent}, {at}, {size}};
}

UNUSED_OK static hid_t file_space(const struct block *block) {
    hid_t space = new_space(block->dimensions, block->extent);
    if (values_of(block) > 0) select_block(space, block->at, block->size);
    else if (H5Sselect_none(space) < 0) fail("empty selection", "failed");
    return space;
}

UNUSED_OK static hid_t memory_space(const struct block *block) {
    const hsize_t values = values_of(block), one = 1;
    hid_t space = new_space(1, values > 0 ? &values : &one);
    if (values == 0 && H5Sselect_none(space) < 0) fail("empty selection", "failed");
    return space;
}

/* Writes a rank's block of an open dataset. A rank with an empty block passes no buffer. Collective, if `transfer`
   is. */
UNUSED_OK static void write_block(hid_t dataset, hid_t type, const struct block *block, hid_t transfer,
                                  const void *data, struct measured *measured) {
    hid_t space = file_space(block), memory = memory_space(block);
    write_selected(dataset, type, memory, space, transfer, values_of(block) > 0 ? data : NULL, measured);
    H5Sclose(memory);
    H5Sclose(space);
}

/* Creates a dataset, writes a rank's block of it and closes it. Collective. */
UNUSED_OK static void write_dataset(hid_t parent, const char *name, hid_t type, const struct block *block,
                                    hid_t transfer, const void *data, struct measured *measured) {
    hid_t space = new_space(block->dimensions, block->extent);
    hid_t dataset = create_dataset(parent, name, type, space, H5P_DEFAULT, measured);
    H5Sclose(space);
    write_block(dataset, type, block, transfer, data, measured);
    close_dataset(dataset, measured);
}

/* Reads a block, and counts the bytes that differ from `expected`. */
UNUSED_OK static void compare_block(hid_t dataset, const char *name, hid_t type, const struct block *block,
                                    hid_t transfer, const void *expected, double *read_s) {
    const size_t size_bytes = values_of(block) * H5Tget_size(type);
    hid_t space = file_space(block), memory = memory_space(block);
    void *found = new_array(size_bytes);
    double begin_s = now_s();
    read_selected(dataset, type, memory, space, transfer, found);
    *read_s += now_s() - begin_s;
    differs(name, found, expected, size_bytes);
    free(found);
    H5Sclose(memory);
    H5Sclose(space);
}

UNUSED_OK static void compare_dataset(hid_t parent, const char *name, hid_t type, const struct block *block,
                                      hid_t transfer, const void *expected, double *read_s) {
    hid_t dataset = open_dataset(parent, name);
    compare_block(dataset, name, type, block, transfer, expected, read_s);
    H5Dclose(dataset);
}

UNUSED_OK static hid_t create_group(hid_t parent, const char *name, struct measured *measured) {
    hid_t group;
    TIMED(measured->calls_s, group, H5Gcreate2(parent, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    return group;
}

UNUSED_OK static hid_t open_group(hid_t parent, const char *name) {
    hid_t group = H5Gopen2(parent, name, H5P_DEFAULT);
    if (group < 0) fail(name, "cannot be opened");
    return group;
}

/* Writes an attribute of 64-bit integers. Collective: all ranks pass equal values. */
UNUSED_OK static void write_attribute(hid_t object, const char *name, const uint64_t *values, hsize_t count,
                                      struct measured *measured) {
    hid_t space = new_space(1, &count), attribute;
    herr_t done;
    TIMED(measured->calls_s, attribute, H5Acreate2(object, name, H5T_NATIVE_UINT64, space, H5P_DEFAULT, H5P_DEFAULT));
    TIMED(measured->calls_s, done, H5Awrite(attribute, H5T_NATIVE_UINT64, values));
    TIMED(measured->calls_s, done, H5Aclose(attribute));
    H5Sclose(space);
}

/* Compares an attribute of at most 16 integers. */
UNUSED_OK static void compare_attribute(hid_t object, const char *name, const uint64_t *values, size_t count) {
    uint64_t found[16];
    hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
    if (attribute < 0 || H5Aread(attribute, H5T_NATIVE_UINT64, found) < 0) fail(name, "cannot be read");
    differs(name, found, values, count * sizeof *values);
    H5Aclose(attribute);
}

/* Closes a file and leaves the clocks running, for kernels with several files. Collective. */
UNUSED_OK static void close_one_of_several(hid_t file, struct measured *measured) {
    herr_t done;
    TIMED(measured->close_s, done, H5Fclose(file));
}

/* Opens a file read-only: as a serial program does, or all ranks together. */
UNUSED_OK static hid_t open_to_read(const char *path, int serial) {
    if (serial) return open_to_verify(path);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (access < 0 || H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) < 0) fail("access list", "failed");
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    if (file < 0) fail(path, "cannot be opened");
    H5Pclose(access);
    return file;
}

/* Returns the transfer list of the reads of a file opened so. */
UNUSED_OK static hid_t read_transfer(int serial, int collective) {
    return serial ? H5Pcreate(H5P_DATASET_XFER) : new_transfer(collective);
}

/* Prints the figures and `read_s`. Returns the exit code: wrong data, if a rank has read some. Collective. */
UNUSED_OK static int report(struct ranks ranks, const struct measured *measured, double read_s) {
    print_measured(ranks, measured, &(struct figure){"read_s", read_s}, 1);
    return all_compared().wrong > 0 ? kExitWrongData : 0;
}

#endif
