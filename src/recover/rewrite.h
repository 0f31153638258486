// Carries out a replay: writes the newest bytes to the target, in file order, with large writes.
//
// Whatever is done may be done again: if it was interrupted, at any instant, the same picture carried out once more
// gives the same file. All bytes that are needed of the logs have been looked for before the target is changed. Two
// writes are under way at a time, where a second thread can be had, so that the logs are read while the target is
// written to; and the device is asked to begin with each write before the next one is made. Memory: 17 MiB, one bit for
// each MiB of a log, and the system's tables of a mapping for what is not in memory yet (1/512 of it). Blocks on reads
// of the logs and writes to the target; ends with one sync of the target, after which the logs are not needed any more.
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

// `logs[i]` is the file that `Newest::log` i means. `written(bytes)` is called after each write, by one thread at a
// time: the caller's or the second one. With `clear_mark` HDF5's mark of a file that is open for writing is taken out.
// `start_thread` as in task::Limits. Errors: those of the files, kCorrupt if a log has become shorter. The target may
// then hold a part of the picture.
[[nodiscard]] Result<Rewritten> rewrite(const Picture& picture, std::span<io::File* const> logs, io::File& target,
                                        bool clear_mark, const std::function<void(std::uint64_t)>& written,
                                        const task::StartThread& start_thread = {});

}   // namespace forebay::recover
