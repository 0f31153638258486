// The folder of the tests' real files. It is in memory if the machine has room, because files on a disk are several
// times slower to make and remove, and some tests make thousands. TMPDIR overrides the place.
#pragma once

#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace forebay::test {

// Returns a new folder, or an empty name if none can be made.
[[nodiscard]] inline std::string make_scratch_folder() {
    constexpr std::uint64_t kRoomBytes = std::uint64_t{1} << 30;
    const char* const in_memory = "/dev/shm";
    struct statvfs room{};
    const bool fits = ::access(in_memory, W_OK | X_OK) == 0 && ::statvfs(in_memory, &room) == 0 &&
                      room.f_bavail * room.f_frsize >= kRoomBytes;
    const std::filesystem::path place = fits && ::getenv("TMPDIR") == nullptr ? std::filesystem::path(in_memory)
                                                                              : std::filesystem::temp_directory_path();
    std::string folder = place / "forebay-test-XXXXXX";
    return ::mkdtemp(folder.data()) == nullptr ? std::string() : folder;
}

}   // namespace forebay::test
