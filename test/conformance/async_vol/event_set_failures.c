/* Calls with an event set that fail: `async_vol_event_set_failures WHERE FILE`. WHERE is `in-event-set`, as with Async
 * VOL, or `at-once`, as natively. The file that is left is the same in both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdf5.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

static int in_event_set;

/* The set has one failure, of the call `name`; `succeeded`: as many calls before it in this set have not failed. */
static void expect_failure(hid_t set, const char *name, uint64_t succeeded) {
    size_t left = 1, count = 0, cleared = 0;
    hbool_t failed = false, status = false;
    H5ES_err_info_t info;
    CHECK(H5ESwait(set, H5ES_WAIT_FOREVER, &left, &failed) >= 0);
    CHECK(H5ESget_err_status(set, &status) >= 0 && H5ESget_err_count(set, &count) >= 0);
    if (!in_event_set) {
        CHECK(!failed && !status && count == 0 && left == 0);
        return;
    }
    CHECK(failed && status && count == 1);
    CHECK(H5ESget_err_info(set, 1, &info, &cleared) >= 0 && cleared == 1);
    CHECK(strcmp(info.api_name, name) == 0 && info.op_ins_count == succeeded && info.op_ins_ts > 0);
    CHECK(strstr(info.app_file_name, "event_set_failures.c") != NULL && info.app_line_num > 0);
    CHECK(H5Eget_num(info.err_stack_id) > 0);
    CHECK(H5Eclose_stack(info.err_stack_id) >= 0);
    H5free_memory(info.api_name);
    H5free_memory(info.api_args);
    H5free_memory(info.app_file_name);
    H5free_memory(info.app_func_name);
}

/* A set of its own for a call that fails, as one with a failure takes no more. */
#define FAILS(name, call)                                  \
    do {                                                   \
        const hid_t set = H5EScreate();                    \
        int went_on;                                       \
        H5E_BEGIN_TRY { went_on = (call) >= 0; }           \
        H5E_END_TRY                                        \
        if (went_on != in_event_set) printf("%s\n", name); \
        CHECK(went_on == in_event_set);                    \
        expect_failure(set, name, 0);                      \
        CHECK(H5ESclose(set) >= 0);                        \
    } while (0)

/* HDF5 looks at all open objects to find those of this file. An object that could not be made is not one of them. */
static void expect_open(hid_t file, ssize_t objects) {
    hid_t found[8];
    CHECK(H5Fget_obj_count(file, H5F_OBJ_ALL) == objects);
    CHECK(H5Fget_obj_count(file, H5F_OBJ_ALL | H5F_OBJ_LOCAL) == objects);
    CHECK(H5Fget_obj_ids(file, H5F_OBJ_ALL, 8, found) == objects);
}

/* An object that could not be made: whatever is asked of it fails, and closing it succeeds. */
static void use_nothing(hid_t file, hid_t nothing, hid_t space) {
    H5O_info2_t info;
    H5E_BEGIN_TRY {
        CHECK(H5Gcreate2(nothing, "below", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) < 0);
        CHECK(H5Oget_info3(nothing, &info, H5O_INFO_BASIC) < 0 && H5Lexists(nothing, "x", H5P_DEFAULT) < 0);
        CHECK(H5Acreate2(nothing, "a", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT) < 0);
        CHECK(H5Lcreate_hard(nothing, "group", file, "wrong", H5P_DEFAULT, H5P_DEFAULT) < 0);
        CHECK(H5Lcreate_hard(file, "group", nothing, "wrong", H5P_DEFAULT, H5P_DEFAULT) < 0);
        CHECK(H5Lmove(file, "group", nothing, "wrong", H5P_DEFAULT, H5P_DEFAULT) < 0);
        CHECK(H5Lcopy(nothing, "group", file, "wrong", H5P_DEFAULT, H5P_DEFAULT) < 0);
        CHECK(H5Ocopy(file, "group", nothing, "wrong", H5P_DEFAULT, H5P_DEFAULT) < 0);
        CHECK(H5Fmount(nothing, "group", file, H5P_DEFAULT) < 0 && H5Iget_file_id(nothing) < 0);
    }
    H5E_END_TRY
    hid_t more = H5I_INVALID_HID;
    CHECK(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_GROUP) == 1);
    expect_open(file, 1);
    FAILS("H5Gcreate_async", more = H5Gcreate_async(nothing, "x", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT, set));
    CHECK(H5Gclose(more) >= 0);
    FAILS("H5Lexists_async", H5Lexists_async(nothing, "x", &(bool){false}, H5P_DEFAULT, set));
}

static void fail_with_groups_and_links(hid_t file, hid_t space) {
    hid_t made = H5I_INVALID_HID;
    FAILS("H5Gcreate_async", made = H5Gcreate_async(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT, set));
    if (in_event_set) {
        use_nothing(file, made, space);
        CHECK(H5Gclose(made) >= 0);
    }
    FAILS("H5Gopen_async", made = H5Gopen_async(file, "nowhere", H5P_DEFAULT, set));
    if (in_event_set) {
        const hid_t set = H5EScreate();
        size_t left = 1;
        hbool_t failed = true;
        CHECK(H5Gclose_async(made, set) >= 0);
        CHECK(H5ESwait(set, H5ES_WAIT_FOREVER, &left, &failed) >= 0 && !failed && H5ESclose(set) >= 0);
    }
    FAILS("H5Lcreate_hard_async", H5Lcreate_hard_async(file, "nowhere", file, "link", H5P_DEFAULT, H5P_DEFAULT, set));
    FAILS("H5Lcreate_soft_async", H5Lcreate_soft_async("x", file, "group", H5P_DEFAULT, H5P_DEFAULT, set));
    FAILS("H5Ldelete_async", H5Ldelete_async(file, "nowhere", H5P_DEFAULT, set));
    FAILS("H5Ocopy_async", H5Ocopy_async(file, "nowhere", file, "copy", H5P_DEFAULT, H5P_DEFAULT, set));
}

static void fail_with_datasets_and_attributes(hid_t file, hid_t space) {
    int values[4] = {1, 2, 3, 4};
    const hsize_t other[] = {3};
    hid_t made = H5I_INVALID_HID;
    FAILS("H5Dcreate_async",
          made = H5Dcreate_async(file, "data", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT, set));
    if (in_event_set) {
        expect_open(file, 1);
        FAILS("H5Dwrite_async", H5Dwrite_async(made, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values, set));
        FAILS("H5Dread_async", H5Dread_async(made, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values, set));
        H5E_BEGIN_TRY { CHECK(H5Dget_space(made) < 0 && H5Dget_space_async(made, H5ES_NONE) < 0); }
        H5E_END_TRY
        CHECK(H5Dclose(made) >= 0);
    }
    FAILS("H5Dopen_async", made = H5Dopen_async(file, "nowhere", H5P_DEFAULT, set));
    if (in_event_set) CHECK(H5Dclose(made) >= 0);
    const hid_t dataset = H5Dopen2(file, "data", H5P_DEFAULT), wrong = H5Screate_simple(1, other, NULL);
    FAILS("H5Dwrite_async", H5Dwrite_async(dataset, H5T_NATIVE_INT, wrong, H5S_ALL, H5P_DEFAULT, values, set));
    FAILS("H5Dread_async", H5Dread_async(dataset, H5T_NATIVE_INT, wrong, H5S_ALL, H5P_DEFAULT, values, set));
    FAILS("H5Dset_extent_async", H5Dset_extent_async(dataset, other, set));
    FAILS("H5Acreate_async",
          made = H5Acreate_async(dataset, "a", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, set));
    if (in_event_set) {
        expect_open(file, 2);
        FAILS("H5Awrite_async", H5Awrite_async(made, H5T_NATIVE_INT, values, set));
        CHECK(H5Aclose(made) >= 0);
    }
    FAILS("H5Aopen_async", made = H5Aopen_async(dataset, "b", H5P_DEFAULT, set));
    if (in_event_set) CHECK(H5Aclose(made) >= 0);
    CHECK(H5Sclose(wrong) >= 0 && H5Dclose(dataset) >= 0);
}

static void fail_with_files(hid_t file) {
    hid_t made = H5I_INVALID_HID;
    FAILS("H5Fopen_async", made = H5Fopen_async("nowhere.h5", H5F_ACC_RDONLY, H5P_DEFAULT, set));
    expect_open(file, 1);
    if (in_event_set) CHECK(H5Fclose(made) >= 0);
    FAILS("H5Fcreate_async", made = H5Fcreate_async("no/where.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT, set));
    if (in_event_set) {
        H5E_BEGIN_TRY { CHECK(H5Gopen2(made, "/", H5P_DEFAULT) < 0 && H5Fflush(made, H5F_SCOPE_LOCAL) < 0); }
        H5E_END_TRY
        CHECK(H5Fclose(made) >= 0);
    }
}

/* HDF5 needs more of these than an object without anything beneath can give. */
static void fail_at_once(hid_t file) {
    const hid_t set = H5EScreate();
    size_t left = 1;
    hbool_t failed = true;
    H5E_BEGIN_TRY {
        CHECK(H5Oopen_async(file, "nowhere", H5P_DEFAULT, set) < 0);
        CHECK(H5Topen_async(file, "nowhere", H5P_DEFAULT, set) < 0);
    }
    H5E_END_TRY
    CHECK(H5ESwait(set, H5ES_WAIT_FOREVER, &left, &failed) >= 0 && !failed && H5ESclose(set) >= 0);
}

/* As in Async VOL's own test: a failure after calls that have succeeded, in one set, which takes no more then. */
static void fail_after_successes(const char *name) {
    const hid_t set = H5EScreate();
    const hid_t file = H5Fcreate_async(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT, set);
    hid_t second = H5I_INVALID_HID;
    const hid_t first = H5Gcreate_async(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT, set);
    H5E_BEGIN_TRY { second = H5Gcreate_async(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT, set); }
    H5E_END_TRY
    CHECK(file >= 0 && first >= 0 && (second >= 0) == in_event_set);
    if (in_event_set) CHECK(H5Gclose_async(second, set) >= 0);
    expect_failure(set, "H5Gcreate_async", 3); /* H5Fcreate_async counts twice in HDF5 */
    H5E_BEGIN_TRY { second = H5Gopen_async(file, "group", H5P_DEFAULT, set); }
    H5E_END_TRY
    CHECK((second >= 0) != in_event_set);
    if (second >= 0) CHECK(H5Gclose(second) >= 0);
    CHECK(H5ESclose(set) >= 0 && H5Gclose(first) >= 0 && H5Fclose(file) >= 0);
}

int main(int argc, char **argv) {
    const hsize_t extent[] = {4};
    int values[4] = {1, 2, 3, 4};
    if (argc < 3) return 2;
    in_event_set = strcmp(argv[1], "in-event-set") == 0;
    fail_after_successes(argv[2]);
    const hid_t file = H5Fopen(argv[2], H5F_ACC_RDWR, H5P_DEFAULT), space = H5Screate_simple(1, extent, NULL);
    const hid_t timeless = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_obj_track_times(timeless, false) >= 0);
    const hid_t dataset = H5Dcreate2(file, "data", H5T_NATIVE_INT, space, H5P_DEFAULT, timeless, H5P_DEFAULT);
    const hid_t attribute = H5Acreate2(dataset, "a", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    CHECK(H5Awrite(attribute, H5T_NATIVE_INT, values) >= 0 && H5Aclose(attribute) >= 0 && H5Dclose(dataset) >= 0);
    fail_with_groups_and_links(file, space);
    fail_with_datasets_and_attributes(file, space);
    fail_with_files(file);
    fail_at_once(file);
    CHECK(H5Pclose(timeless) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
    CHECK(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL) == 0);
    printf("done\n");
    return 0;
}
