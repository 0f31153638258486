/* Asynchronous reads of all kinds of selections and layouts, against what an array says. */
#include <stdlib.h>
#include <string.h>

#include "async_calls.h"

enum { kDepth = 11, kRows = 40, kColumns = 53, kElements = kDepth * kRows * kColumns, kAtATime = 8 };

struct value {
    double x;
    int16_t tag[3];
    char name[6];
};

static hid_t value_type(void) {
    const hsize_t three[] = {3};
    const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct value)),
                tags = H5Tarray_create2(H5T_NATIVE_INT16, 1, three);
    const hid_t name = H5Tcopy(H5T_C_S1);
    H5Tset_size(name, 6);
    H5Tinsert(type, "x", HOFFSET(struct value, x), H5T_NATIVE_DOUBLE);
    H5Tinsert(type, "tag", HOFFSET(struct value, tag), tags);
    H5Tinsert(type, "name", HOFFSET(struct value, name), name);
    H5Tclose(name);
    H5Tclose(tags);
    return type;
}

/* Selects some elements, and gives the number of each in the order of HDF5 (which an iterator of its own tells). */
static hid_t random_selection(const hsize_t *extent) {
    const hid_t space = H5Screate_simple(3, extent, NULL);
    hsize_t at[3], stride[3], count[3], block[3];
    switch (next_random(4)) {
        case 0: return space; /* all of it */
        case 1: {
            hsize_t points[30][3];
            for (int i = 0; i < 30; ++i)
                for (int d = 0; d < 3; ++d) points[i][d] = next_random(extent[d]);
            H5Sselect_elements(space, H5S_SELECT_SET, 30, &points[0][0]);
            return space;
        }
        case 2:
            for (int d = 0; d < 3; ++d) {
                at[d] = next_random(extent[d]);
                count[d] = 1 + next_random(extent[d] - at[d]);
            }
            H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, count, NULL);
            return space;
        default:
            for (int d = 0; d < 3; ++d) {
                block[d] = 1 + next_random(3);
                stride[d] = block[d] + next_random(4);
                at[d] = next_random(3);
                count[d] = (extent[d] - at[d] - block[d]) / stride[d] + 1;
            }
            H5Sselect_hyperslab(space, H5S_SELECT_SET, at, stride, count, block);
            if (next_random(2) == 0) {
                const hsize_t one[] = {2, 3, 5}, some[] = {4, 6, 7};
                H5Sselect_hyperslab(space, H5S_SELECT_OR, one, NULL, some, NULL);
            }
            return space;
    }
}

/* As many elements of memory, in one of two shapes. */
static hid_t memory_selection(hsize_t elements, hsize_t *in_memory) {
    if (next_random(2) == 0) {
        *in_memory = elements;
        return H5Screate_simple(1, in_memory, NULL);
    }
    const hsize_t extent[] = {elements + 3, 2}, at[] = {2, 1}, size[] = {elements, 1};
    const hid_t space = H5Screate_simple(2, extent, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, size, NULL);
    *in_memory = extent[0] * extent[1];
    return space;
}

static void read_some(hid_t dataset, hid_t type, size_t element, const hsize_t *extent, hid_t events, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        hid_t spaces[kAtATime], memories[kAtATime];
        char *found[kAtATime], *expected[kAtATime];
        hsize_t elements[kAtATime];
        for (int i = 0; i < kAtATime; ++i) {
            spaces[i] = random_selection(extent);
            memories[i] = memory_selection((hsize_t)H5Sget_select_npoints(spaces[i]), &elements[i]);
            found[i] = calloc(elements[i], element);
            expected[i] = calloc(elements[i], element);
            CHECK(H5Dread_async(dataset, type, memories[i], spaces[i], H5P_DEFAULT, found[i], events) >= 0);
        }
        for (int i = 0; i < kAtATime; ++i)
            CHECK(H5Dread(dataset, type, memories[i], spaces[i], H5P_DEFAULT, expected[i]) >= 0);
        CHECK(wait_all(events, NULL) == 0);
        for (int i = 0; i < kAtATime; ++i) {
            CHECK(memcmp(found[i], expected[i], elements[i] * element) == 0);
            printf("read %llx\n", (unsigned long long)sum_of(found[i], elements[i] * element));
            free(found[i]);
            free(expected[i]);
            H5Sclose(spaces[i]);
            H5Sclose(memories[i]);
        }
    }
}

void selections(void) {
    static struct value values[kElements];
    const hsize_t extent[] = {kDepth, kRows, kColumns}, chunks[][3] = {{0}, {4, 8, 16}, {11, 40, 53}, {1, 1, 53}};
    const char *names[] = {"contiguous", "chunked", "one-chunk", "rows"};
    const hid_t type = value_type(), events = H5EScreate();
    for (int i = 0; i < kElements; ++i) {
        values[i].x = i / 7.0;
        for (int t = 0; t < 3; ++t) values[i].tag[t] = (int16_t)(i + t);
        snprintf(values[i].name, sizeof values[i].name, "%d", i % 9999);
    }
    const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_userblock(creation, 1024);
    hid_t file = H5Fcreate("selections.h5", H5F_ACC_TRUNC, creation, H5P_DEFAULT);
    for (int layout = 0; layout < 4; ++layout) {
        const hid_t dataset = make_dataset(file, names[layout], type, 3, extent, layout == 0 ? NULL : chunks[layout]);
        CHECK(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
        read_some(dataset, type, sizeof(struct value), extent, events, 6); /* partly in HDF5's caches */
        H5Dclose(dataset);
    }
    H5Fclose(file);
    file = H5Fopen("selections.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    for (int layout = 0; layout < 4; ++layout) {
        const hid_t dataset = H5Dopen2(file, names[layout], H5P_DEFAULT);
        read_some(dataset, type, sizeof(struct value), extent, events, 6);
        H5Dclose(dataset);
    }
    H5Fclose(file);
    H5Pclose(creation);
    H5Tclose(type);
    CHECK(H5ESclose(events) >= 0);
}

/* Reads that HDF5 itself has to make. */
void not_possible(void) {
    enum { kWords = 5000 };
    static int words[kWords], found[kWords];
    static double converted[kWords];
    const hsize_t extent[] = {kWords}, chunk[] = {500}, small[] = {100};
    for (int i = 0; i < kWords; ++i) words[i] = i % 977;
    const hid_t events = H5EScreate(), file = make_file("not-possible.h5", H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, extent, NULL), few = H5Screate_simple(1, small, NULL);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(list, 1, chunk);
    H5Pset_deflate(list, 1);
    hid_t dataset = H5Dcreate2(file, "filtered", H5T_NATIVE_INT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Dwrite_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, words, events);
    CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found, events) >= 0);
    CHECK(memcmp(words, found, sizeof words) == 0); /* at once */
    H5Dclose(dataset);
    H5Pclose(list);
    list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(list, H5D_COMPACT);
    dataset = H5Dcreate2(file, "compact", H5T_NATIVE_INT, few, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Dwrite_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, words, events);
    memset(found, 0, sizeof found);
    CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found, events) >= 0);
    CHECK(memcmp(words, found, 100 * sizeof(int)) == 0);
    H5Dclose(dataset);
    H5Pclose(list);
    dataset = H5Dcreate2(file, "plain", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    memset(found, 1, sizeof found);
    CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found, events) >= 0);
    for (int i = 0; i < kWords; ++i) CHECK(found[i] == 0); /* not allocated: fill values */
    H5Dwrite_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, words, events);
    CHECK(H5Dread_async(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, converted, events) >= 0);
    for (int i = 0; i < kWords; ++i) CHECK(converted[i] == words[i]);
    list = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_data_transform(list, "2*x");
    CHECK(H5Dread_async(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, list, found, events) >= 0);
    for (int i = 0; i < kWords; ++i) CHECK(found[i] == 2 * words[i]);
    H5Pclose(list);
    H5Dclose(dataset);
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, H5T_VARIABLE);
    const char *some[100];
    char *back[100];
    for (int i = 0; i < 100; ++i) some[i] = i % 2 ? "odd" : "an even one";
    dataset = H5Dcreate2(file, "text", text, few, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite_async(dataset, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, some, events);
    CHECK(H5Dread_async(dataset, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, back, events) >= 0);
    for (int i = 0; i < 100; ++i) CHECK(strcmp(some[i], back[i]) == 0);
    H5Dvlen_reclaim(text, few, H5P_DEFAULT, back);
    H5Tclose(text);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Sclose(few);
    H5Fclose(file);
    wait_all(events, NULL);
    CHECK(H5ESclose(events) >= 0);
}
