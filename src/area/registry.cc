#include "area/registry.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "area/process.h"
#include "base/checksum.h"
#include "io/file_system.h"
#include "io/posix_file.h"

namespace forebay::area {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolderPrefix = "forebay-areas-";
constexpr std::string_view kFirstLine = "forebay staging area 1";
constexpr std::size_t kEntryBytesMax = 8192;

Status refuse(const std::string& path, std::string_view why) {
    return {Code::kPermissionDenied, fmt::format("{}: {}", path, why)};
}

// Refuses a directory or file that another user could write or redirect.
Status check_own(io::Directory& directory, const std::string& name, io::Facts::Kind kind) {
    const auto facts = directory.facts(name);
    if (!facts) return facts.status();
    const std::string path = directory.name() + "/" + name;
    if (facts.value().kind != kind)
        return refuse(path, kind == io::Facts::Kind::kFile ? "it is no file" : "it is no directory");
    if (facts.value().owner != ::geteuid())
        return refuse(path, fmt::format("it belongs to user {}, not to user {}", facts.value().owner, ::geteuid()));
    if ((facts.value().mode & io::Facts::kRightsOfOthers) != 0)
        return refuse(path, fmt::format("others may enter it (mode {:04o})", facts.value().mode));
    return Status::ok();
}

std::string text_of(const RegisteredArea& area) {
    return fmt::format("{}\ndevice {}\ninode {}\nboot {}\nmemory {}\npath {}\n", kFirstLine, area.device, area.inode,
                       area.boot_id, area.in_memory ? 1 : 0, area.nls);
}

// The path comes last, because it may hold any bytes.
std::optional<RegisteredArea> parse(std::string_view text) {
    RegisteredArea area;
    const auto line = [&](std::string_view word) -> std::optional<std::string_view> {
        if (!text.starts_with(word)) return std::nullopt;
        text.remove_prefix(word.size());
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos) return std::nullopt;
        const std::string_view value = text.substr(0, end);
        text.remove_prefix(end + 1);
        return value;
    };
    if (const auto first = line(kFirstLine); !first || !first->empty()) return std::nullopt;
    const auto number = [&](std::string_view word, std::uint64_t& into) {
        const auto digits = line(word);
        if (!digits) return false;
        const char* const end = digits->data() + digits->size();
        const auto parsed = std::from_chars(digits->data(), end, into);
        return parsed.ec == std::errc{} && parsed.ptr == end;
    };
    if (!number("device ", area.device) || !number("inode ", area.inode)) return std::nullopt;
    const auto boot = line("boot "), memory = line("memory ");
    if (!boot || !memory || !text.starts_with("path /") || !text.ends_with('\n')) return std::nullopt;
    area.boot_id = *boot;
    area.in_memory = *memory == "1";
    text.remove_prefix(std::string_view("path ").size());
    area.nls = text.substr(0, text.size() - 1);
    return area;
}

Result<std::string> read_text(io::File& file) {
    std::string text(kEntryBytesMax, '\0');
    const auto got = file.read_at(0, std::as_writable_bytes(std::span(text)));
    if (!got) return got.status();
    text.resize(got.value());
    return text;
}

std::string entry_name(const RegisteredArea& area) {
    return fmt::format("{:016x}-{:x}", XXH3_64bits(area.nls.data(), area.nls.size()), area.device);
}

Result<std::unique_ptr<io::Directory>> open_folder(const std::string& place, bool create) {
    auto parent = io::open_posix_directory(place);
    if (!parent) return parent.status();
    const std::string folder = registry_folder();
    if (create)
        if (const auto made = parent.value()->create_directory(folder);
            !made && made.status().code() != Code::kAlreadyExists)
            return made.status();
    FOREBAY_TRY(check_own(*parent.value(), folder, io::Facts::Kind::kDirectory));
    return parent.value()->open_directory(folder);
}

Result<RegisteredArea> describe(const std::string& nls) {
    std::error_code error;
    RegisteredArea area;
    area.nls = fs::canonical(nls, error).string();
    if (error) return Status::from_errno(error.value(), "find " + nls);
    const auto identity = io::identify(area.nls);
    if (!identity) return identity.status();
    area.device = identity.value().device;
    area.inode = identity.value().inode;
    if (const auto kind = io::file_system_of(area.nls)) area.in_memory = kind.value().memory;
    const auto process = identify_this_process();
    if (!process) return process.status();
    area.boot_id = to_text(process.value().boot_id);
    return area;
}

// Another process may be writing an existing entry, or may have died while it did. So this writes the same entry again.
Status write_entry(io::Directory& folder, const RegisteredArea& area) {
    const std::string name = entry_name(area), text = text_of(area);
    auto file = folder.open_file(name, io::OpenMode::kCreateNew);
    if (!file && file.status().code() == Code::kAlreadyExists) {
        FOREBAY_TRY(check_own(folder, name, io::Facts::Kind::kFile));
        file = folder.open_file(name, io::OpenMode::kReadWrite);
        if (!file) return file.status();
        const auto present = read_text(*file.value());
        if (present && present.value() == text) return Status::ok();
        if (present && present.value().size() > text.size()) FOREBAY_TRY(file.value()->resize(text.size()));
    }
    if (!file) return file.status();
    return file.value()->write_at(0, std::as_bytes(std::span(text)));
}

}   // namespace

std::vector<std::string> registry_places(const Options& options) {
    if (!options.registry.empty()) return {options.registry};
    return {"/var/tmp", "/tmp"};
}

std::string registry_folder() { return fmt::format("{}{}", kFolderPrefix, ::geteuid()); }

Status note_area(const Options& options, const std::string& nls) {
    const auto area = describe(nls);
    if (!area) return area.status();
    Status outcome;
    for (const std::string& place : registry_places(options)) {
        const auto kind = io::file_system_of(place);
        outcome = kind.status();
        if (!outcome) continue;
        if (kind.value().network) {
            outcome = {Code::kUnsupported, place + " is shared with other nodes"};
            continue;
        }
        // A command may have removed the empty folder in between.
        for (int attempts = 0; attempts < 2; ++attempts) {
            const auto folder = open_folder(place, true);
            outcome = folder ? write_entry(*folder.value(), area.value()) : folder.status();
            if (outcome.code() != Code::kNotFound) break;
        }
        if (outcome) return outcome;
    }
    return outcome;
}

Registry read_registry(const Options& options) {
    Registry registry;
    const auto unreadable = [&](const Status& why) {
        registry.unreadable.push_back("the registry of staging areas: " + why.message());
    };
    for (const std::string& place : registry_places(options)) {
        const auto folder = open_folder(place, false);
        if (!folder) {
            if (folder.status().code() != Code::kNotFound) unreadable(folder.status());
            continue;
        }
        const auto names = folder.value()->list();
        if (!names) {
            unreadable(names.status());
            continue;
        }
        for (const std::string& name : names.value()) {
            const Status own = check_own(*folder.value(), name, io::Facts::Kind::kFile);
            const auto file = own ? folder.value()->open_file(name, io::OpenMode::kRead)
                                  : Result<std::unique_ptr<io::File>>(own);
            if (!file) {
                if (file.status().code() != Code::kNotFound) unreadable(file.status());
                continue;
            }
            const auto text = read_text(*file.value());
            auto area = text ? parse(text.value()) : std::nullopt;
            const std::string path = folder.value()->name() + "/" + name;
            if (area) {
                area->entry = path;
                registry.areas.push_back(std::move(*area));
            } else {
                unreadable(text ? Status(Code::kCorrupt, path + ": not an entry of this version") : text.status());
            }
        }
    }
    return registry;
}

void forget_area(const RegisteredArea& area) {
    const fs::path entry = area.entry;
    const auto parent = io::open_posix_directory(entry.parent_path().parent_path().string());
    if (!parent) return;
    const std::string folder = entry.parent_path().filename().string();
    if (!check_own(*parent.value(), folder, io::Facts::Kind::kDirectory)) return;
    if (const auto open = parent.value()->open_directory(folder))
        (void)open.value()->remove_file(entry.filename().string());
    (void)parent.value()->remove_directory(folder);   // fails unless it is empty
}

std::vector<std::uint64_t> other_registered_users(const Options& options) {
    std::set<std::uint64_t> users;
    for (const std::string& place : registry_places(options)) {
        const auto parent = io::open_posix_directory(place);
        if (!parent) continue;
        const auto names = parent.value()->list();
        if (!names) continue;
        for (const std::string& name : names.value()) {
            if (!name.starts_with(kFolderPrefix)) continue;
            std::uint64_t user = 0;
            const char* const end = name.data() + name.size();
            const auto parsed = std::from_chars(name.data() + kFolderPrefix.size(), end, user);
            if (parsed.ec != std::errc{} || parsed.ptr != end || user == ::geteuid()) continue;
            // Any user may make a folder of this name. It counts only if it belongs to that user.
            if (const auto facts = parent.value()->facts(name); facts && facts.value().owner == user)
                users.insert(user);
        }
    }
    return {users.begin(), users.end()};
}

}   // namespace forebay::area
