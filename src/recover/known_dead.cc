#include "recover/known_dead.h"

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "base/checksum.h"
#include "recover/trust.h"

namespace forebay::recover {

namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kFileBytesMax = 16 << 20;

// Its fields have no gaps.
struct EntryFront {
    std::uint64_t checksum = 0;   // of the entry's later bytes
    std::uint32_t version = kVersion, bytes = 0;
    area::BootId boot{};
    std::uint32_t files = 0, name_bytes = 0;   // the name follows, then the files
};
struct FileFront {
    std::uint64_t device = 0, inode = 0, born_ns = 0, generation = 0, path_bytes = 0;   // the path follows
};

template <class Value>
void put(std::vector<std::byte>& to, const Value& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    to.insert(to.end(), bytes.begin(), bytes.end());
}

void put(std::vector<std::byte>& to, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    to.insert(to.end(), bytes.begin(), bytes.end());
}

// Takes values from the front of bytes. After a value that is not there whole, all are empty.
class Taker {
  public:
    explicit Taker(std::span<const std::byte> bytes) : bytes_(bytes) {}
    [[nodiscard]] bool whole() const noexcept { return whole_; }
    [[nodiscard]] bool at_end() const noexcept { return bytes_.empty(); }
    template <class Value>
    Value take() {
        Value value{};
        if (has(sizeof value)) std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
        return value;
    }
    std::string take_text(std::uint64_t bytes) {
        if (!has(bytes)) return {};
        const auto text = take_bytes(bytes);
        return {reinterpret_cast<const char*>(text.data()), text.size()};
    }

  private:
    bool has(std::uint64_t bytes) noexcept { return whole_ = whole_ && bytes <= bytes_.size(); }
    std::span<const std::byte> take_bytes(std::size_t bytes) noexcept {
        const auto taken = bytes_.first(bytes);
        bytes_ = bytes_.subspan(bytes);
        return taken;
    }

    std::span<const std::byte> bytes_;
    bool whole_ = true;
};

std::vector<std::byte> encode(const area::BootId& boot, const std::string& name, const ProcessDirectory::Files& files) {
    EntryFront front;
    front.boot = boot;
    front.files = static_cast<std::uint32_t>(files.size());
    front.name_bytes = static_cast<std::uint32_t>(name.size());
    std::vector<std::byte> bytes(sizeof front);
    put(bytes, name);
    for (const auto& [identity, file] : files) {
        put(bytes,
            FileFront{identity.device, identity.inode, file.born.time_ns, file.born.generation, file.path.size()});
        put(bytes, file.path);
    }
    front.bytes = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(bytes.data(), &front, sizeof front);
    front.checksum = checksum(std::span(bytes).subspan(sizeof front.checksum));
    std::memcpy(bytes.data(), &front.checksum, sizeof front.checksum);
    return bytes;
}

struct Entry {
    std::uint64_t bytes = 0;
    area::BootId boot{};
    std::string name;
    ProcessDirectory::Files files;
};

std::optional<Entry> decode(std::span<const std::byte> bytes) {
    const auto front = Taker(bytes).take<EntryFront>();
    if (front.version != kVersion || front.bytes < sizeof front || front.bytes > bytes.size()) return std::nullopt;
    if (checksum(bytes.subspan(sizeof front.checksum, front.bytes - sizeof front.checksum)) != front.checksum)
        return std::nullopt;
    Taker rest(bytes.subspan(sizeof front, front.bytes - sizeof front));
    Entry entry{front.bytes, front.boot, rest.take_text(front.name_bytes), {}};
    for (std::uint32_t i = 0; i < front.files && rest.whole(); ++i) {
        const auto file = rest.take<FileFront>();
        entry.files.emplace(io::Identity{file.device, file.inode},
                            ProcessDirectory::File{rest.take_text(file.path_bytes), {file.born_ns, file.generation}});
    }
    return rest.whole() && rest.at_end() ? std::optional(std::move(entry)) : std::nullopt;
}

}   // namespace

KnownDead read_known_dead(io::Directory& area, const area::BootId& boot) {
    KnownDead known;
    const auto file = open_trusted(area, kKnownDeadFile, io::OpenMode::kRead);
    const auto size = file ? file.value()->size() : Result<std::uint64_t>(file.status());
    if (!size) return known;
    if (size.value() > kFileBytesMax) {
        known.entries = size.value();   // to be written anew
        return known;
    }
    std::vector<std::byte> bytes(size.value());
    const auto got = file.value()->read_at(0, bytes);
    bytes.resize(got ? got.value() : 0);
    while (auto entry = decode(std::span(bytes).subspan(known.end))) {
        known.end += entry->bytes;
        ++known.entries;
        if (entry->boot == boot) known.directories.insert_or_assign(std::move(entry->name), std::move(entry->files));
    }
    return known;
}

void write_known_dead(io::Directory& area, const area::BootId& boot, std::uint64_t end,
                      const std::map<std::string, const ProcessDirectory::Files*>& entries) {
    (void)attempt([&] {
        std::vector<std::byte> bytes;
        for (const auto& [name, files] : entries) {
            const auto entry = encode(boot, name, *files);
            bytes.insert(bytes.end(), entry.begin(), entry.end());
        }
        if (end + bytes.size() > kFileBytesMax) return;
        auto file = open_trusted(area, kKnownDeadFile, io::OpenMode::kReadWrite);
        if (file.status().code() == Code::kNotFound) file = area.open_file(kKnownDeadFile, io::OpenMode::kCreateNew);
        if (file) (void)file.value()->write_at(end, bytes);
    });
}

}   // namespace forebay::recover
