// Compares two folders: names, kinds, permissions, and every byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace forebay::cli {

struct FolderDifference {
    std::string path;        // relative to the folders
    std::string what;        // the difference, in words
    bool is_bytes = false;   // both are regular files, and only their content differs
};

struct FolderComparison {
    std::uint64_t files = 0, bytes = 0;   // regular files of the first folder
    std::vector<FolderDifference> differences;
};

// An unreadable file counts as different. Times are not compared. Blocks on file I/O.
[[nodiscard]] FolderComparison compare_folders(const std::filesystem::path& first, const std::filesystem::path& second);

// Returns true if a superblock signature is at one of its possible places (HDF5 File Format, II.A).
[[nodiscard]] bool looks_like_hdf5(const std::filesystem::path& file);

// Sizes and times by path. Two of them show which files were written.
using FolderTimes = std::map<std::string, std::pair<std::uint64_t, std::int64_t>>;
[[nodiscard]] FolderTimes times_of(const std::filesystem::path& folder);
[[nodiscard]] std::vector<std::string> changed_between(const FolderTimes& before, const FolderTimes& after);

}   // namespace forebay::cli
