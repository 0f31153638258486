#include "hostile_area.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <string>

#include "area/process.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "io/memory_file.h"
#include "undo/undo_format.h"

namespace forebay::fuzz {

namespace {

using Content = std::vector<std::byte>;

constexpr std::uint8_t kFiles = 6, kJournal = 5;
std::string name_of(std::uint8_t file) {
    return file == 0          ? "log"
           : file == 1        ? "ledger"
           : file == kJournal ? undo::undo_name(1)
                              : "board-" + std::to_string(file - 1);
}

// Ledgers are large by nature; what is large without need is slow.
std::size_t max_of(std::uint8_t file) { return file == 1 ? 3 << 19 : 1 << 18; }

// The offsets are those of docs/log-format.md.
void repair_record(std::byte* record, std::uint64_t extents, std::uint64_t payload_bytes, std::uint64_t use) {
    const std::byte* const payload = record + log::payload_offset(extents);
    if (payload_bytes <= log::kCheckedPayloadMax && payload_bytes > 0) record[6] |= std::byte{1};
    store_le(record + 48, (record[6] & std::byte{1}) != std::byte{0} ? checksum(std::span(payload, payload_bytes))
                                                                     : std::uint64_t{0});
    const std::uint64_t front = XXH3_64bits_withSeed(record, 56, use);
    store_le(record + 56, XXH3_64bits_withSeed(record + log::kRecordHeaderBytes, extents * log::kExtentBytes, front));
}

void repair(Content& bytes) {
    if (bytes.size() < log::kSegmentHeaderBytes) return;
    std::uint64_t step = load_le<std::uint64_t>(bytes.data() + 16);
    if (step < 4096 || step % 4096 != 0) step = 65536;
    for (std::uint64_t begin = 0; begin + log::kSegmentHeaderBytes <= bytes.size(); begin += step) {
        std::byte* const segment = bytes.data() + begin;
        if (load_le<std::uint64_t>(segment) == 0) continue;
        const std::uint64_t use = XXH3_64bits(segment, log::kUseOffset);
        store_le(segment + log::kUseOffset, use);
        const std::uint64_t end = std::min<std::uint64_t>(load_le<std::uint64_t>(segment + log::kTailOffset),
                                                          std::min<std::uint64_t>(step, bytes.size() - begin));
        for (std::uint64_t at = log::kSegmentHeaderBytes; at + log::kRecordHeaderBytes <= end;) {
            const std::uint64_t extents = load_le<std::uint32_t>(segment + at + 8),
                                payload = load_le<std::uint64_t>(segment + at + 24);
            const std::uint64_t left = end - at;
            if (extents > left / log::kExtentBytes || payload > left || log::record_bytes(extents, payload) > left)
                break;
            repair_record(segment + at, extents, payload, use);
            at += log::record_bytes(extents, payload);
        }
    }
}

void repair_journal(Content& bytes) {
    if (bytes.size() < undo::kUndoFrontBytes) return;
    std::byte* const front = bytes.data();
    const std::uint64_t path = std::min<std::uint64_t>(load_le<std::uint64_t>(front + 96), undo::kUndoPathMax);
    store_le(front + 104, XXH3_64bits_withSeed(front + undo::kUndoPathAt, path, XXH3_64bits(front, 104)));
    constexpr std::size_t kChecked = undo::kUndoStateBytes - 8;
    for (const std::uint64_t serial : {std::uint64_t{0}, std::uint64_t{1}}) {
        std::byte* const state = front + undo::undo_state_at(serial);
        store_le(state + kChecked, XXH3_64bits(state, kChecked));
    }
    for (std::uint64_t at = undo::kUndoFrontBytes; at + undo::kUndoRecordBytes <= bytes.size();) {
        std::byte* const record = bytes.data() + at;
        const std::uint64_t payload = load_le<std::uint64_t>(record + 32),
                            left = bytes.size() - at - undo::kUndoRecordBytes;
        if (payload > left) break;
        store_le(record + 48, XXH3_64bits(record + undo::kUndoRecordBytes, payload));
        store_le(record + 56, XXH3_64bits(record, 56));
        at += undo::undo_record_bytes(payload);
    }
}

class Input {
  public:
    explicit Input(std::span<const std::uint8_t> bytes) : left_(bytes) {}
    std::uint64_t number(std::size_t bytes) {
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < bytes && !left_.empty(); ++i, left_ = left_.subspan(1))
            value |= std::uint64_t{left_.front()} << (8 * i);
        return value;
    }
    std::span<const std::uint8_t> take(std::size_t bytes) {
        const auto taken = left_.first(std::min(bytes, left_.size()));
        left_ = left_.subspan(taken.size());
        return taken;
    }
    [[nodiscard]] bool empty() const { return left_.empty(); }

  private:
    std::span<const std::uint8_t> left_;
};

}   // namespace

HostileArea decode(std::span<const std::uint8_t> bytes) {
    Input input(bytes);
    HostileArea result{static_cast<std::uint8_t>(input.number(1)), io::make_memory_directory("/nls/forebay"), {}};
    std::map<std::string, std::map<std::uint8_t, Content>> directories;
    auto* files = &directories["100-5-0"];
    bool first = true;
    while (!input.empty()) {
        if (input.number(1) % 2 == 0) {
            const std::uint64_t pid = input.number(2), start = input.number(2);
            if (first) directories.clear();
            if (directories.size() >= 4) break;
            files = &directories[std::to_string(pid) + "-" + std::to_string(start) + "-0"];
        } else {
            const auto file = static_cast<std::uint8_t>(input.number(1) % kFiles);
            const std::size_t max = max_of(file), offset = input.number(4) % max, length = input.number(2);
            const auto piece = input.take(std::min(length, max - offset));
            Content& content = (*files)[file];
            content.resize(std::max(content.size(), offset + piece.size()));
            if (!piece.empty()) std::memcpy(content.data() + offset, piece.data(), piece.size());
        }
        first = false;
    }
    bool has_boot = false;
    for (auto& [name, contents] : directories) {
        auto directory = result.area->create_directory(name);
        if (!directory) continue;
        for (auto& [file, content] : contents) {
            if (file == 0 && (result.flags & kRepair) != 0) repair(content);
            if (file == kJournal && (result.flags & kRepair) != 0) repair_journal(content);
            if (file == kJournal && !has_boot && content.size() >= undo::kUndoFrontBytes &&
                (result.flags & kOtherBoot) == 0) {
                std::memcpy(result.boot_id.data(), content.data() + 56, result.boot_id.size());
                has_boot = true;
            }
            if (file == 0 && !has_boot && content.size() >= log::kSegmentHeaderBytes &&
                (result.flags & kOtherBoot) == 0) {
                std::memcpy(result.boot_id.data(), content.data() + 40, result.boot_id.size());
                has_boot = true;
            }
            if (auto made = directory.value()->open_file(name_of(file), io::OpenMode::kCreateNew))
                (void)made.value()->write_at(0, content);
        }
    }
    return result;
}

std::vector<std::uint8_t> encode(std::uint8_t flags, io::Directory& area) {
    std::vector<std::uint8_t> out{flags};
    const auto number = [&](std::uint64_t value, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    };
    const auto directories = area.list();
    for (const std::string& name : directories.value()) {
        const auto owner = area::owner_of_directory(name);
        if (!owner) continue;
        number(0, 1);
        number(owner->pid, 2);
        number(owner->start_ticks, 2);
        auto directory = area.open_directory(name);
        for (std::uint8_t file = 0; file < kFiles; ++file) {
            auto opened = directory.value()->open_file(name_of(file), io::OpenMode::kRead);
            if (!opened) continue;
            Content content(std::min<std::size_t>(opened.value()->size().value(), max_of(file)));
            (void)opened.value()->read_at(0, content);
            constexpr std::size_t kGap = 64, kPiece = 0xffff;
            for (std::size_t at = 0; at < content.size();) {
                const std::size_t begin = static_cast<std::size_t>(
                    std::find_if(content.begin() + static_cast<std::ptrdiff_t>(at), content.end(),
                                 [](std::byte each) { return each != std::byte{0}; }) -
                    content.begin());
                std::size_t end = begin;
                for (std::size_t i = begin; i < content.size() && i < end + kGap && i < begin + kPiece; ++i)
                    if (content[i] != std::byte{0}) end = i + 1;
                // A file ends where the last piece does.
                if (begin == content.size() && at < begin) end = begin;
                number(1, 1);
                number(file, 1);
                number(std::min(begin, content.size()), 4);
                number(end - begin, 2);
                for (std::size_t i = begin; i < end; ++i) out.push_back(std::to_integer<std::uint8_t>(content[i]));
                at = std::max(end, at + 1);
                if (begin == content.size()) break;
            }
        }
    }
    return out;
}

}   // namespace forebay::fuzz
