#include "area/last_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "area/process.h"
#include "base/bytes.h"

namespace forebay::area {

namespace {

// The writer's number, and the boot in which the note counts; zeros: in each.
using Note = std::array<std::byte, sizeof(std::uint64_t) + sizeof(BootId)>;

std::string name_of(const io::Identity& file) { return fmt::format("{:x}-{:x}", file.device, file.inode); }

std::optional<io::Identity> file_of(std::string_view name) {
    const char* const end = name.data() + name.size();
    io::Identity file;
    const auto device = std::from_chars(name.data(), end, file.device, 16);
    if (device.ec != std::errc{} || device.ptr == end || *device.ptr != '-') return std::nullopt;
    const auto inode = std::from_chars(device.ptr + 1, end, file.inode, 16);
    if (inode.ec != std::errc{} || inode.ptr != end) return std::nullopt;
    return file;
}

Result<Note> make_note(std::uint64_t writer, bool durable) {
    Note note{};
    store_le(note.data(), writer);
    if (durable) return note;
    const auto process = identify_this_process();
    if (!process) return process.status();
    std::ranges::copy(process.value().boot_id, note.begin() + sizeof writer);
    return note;
}

Result<std::uint64_t> read_note(io::Directory& folder, const io::Identity& file) {
    auto opened = folder.open_file(name_of(file), io::OpenMode::kRead);
    if (opened.status().code() == Code::kNotFound) return std::uint64_t{0};
    if (!opened) return opened.status();
    Note note{};
    const auto read = opened.value()->read_at(0, note);
    if (!read) return read.status();
    if (read.value() < note.size()) return std::uint64_t{0};   // `note_writer` failed or was killed
    const auto writer = load_le<std::uint64_t>(note.data());
    for (const bool durable : {true, false}) {
        const auto now = make_note(writer, durable);
        if (!now) return now.status();
        if (note == now.value()) return writer;
    }
    return std::uint64_t{0};
}

Result<bool> counts_in_each_boot(io::File& file) {
    Note note{};
    const auto read = file.read_at(0, note);
    if (!read) return read.status();
    return read.value() == note.size() && std::all_of(note.begin() + sizeof(std::uint64_t), note.end(),
                                                      [](std::byte one) { return one == std::byte{0}; });
}

}   // namespace

Result<std::uint64_t> last_writer(io::Directory& area, const io::Identity& file) {
    auto folder = area.open_directory(kWritersFolder);
    if (folder.status().code() == Code::kNotFound) return std::uint64_t{0};
    if (!folder) return folder.status();
    return read_note(*folder.value(), file);
}

Status note_writer(io::Directory& area, const io::Identity& file, std::uint64_t writer, bool durable) {
    const auto note = make_note(writer, durable);
    if (!note) return note.status();
    auto folder = area.open_directory(kWritersFolder);
    const bool made = folder.status().code() == Code::kNotFound;
    if (made) folder = area.create_directory(kWritersFolder);
    if (folder.status().code() == Code::kAlreadyExists)
        folder = area.open_directory(kWritersFolder);   // by another server
    if (!folder) return folder.status();
    auto opened = folder.value()->open_file(name_of(file), io::OpenMode::kReadWrite);
    bool replaces_durable = false;
    if (opened) {
        const auto counts = counts_in_each_boot(*opened.value());
        if (!counts) return counts.status();
        replaces_durable = counts.value();
    } else if (opened.status().code() == Code::kNotFound) {
        opened = folder.value()->open_file(name_of(file), io::OpenMode::kCreateNew);
    }
    if (!opened) return opened.status();
    FOREBAY_TRY(opened.value()->write_at(0, note.value()));
    // Else a loss of power could bring back a note that counts.
    if (replaces_durable || durable) FOREBAY_TRY(opened.value()->sync());
    if (!durable) return Status::ok();
    FOREBAY_TRY(folder.value()->sync());
    return made ? area.sync() : Status::ok();
}

Status forget_writer(io::Directory& area, const io::Identity& file, std::uint64_t writer) {
    auto folder = area.open_directory(kWritersFolder);
    if (!folder) return folder.status();
    const auto last = read_note(*folder.value(), file);
    if (!last) return last.status();
    if (last.value() != writer) return Status::ok();
    auto opened = folder.value()->open_file(name_of(file), io::OpenMode::kRead);
    if (!opened) return opened.status();
    const auto durable = counts_in_each_boot(*opened.value());
    if (!durable) return durable.status();
    FOREBAY_TRY(folder.value()->remove_file(name_of(file)));
    return durable.value() ? folder.value()->sync() : Status::ok();
}

Status forget_any_writer(io::Directory& area, const io::Identity& file) {
    auto folder = area.open_directory(kWritersFolder);
    if (folder.status().code() == Code::kNotFound) return Status::ok();
    if (!folder) return folder.status();
    const Status removed = folder.value()->remove_file(name_of(file));
    if (removed.code() == Code::kNotFound) return Status::ok();
    FOREBAY_TRY(removed);
    return folder.value()->sync();
}

Result<std::vector<NotedWriter>> noted_writers(io::Directory& area) {
    std::vector<NotedWriter> noted;
    auto folder = area.open_directory(kWritersFolder);
    if (folder.status().code() == Code::kNotFound) return noted;
    if (!folder) return folder.status();
    const auto names = folder.value()->list();
    if (!names) return names.status();
    for (const std::string& name : names.value())
        if (const auto file = file_of(name)) {
            const auto writer = read_note(*folder.value(), *file);
            if (!writer) return writer.status();
            noted.push_back({*file, writer.value()});
        }
    return noted;
}

}   // namespace forebay::area
