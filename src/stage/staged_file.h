// One open file whose writes are staged: read-your-writes, truncate, commit, drain, close.
//
// The HDF5 file driver calls this with byte extents; HDF5, and MPI, are unknown here. A `StagedFile`
// is shared by every handle of the process on the same file (device and inode), and is obtained from
// `Engine::attach`.
//
// Thread-safety: every call may come from any thread; writes to one file are serialised.
// After a crash: see `commit`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/options.h"
#include "base/status.h"
#include "log/ledger.h"

namespace forebay::stage {

enum class ByteClass : std::uint8_t { kRaw, kMetadata };

class StagedFile {
  public:
    virtual ~StagedFile() = default;

    // Copies `bytes` into the staging log; they are the newest content of [offset, offset + size) for
    // every later `read` of this process. Blocks only for room in the staging area (option full).
    // Errors: the sticky background error, if there is one; otherwise none that a direct write would
    // not have had (the log's own failures fall back to writing through).
    virtual Status write(std::uint64_t offset, std::span<const std::byte> bytes, ByteClass byte_class) = 0;

    // Fills `bytes` with the newest content; beyond the end of the file: zeros, as HDF5 expects of a driver.
    virtual Status read(std::uint64_t offset, std::span<std::byte> bytes) = 0;

    // Sets the logical size; later reads beyond it yield zeros. Never blocks on the target.
    virtual Status truncate(std::uint64_t size) = 0;
    [[nodiscard]] virtual std::uint64_t size() const = 0;

    // Everything written before is one consistent state (H5Fflush). Once this returns, the death of
    // the process loses nothing that was written before it; metadata may drain from now on.
    // Blocks until drained when option flush=drain. Reports the sticky background error.
    virtual Status commit() = 0;

    // Blocks until every staged byte, committed or not, is in the target. Reports the sticky error.
    virtual Status drain() = 0;

    // Drains, then writes straight to the target for the rest of the file's life (SWMR, raw handle taken).
    virtual Status step_aside(log::AsideReason reason) = 0;

    [[nodiscard]] virtual log::FileCounters counters() const = 0;
};

}   // namespace forebay::stage
