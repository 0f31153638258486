// What the connector beneath is asked of a dataset on behalf of forebay, not of the program.
//
// Thread-safety: as HDF5's. Blocks as HDF5's reading of a dataset's metadata does, which with collective metadata reads
// is collective. Errors are on HDF5's stack. Source: HDF5 reference manual, H5Dget_create_plist, H5Dget_space,
// H5Dget_type, H5Dget_offset.
#pragma once

#include "hdf5/connector/object.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

// A value of the library's that is closed with its owner.
class Handle {
  public:
    Handle(hid_t id, herr_t (*close)(hid_t)) noexcept : id_(id), close_(close) {}
    ~Handle() {
        if (id_ >= 0) close_(id_);
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    [[nodiscard]] hid_t id() const noexcept { return id_; }
    explicit operator bool() const noexcept { return id_ >= 0; }

  private:
    const hid_t id_;
    herr_t (*const close_)(hid_t);
};

// One thing that the connector beneath tells of a dataset; the caller closes it. Negative: it does not.
[[nodiscard]] hid_t ask(const Object& dataset, H5VL_dataset_get_t what);

// An operation of HDF5's own connector. The program does not see the addresses, so the file is not given away. False:
// it failed.
[[nodiscard]] bool ask_native(const Object& dataset, int operation, H5VL_native_dataset_optional_args_t& native);

// Where a contiguous dataset begins in its file. HADDR_UNDEF: nowhere yet.
[[nodiscard]] haddr_t address_of(const Object& dataset);

}   // namespace forebay::hdf5
