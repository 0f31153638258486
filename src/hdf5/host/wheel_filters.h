// Filters that a Python wheel brings along. The wheel of netCDF4 names the folder of its filters (zstd, blosc, …) in
// HDF5_PLUGIN_PATH when it is imported, but only if nobody has set the variable (netCDF4/__init__.py). Where forebay is
// on it is set, to find forebay. Without the folder the program could not read its own files.
#pragma once

namespace forebay::hdf5 {

// If the host is used by that wheel: has the host look there too, after all other folders. To be called before a file
// is opened; only the first call does anything. Earlier would be too soon: netCDF's own start sets the folders anew.
// What fails leaves them as they are. Thread-safe.
void add_wheel_filters() noexcept;

}   // namespace forebay::hdf5
