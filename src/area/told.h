// Notices that processes of this user on this node have told already.
//
//     <place>/forebay-told-<uid>/<hash of the message>                  told a user once
//     <place>/forebay-told-<uid>/<hash of the message>-<pid>-<start>    told a job once: the process that launched it
//
// `place` is where the registry of staging areas is (area/registry.h); the folder has mode 0700. The first process to
// make the file tells. Files of jobs that have ended are removed when a new one is made. Thread-safety: all of it.
// Blocks on metadata of a local file system.
#pragma once

#include <optional>
#include <string_view>

#include "area/process.h"
#include "base/options.h"

namespace forebay::area {

// True for the first process that asks about `message`: of `job`, or else of the user. Also true where it cannot be
// known, as nothing can be kept.
[[nodiscard]] bool is_first_to_tell(const Options& options, std::string_view message,
                                    const std::optional<ProcessIdentity>& job) noexcept;

}   // namespace forebay::area
