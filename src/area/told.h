// Notices that processes of this user on this node have already printed.
//
//     <place>/forebay-told-<uid>/<hash of the message>                  printed once for the user
//     <place>/forebay-told-<uid>/<hash of the message>-<pid>-<start>    printed once for the job of this launcher
//
// `place` is the place of the registry of staging areas (area/registry.h). The folder has mode 0700. The first process
// to make the file prints. Each new file causes the removal of those of ended jobs. Thread-safety: all functions.
// Blocks on metadata of a local file system.
#pragma once

#include <optional>
#include <string_view>

#include "area/process.h"
#include "base/options.h"

namespace forebay::area {

// Returns true for the first process of `job`, else of the user, to ask about `message`, or if no file can be made.
[[nodiscard]] bool is_first_to_tell(const Options& options, std::string_view message,
                                    const std::optional<ProcessIdentity>& job) noexcept;

}   // namespace forebay::area
