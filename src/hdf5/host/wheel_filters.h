// The wheel of netCDF4 puts the folder of its filters (zstd, blosc, …) into HDF5_PLUGIN_PATH at import, unless the
// variable is set (netCDF4/__init__.py). forebay needs the variable, so a program could not read its own files.
#pragma once

namespace forebay::hdf5 {

// If that wheel uses the host, adds the folder behind all others. Call it just before a file is opened: netCDF's own
// start sets the folders anew. Only the first call acts. A failure leaves the folders alone. Thread-safe.
void add_wheel_filters() noexcept;

}   // namespace forebay::hdf5
