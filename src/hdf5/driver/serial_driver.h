// The serial file driver: stages HDF5's bytes. HDF5 and the application see sec2's behaviour: open flags, permissions,
// errors and their codes, feature flags, locks, sizes. Only writes, truncates and flushes are those of a StagedFile.
// It needs no connector: HDF5 opens external links and virtual sources with the driver of the file that holds them. The
// first call that needs the file's content attaches the file to the engine, because HDF5 opens most files twice, first
// only to compare them with its open files. Ownership: one `SerialFile` for each open, from `open` to `close`; it
// shares the OpenFile with the connector. Thread-safety: HDF5 calls one file from one thread at a time. Blocking: read,
// write, truncate and flush as the StagedFile does; close waits for Engine::detach. After a crash: see
// StagedFile::commit. A whole flush commits, the flush of one object does not (call_scope.h). Source: HDF5 reference
// manual, H5FD_class_t version 1; H5FDsec2.c of 1.14.5 for behaviour and messages.
#pragma once

#include "hdf5/host/host.h"

namespace forebay::hdf5 {

inline constexpr const char* kDriverName = "forebay";
// HDF5 reserves 256..511 for drivers that are not (yet) in its registry.
inline constexpr H5FD_class_value_t kDriverValue = 482;

// Registers the class with the host. Negative: HDF5 refused; its error stack holds the reason.
[[nodiscard]] hid_t register_driver();

}   // namespace forebay::hdf5
