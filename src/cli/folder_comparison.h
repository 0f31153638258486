// Whether two folders hold the same: names, kinds, permissions, and every byte. For `forebay run --compare`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace forebay::cli {

struct FolderDifference {
    std::string path;        // within the folders
    std::string what;        // how they differ, in words
    bool is_bytes = false;   // regular files on both sides, of which only the content differs
};

struct FolderComparison {
    std::uint64_t files = 0, bytes = 0;   // regular files of the first folder
    std::vector<FolderDifference> differences;
};

// What cannot be read counts as different. Times are not compared. Blocks on file I/O.
[[nodiscard]] FolderComparison compare_folders(const std::filesystem::path& first, const std::filesystem::path& second);

// Whether a file begins as HDF5 files do, at one of the places where a superblock may lie (HDF5 File Format, II.A).
[[nodiscard]] bool looks_like_hdf5(const std::filesystem::path& file);

// What tells that something in a folder was written: sizes and times by path. Compare two of them.
using FolderTimes = std::map<std::string, std::pair<std::uint64_t, std::int64_t>>;
[[nodiscard]] FolderTimes times_of(const std::filesystem::path& folder);
// Paths that are in one only, or differ.
[[nodiscard]] std::vector<std::string> changed_between(const FolderTimes& before, const FolderTimes& after);

}   // namespace forebay::cli
