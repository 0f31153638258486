#include "cli/folder_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

#include "base/options.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = std::size_t{1} << 20;

std::set<std::string> names_in(const fs::path& folder, std::error_code& error) {
    std::set<std::string> names;
    for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        names.insert(entry->path().lexically_relative(folder).string());
    return names;
}

// The offset of the first different byte, or the shorter end; nullopt: equal. An unreadable file: 0.
std::optional<std::uint64_t> first_difference(const fs::path& first, const fs::path& second) {
    std::ifstream one(first, std::ios::binary), other(second, std::ios::binary);
    if (!one || !other) return 0;
    std::vector<char> a(kPiece), b(kPiece);
    for (std::uint64_t at = 0;;) {
        one.read(a.data(), static_cast<std::streamsize>(a.size()));
        other.read(b.data(), static_cast<std::streamsize>(b.size()));
        if (one.bad() || other.bad()) return at;
        const auto got = static_cast<std::size_t>(std::min(one.gcount(), other.gcount()));
        const auto differ = std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(got), b.begin());
        if (differ.first != a.begin() + static_cast<std::ptrdiff_t>(got))
            return at + static_cast<std::uint64_t>(differ.first - a.begin());
        at += got;
        if (one.gcount() != other.gcount()) return at;
        if (got < kPiece) return std::nullopt;
    }
}

std::optional<FolderDifference> difference(const std::string& name, const fs::path& first, const fs::path& second) {
    std::error_code error;
    const fs::file_status one = fs::symlink_status(first, error), other = fs::symlink_status(second, error);
    if (!fs::exists(other)) return FolderDifference{name, "exists only in the native run"};
    if (!fs::exists(one)) return FolderDifference{name, "exists only in the run with forebay"};
    if (one.type() != other.type()) return FolderDifference{name, "is not the same kind of file"};
    if (one.permissions() != other.permissions()) return FolderDifference{name, "does not have the same permissions"};
    if (fs::is_symlink(one)) {
        if (fs::read_symlink(first, error) != fs::read_symlink(second, error))
            return FolderDifference{name, "does not point to the same file"};
        return std::nullopt;
    }
    if (!fs::is_regular_file(one)) return std::nullopt;
    const std::uint64_t size = fs::file_size(first, error), other_size = fs::file_size(second, error);
    const std::optional<std::uint64_t> at = first_difference(first, second);
    if (!at) return std::nullopt;
    if (size != other_size)
        return FolderDifference{
            name, fmt::format("has {} natively, and {} with forebay", format_size(size), format_size(other_size)),
            true};
    return FolderDifference{name, fmt::format("differs from byte {} on", *at), true};
}

}   // namespace

FolderComparison compare_folders(const fs::path& first, const fs::path& second) {
    FolderComparison result;
    std::set<std::string> names;
    for (const fs::path& folder : {first, second}) {
        std::error_code unlisted;
        names.merge(names_in(folder, unlisted));
        if (unlisted) result.differences.push_back({folder.string(), "cannot be listed: " + unlisted.message()});
    }
    for (const std::string& name : names) {
        std::error_code error;
        if (fs::is_regular_file(fs::symlink_status(first / name, error))) {
            ++result.files;
            const std::uint64_t size = fs::file_size(first / name, error);
            if (!error) result.bytes += size;
        }
        if (auto found = difference(name, first / name, second / name)) result.differences.push_back(std::move(*found));
    }
    return result;
}

bool looks_like_hdf5(const fs::path& file) {
    constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
    std::ifstream in(file, std::ios::binary);
    std::error_code error;
    const std::uint64_t size = fs::file_size(file, error);
    if (error) return false;
    std::array<char, kSignature.size()> begin{};
    for (std::uint64_t at = 0; at + begin.size() <= size; at = at == 0 ? 512 : 2 * at) {
        in.seekg(static_cast<std::streamoff>(at));
        if (!in.read(begin.data(), begin.size())) return false;
        if (std::string_view(begin.data(), begin.size()) == kSignature) return true;
    }
    return false;
}

FolderTimes times_of(const fs::path& folder) {
    FolderTimes result;
    std::error_code error;
    for (const std::string& name : names_in(folder, error)) {
        const fs::path path = folder / name;
        if (!fs::is_regular_file(fs::symlink_status(path, error))) continue;
        const std::uint64_t size = fs::file_size(path, error);
        const auto time = fs::last_write_time(path, error);
        result[name] = {size, time.time_since_epoch().count()};
    }
    return result;
}

std::vector<std::string> changed_between(const FolderTimes& before, const FolderTimes& after) {
    std::set<std::string> changed;
    const auto note = [&changed](const FolderTimes& one, const FolderTimes& other) {
        for (const auto& [name, times] : one)
            if (const auto found = other.find(name); found == other.end() || found->second != times)
                changed.insert(name);
    };
    note(before, after);
    note(after, before);
    return {changed.begin(), changed.end()};
}

}   // namespace forebay::cli
