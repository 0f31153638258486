// Opening a file that is there, without locking it: of somebody who has locked it for this process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"

namespace forebay::io {

struct OpenedExisting {
    std::shared_ptr<Descriptor> descriptor;
    Identity identity;
};
enum class Access : std::uint8_t { kReadWrite, kRead };
// kNotFound, kPermissionDenied; kInvalidArgument: no regular file. Blocks as open(2) does.
[[nodiscard]] Result<OpenedExisting> open_existing(const std::string& path, Access access = Access::kReadWrite);

}   // namespace forebay::io
