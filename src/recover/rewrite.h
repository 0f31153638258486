// Carries out a replay: writes the newest bytes to the target, in file order, with large writes.
// Idempotent: after a crash at any instant the same picture gives the same file. It checks that all needed bytes of the
// logs are readable before it changes the target. A second thread, if one starts, reads logs while the first writes.
// The device is asked to begin each write at once. Memory: 17 MiB, one bit for each MiB of a log, and page tables of
// mapped logs (1/512 of them). Blocks on reads and writes. Ends with one sync of the target, which frees the logs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/status.h"
#include "io/file.h"
#include "recover/replay.h"
#include "recover/superblock.h"
#include "task/engine.h"

namespace forebay::recover {

struct Rewritten {
    std::uint64_t bytes = 0, writes = 0;   // from the logs
    std::uint64_t size = 0;                // of the target now
    Mark mark = Mark::kNone;
};

// `logs[i]` is the file of `Newest::log` i. One thread at a time calls `written(bytes)`. `clear_mark` removes HDF5's
// mark of a file open for writing. `start_thread` as in task::Limits. Errors: those of the files; kCorrupt: a log has
// become shorter. The target may then have a part of the picture.
[[nodiscard]] Result<Rewritten> rewrite(const Picture& picture, std::span<io::File* const> logs, io::File& target,
                                        bool clear_mark, const std::function<void(std::uint64_t)>& written,
                                        const task::StartThread& start_thread = {});

}   // namespace forebay::recover
