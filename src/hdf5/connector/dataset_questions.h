// Asks the connector beneath about a dataset, for forebay and not for the program.
// Thread-safety: as HDF5's. Blocks while HDF5 reads metadata, collectively with collective metadata reads. Errors are
// on HDF5's stack. Source: HDF5 reference manual, H5Dget_create_plist, _space, _type, _offset.
#pragma once

#include "hdf5/connector/object.h"
#include "hdf5/host/host.h"

namespace forebay::hdf5 {

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

// Asks for one identifier, which the caller closes. Negative: a failure.
[[nodiscard]] hid_t ask(const Object& dataset, H5VL_dataset_get_t what);

// Calls an operation of HDF5's own connector. The program sees no address, so none is exposed. False: it failed.
[[nodiscard]] bool ask_native(const Object& dataset, int operation, H5VL_native_dataset_optional_args_t& native);

// Returns the offset of a contiguous dataset in its file, or HADDR_UNDEF if it has none yet.
[[nodiscard]] haddr_t address_of(const Object& dataset);

}   // namespace forebay::hdf5
