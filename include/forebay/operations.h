/* The operations that forebay registers with HDF5 (H5VLregister_opt_operation): names and arguments. Programs call the
 * functions of forebay.h, which describes each operation. This header is for bindings of other languages:
 * H5VLfind_opt_operation gives the value of a name, and H5VLfile_optional_op or H5VLdataset_optional_op calls it. HDF5
 * hands the call to the connector of the object. So it reaches the right copy of the plugin, also with two HDF5
 * libraries in the process. Identifiers are HDF5's hid_t. A message on HDF5's error stack ends with the number that the
 * function puts into errno: "errno = 95". */
#ifndef FOREBAY_OPERATIONS_H
#define FOREBAY_OPERATIONS_H

#include <stdint.h>

/* Operations of a file. The first ones have no arguments: */
#define FOREBAY_FILE_PAUSE_DRAIN "forebay.file.pause_drain"
#define FOREBAY_FILE_RESUME_DRAIN "forebay.file.resume_drain"
#define FOREBAY_FILE_WAIT_DURABLE "forebay.file.wait_durable"
#define FOREBAY_FILE_PREFETCH_CANCEL "forebay.file.prefetch_cancel"

#define FOREBAY_FILE_PREFETCH "forebay.file.prefetch"
struct forebay_ranges {
    uint64_t count; /* 0: the whole file */
    const uint64_t *offsets, *lengths;
};

#define FOREBAY_FILE_PREFETCH_LEFT "forebay.file.prefetch_left" /* bytes that are still to come */
#define FOREBAY_FILE_EVICT "forebay.file.evict"                 /* bytes that were removed */
#define FOREBAY_FILE_QUERY "forebay.file.query"                 /* bytes in the log and in the read cache */
struct forebay_bytes {
    uint64_t *bytes;
};

#define FOREBAY_FILE_PIN "forebay.file.pin"
struct forebay_switch {
    int on;
};

#define FOREBAY_FILE_STATISTICS "forebay.file.statistics"
struct forebay_text {
    char *into;
    uint64_t size;
    uint64_t *length;
};

/* Operations of a dataset. */
#define FOREBAY_DATASET_PREFETCH "forebay.dataset.prefetch"
struct forebay_selection {
    int64_t file_space; /* H5S_ALL, or a selection in the dataset's extent */
};

#define FOREBAY_DATASET_FOLLOW "forebay.dataset.follow"
struct forebay_rows {
    uint64_t count;
    const uint64_t *rows;
};

#endif
