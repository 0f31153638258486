#include "hdf5/connector/object.h"

namespace forebay::hdf5 {

Origin::~Origin() {
    const ErrorStackKeeper keeper;
    if (under_connector >= 0) host().H5Idec_ref(under_connector);
    if (connector >= 0) host().H5Idec_ref(connector);
}

}   // namespace forebay::hdf5
