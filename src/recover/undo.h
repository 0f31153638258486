// What the undo journals of all ranks say together: which commit a file is to be taken back to, and the bytes that make
// it so.
//
// Pure but for reading payloads where two ranks have preserved the same bytes. docs/log-format.md, "The undo journal",
// is the specification.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "io/file.h"
#include "recover/replay.h"
#include "undo/undo_format.h"

namespace forebay::recover {

struct Undoing {
    Picture picture;              // `Newest::log` is the index of the journal; `size` is that of the commit
    std::uint64_t commit = 0;     // its number; 0: as the file was opened
    std::uint64_t given_up = 0;   // bytes that were overwritten since, and that nobody has kept
    bool nothing = false;         // the file is as it should be: it was closed
};

// `views[i]` and `files[i]` are the journal of rank i; all ranks are there. kCorrupt: they do not belong together, or
// two ranks overwrote a byte without meeting in between, and preserved different content of it.
[[nodiscard]] Result<Undoing> undo(std::span<const undo::UndoView> views, std::span<io::File* const> files);

}   // namespace forebay::recover
