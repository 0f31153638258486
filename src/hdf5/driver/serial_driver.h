// The serial file driver: HDF5's bytes on their way into the staging engine.
//
// To HDF5 and to the application it behaves as sec2 does: open flags, permissions, errors and their
// codes, feature flags, locks, sizes. Only where the bytes go differs: writes, truncates and flushes are
// those of a StagedFile. It needs no connector: HDF5 opens external links and virtual sources with the
// driver of the file they are in.
//
// A file is attached to the engine with the first call that needs its content. HDF5 opens most files
// twice, the first time only to compare them with those that are open already.
//
// Ownership: one `SerialFile` per open, from `open` to `close`. It shares the OpenFile with the connector.
// Thread-safety: HDF5 calls one file from one thread at a time.
// Blocking: read, write, truncate and flush as the StagedFile does; close waits for Engine::detach.
// After a crash: see StagedFile::commit. A whole flush commits, flushing one object does not (call_scope.h).
// Source: HDF5 reference manual, H5FD_class_t version 1; H5FDsec2.c of 1.14.5 for behaviour and messages.
#pragma once

#include "hdf5/host/host.h"

namespace forebay::hdf5 {

inline constexpr const char* kDriverName = "forebay";
// From the range 256..511 that HDF5 keeps for drivers that are not (yet) in its registry.
inline constexpr H5FD_class_value_t kDriverValue = 482;

// Registers the class with the host. Negative: HDF5 refused; its error stack says why.
[[nodiscard]] hid_t register_driver();

}   // namespace forebay::hdf5
