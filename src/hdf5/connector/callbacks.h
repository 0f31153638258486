// The connector's callbacks: one file for each HDF5 object class, with its part of H5VL_class_t (connector.cc).
// All run inside `guard`, in any thread of HDF5, and block only as the connector beneath does. Source: HDF5 reference
// manual, H5VL_class_t version 3.
#pragma once

#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

[[nodiscard]] H5VL_attr_class_t attribute_callbacks();
[[nodiscard]] H5VL_dataset_class_t dataset_callbacks();
[[nodiscard]] H5VL_datatype_class_t datatype_callbacks();
[[nodiscard]] H5VL_file_class_t file_callbacks();
[[nodiscard]] H5VL_group_class_t group_callbacks();
[[nodiscard]] H5VL_link_class_t link_callbacks();
[[nodiscard]] H5VL_object_class_t object_callbacks();
[[nodiscard]] H5VL_introspect_class_t introspect_callbacks();
[[nodiscard]] H5VL_request_class_t request_callbacks();
[[nodiscard]] H5VL_blob_class_t blob_callbacks();
[[nodiscard]] H5VL_token_class_t token_callbacks();
[[nodiscard]] H5VL_wrap_class_t wrap_callbacks();

[[nodiscard]] const H5VL_class_t& connector_class();

}   // namespace forebay::hdf5
