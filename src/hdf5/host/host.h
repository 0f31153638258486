// The host: the HDF5 library that loaded this plugin, called through a table of function pointers.
// The plugin is linked with no libhdf5, because a process may hold several: a Python wheel brings its own, renamed and
// loaded with local visibility. The host is the library whose code called H5PLget_plugin_info. A copy of the plugin
// serves one host for the life of the process (plugin.cc). Names are those of the HDF5 reference manual (H5PL, H5VL,
// H5FD, H5P, H5E). Ownership: the table is static; the library is never unloaded. Thread-safety: `bind_host` runs once,
// under the lock of plugin.cc; then the table is constant. Blocking: dlopen and dlsym at binding only.
#pragma once

#include <H5FDdevelop.h>
#include <H5VLconnector.h>
#include <H5VLconnector_passthru.h>
#include <H5VLnative.h>
#include <hdf5.h>

#include "base/status.h"

// Constants such as H5F_ACC_RDWR would call into the library by name through these. A callback needs no initialisation.
#undef H5CHECK
#define H5CHECK
#undef H5OPEN
#define H5OPEN

namespace forebay::hdf5 {

// clang-format off: it takes the lists for nested calls, and indents them further each time.
// Functions that every supported library has.
#define FOREBAY_HOST_FUNCTIONS(X) \
    X(H5get_libversion) X(H5allocate_memory) \
    X(H5Iinc_ref) X(H5Idec_ref) \
    X(H5Pcopy) X(H5Pclose) X(H5Pget) X(H5Pget_size) X(H5Pset) X(H5Pexist) X(H5Pget_nfilters) X(H5Pget_layout) \
    X(H5Pget_external_count) X(H5Pget_data_transform) X(H5Tequal) X(H5Tclose) \
    X(H5Sget_simple_extent_type) X(H5Sget_simple_extent_ndims) X(H5Sget_simple_extent_dims) X(H5Sclose) \
    X(H5Sget_select_bounds) X(H5Sselect_intersect_block) X(H5Ssel_iter_create) X(H5Ssel_iter_get_seq_list) \
    X(H5Ssel_iter_close) X(H5Pget_chunk) X(H5Pisa_class) X(H5Tget_size) \
    X(H5Sget_select_npoints) X(H5Sselect_valid) X(H5Tget_class) X(H5Tget_super) X(H5Tget_nmembers) \
    X(H5Tget_member_type) X(H5Tis_variable_str) \
    X(H5Pset_vol) X(H5Pget_vol_id) X(H5Pget_vol_info) X(H5Pget_driver) X(H5Pset_driver) \
    X(H5Pget_elink_fapl) X(H5Pset_elink_fapl) X(H5Pget_elink_cb) X(H5Pset_elink_cb) X(H5Pget_elink_prefix) \
    X(H5Epush2) X(H5Ewalk2) X(H5Eget_current_stack) X(H5Eset_current_stack) X(H5Eclear2) \
    X(H5Eget_auto2) X(H5Eset_auto2) X(H5Eauto_is_v2) \
    X(H5FDregister) X(H5FDdriver_query) \
    X(H5VLregister_connector_by_name) X(H5VLregister_connector_by_value) X(H5VLget_value) \
    X(H5VLclose) X(H5VLfree_connector_info) X(H5VLconnector_str_to_info) \
    X(H5VLconnector_info_to_str) X(H5free_memory) \
    X(H5VLget_object) X(H5VLget_wrap_ctx) X(H5VLwrap_object) X(H5VLunwrap_object) \
    X(H5VLfree_wrap_ctx) \
    X(H5VLattr_create) X(H5VLattr_open) X(H5VLattr_read) X(H5VLattr_write) X(H5VLattr_get) \
    X(H5VLattr_specific) X(H5VLattr_optional) X(H5VLattr_close) \
    X(H5VLdataset_create) X(H5VLdataset_open) X(H5VLdataset_read) X(H5VLdataset_write) \
    X(H5VLdataset_get) X(H5VLdataset_specific) X(H5VLdataset_optional) X(H5VLdataset_close) \
    X(H5VLdatatype_commit) X(H5VLdatatype_open) X(H5VLdatatype_get) X(H5VLdatatype_specific) \
    X(H5VLdatatype_optional) X(H5VLdatatype_close) \
    X(H5VLfile_create) X(H5VLfile_open) X(H5VLfile_get) X(H5VLfile_specific) \
    X(H5VLfile_optional) X(H5VLfile_close) \
    X(H5VLgroup_create) X(H5VLgroup_open) X(H5VLgroup_get) X(H5VLgroup_specific) \
    X(H5VLgroup_optional) X(H5VLgroup_close) \
    X(H5VLlink_create) X(H5VLlink_copy) X(H5VLlink_move) X(H5VLlink_get) X(H5VLlink_specific) \
    X(H5VLlink_optional) \
    X(H5VLobject_open) X(H5VLobject_copy) X(H5VLobject_get) X(H5VLobject_specific) \
    X(H5VLobject_optional) \
    X(H5VLintrospect_get_conn_cls) X(H5VLintrospect_get_cap_flags) X(H5VLintrospect_opt_query) \
    X(H5VLrequest_wait) X(H5VLrequest_notify) X(H5VLrequest_cancel) X(H5VLrequest_specific) \
    X(H5VLrequest_optional) X(H5VLrequest_free) \
    X(H5VLblob_put) X(H5VLblob_get) X(H5VLblob_specific) X(H5VLblob_optional) \
    X(H5VLtoken_cmp) X(H5VLtoken_to_str) X(H5VLtoken_from_str) \
    X(H5VLoptional) \
    X(H5VLregister_opt_operation) X(H5VLfind_opt_operation) X(H5VLunregister_opt_operation)

// Variables with identifiers, which the library sets when it is initialised.
#define FOREBAY_HOST_VARIABLES(X) \
    X(H5P_LST_FILE_ACCESS_ID_g) X(H5P_LST_LINK_ACCESS_ID_g) X(H5P_LST_GROUP_ACCESS_ID_g) \
    X(H5P_LST_DATASET_ACCESS_ID_g) X(H5P_LST_DATATYPE_ACCESS_ID_g) \
    X(H5P_LST_ATTRIBUTE_ACCESS_ID_g) X(H5P_LST_DATASET_XFER_ID_g) \
    X(H5P_CLS_DATASET_XFER_ID_g) X(H5E_ERR_CLS_g) \
    X(H5E_ARGS_g) X(H5E_FILE_g) X(H5E_IO_g) X(H5E_VFL_g) X(H5E_VOL_g) X(H5E_RESOURCE_g) \
    X(H5E_INTERNAL_g) \
    X(H5E_BADVALUE_g) X(H5E_BADRANGE_g) X(H5E_BADFILE_g) X(H5E_OVERFLOW_g) X(H5E_CANTOPENFILE_g) \
    X(H5E_CANTCLOSEFILE_g) X(H5E_CANTLOCKFILE_g) X(H5E_CANTUNLOCKFILE_g) X(H5E_CANTDELETEFILE_g) \
    X(H5E_CANTFLUSH_g) X(H5E_CANTINIT_g) X(H5E_CANTOPERATE_g) X(H5E_READERROR_g) \
    X(H5E_WRITEERROR_g) X(H5E_SEEKERROR_g) X(H5E_NOSPACE_g) X(H5E_FCNTL_g) X(H5E_UNSUPPORTED_g)
// clang-format on

struct Host {
#define FOREBAY_MEMBER(name) decltype(&::name) name = nullptr;
    FOREBAY_HOST_FUNCTIONS(FOREBAY_MEMBER)
#undef FOREBAY_MEMBER
#define FOREBAY_MEMBER(name) const hid_t* name = nullptr;
    FOREBAY_HOST_VARIABLES(FOREBAY_MEMBER)
#undef FOREBAY_MEMBER

    unsigned major_version = 0, minor_version = 0, release = 0;

    // The identifier of a built-in driver, or H5I_INVALID_HID. Ask for the parallel drivers only once MPI runs.
    [[nodiscard]] hid_t sec2() const;
    [[nodiscard]] hid_t subfiling() const;
    [[nodiscard]] hid_t mpio() const;
    [[nodiscard]] void* find_symbol(const char* name) const noexcept;

    using DriverInit = hid_t (*)();
    DriverInit sec2_init = nullptr, subfiling_init = nullptr, mpio_init = nullptr;
    const hid_t *sec2_id = nullptr, *subfiling_id = nullptr, *mpio_id = nullptr;
    void* library = nullptr;
};

// The bound library. Every pointer is null until `bind_host` succeeds.
[[nodiscard]] const Host& host() noexcept;

// The base of the library that holds `address`, or null.
[[nodiscard]] const void* library_base(const void* address) noexcept;

// Binds the library that holds the code at `caller`. kUnsupported: too old, too new, or without one of the functions.
// kInternal: not found, perhaps because a program links HDF5 statically and does not export its symbols.
[[nodiscard]] Status bind_host(const void* caller);

}   // namespace forebay::hdf5
