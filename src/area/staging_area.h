// The staging area of a user on this node: `<nls>/forebay-<uid>`. A refusal names option and source. These values of
// `nls` are refused: missing, not a directory, a symbolic link, not writable, on a network file system, or on a device
// without room for two segments. A `forebay-<uid>` is refused if it is a symbolic link, belongs to another user or is
// accessible to others. A `size` above the device's is refused. The calls block on file system metadata only.
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
    std::unique_ptr<io::Directory> directory;   // open on `root`; logs are created through it
    std::string file_system;                    // "ext4", "tmpfs"; "0x..." for an unknown one
    std::uint64_t free_bytes = 0;               // available to this user now
    std::uint64_t device_bytes = 0;             // 0: the file system has no limit
    bool is_memory = false;                     // tmpfs, ramfs: lost at a reboot, and takes the program's memory
};

// Creates `<nls>/forebay-<uid>` (mode 0700) if it is missing, and changes nothing else. Errors: kNotFound,
// kInvalidArgument, kPermissionDenied, kUnsupported (network), kNoSpace, kIo.
[[nodiscard]] Result<StagingArea> open_staging_area(const LoadedOptions& loaded);

// The two parts of that call. The first ignores the space on the device: what processes have left there can be read,
// and recovered, on a full device too. The second sets `free_bytes` and `device_bytes`, and refuses a device without
// room (kNoSpace) or smaller than option `size` (kInvalidArgument).
[[nodiscard]] Result<StagingArea> enter_staging_area(const LoadedOptions& loaded);
[[nodiscard]] Status measure_space(StagingArea& area, const LoadedOptions& loaded);

// Opens the staging area in a further directory of option `nls`, for bytes of the read cache only. `path` is one of
// `options`. Ignores option `size`. Errors as above.
[[nodiscard]] Result<StagingArea> open_further_area(const Options& options, const std::string& path);

// Makes a default size fit the device of `nls`. A size that was set stays, and open_staging_area may refuse it.
void fit_to_staging_area(LoadedOptions& loaded);

// The folder of the calling user is "forebay-1000".
inline constexpr std::string_view kStagingFolderPrefix = "forebay-";
[[nodiscard]] std::string staging_folder();

// A folder in the area with claims (io/claim.h): on files whose close outlives its program, and on directories of
// processes whose end another process has taken over (docs/consistency.md, "Deferred close").
inline constexpr std::string_view kClosingFolder = "closing";

}   // namespace forebay::area
