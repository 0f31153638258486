// Notes in a staging area of the last writer of each file: a client of a staging server that opened the file for
// writing. A client that lost its server may continue only if it is still the last writer (docs/protocol.md, "The death
// of either side"). The folder `writers` has a small file for each target, named after its device and inode. Each
// note of a `durable` log is on the device before `note_writer` returns, and so is a note that replaces such a one. All
// other notes count in the boot that wrote them, and are not synced. The caller makes one call at a time. Calls block
// on the area.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "io/file.h"

namespace forebay::area {

inline constexpr const char* kWritersFolder = "writers";

// Returns the last writer's number; 0 if none is noted, or only one that cannot continue.
[[nodiscard]] Result<std::uint64_t> last_writer(io::Directory& area, const io::Identity& file);
// `writer` is 0 for one that cannot continue. After a failure an earlier note may be left.
[[nodiscard]] Status note_writer(io::Directory& area, const io::Identity& file, std::uint64_t writer, bool durable);
// Removes the note if it still is of `writer`. A durable note stays removed after a loss of power.
[[nodiscard]] Status forget_writer(io::Directory& area, const io::Identity& file, std::uint64_t writer);

// Removes the file's note, so that no earlier writer may continue, also after a loss of power. Needs no room on the
// device.
[[nodiscard]] Status forget_any_writer(io::Directory& area, const io::Identity& file);

struct NotedWriter {
    io::Identity file;
    std::uint64_t writer = 0;
};
[[nodiscard]] Result<std::vector<NotedWriter>> noted_writers(io::Directory& area);

}   // namespace forebay::area
