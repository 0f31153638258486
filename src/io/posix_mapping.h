// A part of a file that mmap(2) has mapped, behind the seam of io/file.h.
#pragma once

#include <memory>

#include "io/file.h"

namespace forebay::io {

// Takes over what mmap has returned: it is unmapped at the end.
[[nodiscard]] std::unique_ptr<Mapping> own_mapping(MutableBytes mapped);

}   // namespace forebay::io
