/* A minimal connector that knows no file. It measures HDF5's own search for a connector. */
#include <H5PLextern.h>
#include <H5VLconnector.h>

static herr_t specific(void *object, H5VL_file_specific_args_t *args, hid_t transfer, void **request) {
    (void)object, (void)transfer, (void)request;
    if (args->op_type == H5VL_FILE_IS_ACCESSIBLE) *args->args.is_accessible.accessible = 0;
    return 0;
}

/* A value from the range that HDF5 reserves for tests. */
static const H5VL_class_t the_class = {
    .version = H5VL_VERSION, .value = 300, .name = "plain", .file_cls = {.specific = specific}};

H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_VOL; }
const void *H5PLget_plugin_info(void) { return &the_class; }
