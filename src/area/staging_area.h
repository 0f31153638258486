// The staging area of a user on this node: `<nls>/forebay-<uid>`, checked before anything is kept there.
//
// Refused, with a message that names the option and where its value came from: an `nls` that is missing,
// not a directory, a symbolic link, not writable or on a network file system; a `forebay-<uid>` that is
// a symbolic link, belongs to someone else or is accessible to others; a `size` that the device cannot
// hold; a device without room for two segments. The calls block on file system metadata only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/options.h"
#include "base/status.h"
#include "io/file.h"

namespace forebay::area {

struct StagingArea {
    std::string root;                           // "<nls>/forebay-<uid>"
    std::unique_ptr<io::Directory> directory;   // open on it; logs are created through this
    std::string file_system;                    // "ext4", "tmpfs"; "0x..." for one without a known name
    std::uint64_t free_bytes = 0;               // to this user, now
    std::uint64_t device_bytes = 0;             // 0: the file system names no limit
    bool is_memory = false;                     // tmpfs, ramfs: survives no reboot, and takes the program's memory
};

// Creates `<nls>/forebay-<uid>` (mode 0700) if it is missing; everything else stays as it is.
// Errors: kNotFound, kInvalidArgument, kPermissionDenied, kUnsupported (network), kNoSpace, kIo.
[[nodiscard]] Result<StagingArea> open_staging_area(const LoadedOptions& loaded);

// Opens the staging area in a further directory of option `nls`, which holds bytes of the read cache only. `path` is
// one of `options`. Option `size` is ignored. Errors as above.
[[nodiscard]] Result<StagingArea> open_further_area(const Options& options, const std::string& path);

// A size that nobody has set is made to fit the device of `nls`. One that was set stays, and is refused by
// open_staging_area.
void fit_to_staging_area(LoadedOptions& loaded);

// "forebay-1000": the folder of the calling user.
inline constexpr std::string_view kStagingFolderPrefix = "forebay-";
[[nodiscard]] std::string staging_folder();

// In the area: claims (io/claim.h) on files whose close goes on behind its program, and on the directories of processes
// whose end another one has taken over (docs/consistency.md, "Deferred close").
inline constexpr std::string_view kClosingFolder = "closing";

}   // namespace forebay::area
