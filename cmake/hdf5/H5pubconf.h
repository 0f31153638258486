// What HDF5's headers want to know of the platform, for headers that come from a source package: HDF5 writes this file
// when it is configured. Without H5_HAVE_PARALLEL no header of MPI is wanted.
//
// Nothing here decides about the binary interface but the sizes, and they are the compiler's. The names are those of
// HDF5 1.14's public headers.
#pragma once

#define H5_HAVE_FEATURES_H 1
#define H5_HAVE_SYS_TYPES_H 1

#define H5_SIZEOF_INT __SIZEOF_INT__
#define H5_SIZEOF_LONG __SIZEOF_LONG__
#define H5_SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define H5_SIZEOF_SIZE_T __SIZEOF_SIZE_T__
#define H5_SIZEOF_SSIZE_T __SIZEOF_SIZE_T__
#define H5_SIZEOF_INT64_T 8
