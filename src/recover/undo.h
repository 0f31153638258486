// Joins the undo journals of all ranks (docs/log-format.md): the commit to go back to, and the bytes to restore. Pure,
// except that it compares payloads if two ranks preserved the same bytes.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "io/file.h"
#include "recover/replay.h"
#include "undo/undo_format.h"

namespace forebay::recover {

struct Undoing {
    Picture picture;              // `Newest::log` is the journal's index; `size` is the commit's
    std::uint64_t commit = 0;     // number; 0: the file as opened
    std::uint64_t given_up = 0;   // overwritten bytes of which no copy exists
    bool nothing = false;         // the file was closed: nothing to undo
};

// Of rank i. kCorrupt: they do not belong together, or two ranks overwrote a byte without meeting in between and
// preserved different content.
[[nodiscard]] Result<Undoing> undo(std::span<const undo::UndoView> views, std::span<io::File* const> files);

}   // namespace forebay::recover
