#pragma once

#include <memory>

#include "io/file.h"

namespace forebay::io {

// Takes over a part of a file that mmap(2) has mapped, and unmaps it at its destruction.
[[nodiscard]] std::unique_ptr<Mapping> own_mapping(MutableBytes mapped);

}   // namespace forebay::io
