#include "cache/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/attempt.h"
#include "cache/presence.h"
#include "cache/replica_files.h"

namespace forebay::cache {

namespace {

constexpr const char* kAccountFile = "account";
constexpr const char* kDevicesFile = "devices";
constexpr std::uint64_t kBookBytes = 4096;
constexpr std::uint64_t kBookMagic = 0x31544e4341434246;   // "FBCACNT1" in memory
constexpr std::uint64_t kLookEvery = 64 << 20;             // bytes taken between two checks of the device
constexpr std::uint64_t kDevicesTextMax = 256 << 10;
// One of many processes that start together counts the cache. Others ignore one that was killed after this time.
constexpr std::uint64_t kCountMaxNs = 10'000'000'000;
// At most so many opens come between two counts, also if the account is damaged.
constexpr std::uint64_t kOpensApartMax = 1024;

Status no_account(const io::Directory& folder) {
    return {Code::kCorrupt, fmt::format("{}/{} is no account of a read cache", folder.name(), kAccountFile)};
}

}   // namespace

// docs/cache-format.md.
struct Device::Book {
    std::uint64_t magic;
    std::atomic<std::uint64_t> stored_bytes, capacity_bytes, counting_ns, opens, replicas;
};

Result<AccountView> read_account(io::Directory& folder) {
    const auto file = folder.open_file(kAccountFile, io::OpenMode::kRead);
    if (!file) return file.status();
    std::array<std::uint64_t, 3> words{};   // as Device::Book
    const auto read = file.value()->read_at(0, std::as_writable_bytes(std::span(words)));
    if (!read) return read.status();
    if (read.value() < sizeof words || words[0] != kBookMagic) return no_account(folder);
    return AccountView{words[1], words[2]};
}

Result<std::unique_ptr<Device>> Device::open(io::Directory& folder, DeviceLimits limits) {
    std::unique_ptr<Device> device(new Device(std::move(limits)));
    FOREBAY_TRY(device->open_book(folder));
    return device;
}

Status Device::open_book(io::Directory& folder) {
    auto file = folder.open_file(kAccountFile, io::OpenMode::kReadWrite);
    const bool fresh = !file && file.status().code() == Code::kNotFound;
    if (fresh) file = folder.open_file(kAccountFile, io::OpenMode::kCreateNew);
    if (!file) return file.status();
    const auto size = file.value()->size();
    if (!size) return size.status();
    if (size.value() < kBookBytes) FOREBAY_TRY(file.value()->allocate(0, kBookBytes));
    auto mapping = file.value()->map(0, kBookBytes);
    if (!mapping) return mapping.status();
    mapping_ = std::move(mapping).value();
    replaceable_ = std::make_unique<io::Replaceable>(mapping_->bytes());
    if (!replaceable_->protects()) return too_many_maps();
    book_ = reinterpret_cast<Book*>(mapping_->bytes().data());
    if (book_->magic == 0) book_->magic = kBookMagic;   // under the folder's lock
    if (book_->magic != kBookMagic) return no_account(folder);
    if (limits_.capacity_bytes != 0) book_->capacity_bytes.store(limits_.capacity_bytes);   // for people
    return Status::ok();
}

std::uint64_t Device::stored_bytes() const noexcept { return book_->stored_bytes.load(std::memory_order_relaxed); }

// Once there was no room, or no answer, every call asks the device.
bool Device::has_room(std::uint64_t bytes) noexcept {
    if (!limits_.free_bytes || taken_since_look_.fetch_add(bytes) + bytes < kLookEvery) return true;
    std::uint64_t free_bytes = 0;
    const Status asked = attempt([&] { free_bytes = limits_.free_bytes(); });
    if (!asked || free_bytes < limits_.keep_free_bytes + kLookEvery) return false;
    taken_since_look_.store(0);
    return true;
}

bool Device::take(std::uint64_t bytes) noexcept {
    std::uint64_t stored = stored_bytes();
    const bool room = has_room(bytes);
    while (room && stored + bytes <= limits_.capacity_bytes)
        if (book_->stored_bytes.compare_exchange_weak(stored, stored + bytes)) return true;
    return false;
}

void Device::give_back(std::uint64_t bytes) noexcept {
    std::uint64_t stored = stored_bytes();
    while (!book_->stored_bytes.compare_exchange_weak(stored, stored - std::min(stored, bytes))) {
    }
}

void Device::set_stored(std::uint64_t stored, std::uint64_t counted) noexcept {
    (void)book_->stored_bytes.compare_exchange_strong(stored, counted);
}

bool Device::begin_count(std::uint64_t now_ns) noexcept {
    std::uint64_t begun_ns = book_->counting_ns.load();
    if (begun_ns != 0 && now_ns >= begun_ns && now_ns - begun_ns < kCountMaxNs) return false;
    return book_->counting_ns.compare_exchange_strong(begun_ns, now_ns);
}

bool Device::count_is_due() noexcept {
    const std::uint64_t opens = book_->opens.fetch_add(1) + 1;
    return opens >= std::min(book_->replicas.load() / kLooksPerOpen, kOpensApartMax);
}

// A process that is killed before leaves the count due.
void Device::end_count(std::uint64_t replicas) noexcept {
    book_->replicas.store(replicas);
    book_->opens.store(0);
    book_->counting_ns.store(0);
}

namespace {

// Ignores a partial last line.
std::string read_device_lines(io::Directory& cache) {
    const auto file = cache.open_file(kDevicesFile, io::OpenMode::kRead);
    if (!file) return {};
    std::string text(kDevicesTextMax, '\0');
    const auto read = file.value()->read_at(0, std::as_writable_bytes(std::span(text)));
    text.resize(read ? read.value() : 0);
    text.resize(text.rfind('\n') + 1);   // npos: to nothing
    return text;
}

}   // namespace

std::vector<std::string> read_devices(io::Directory& cache) {
    std::vector<std::string> paths;
    const std::string text = read_device_lines(cache);
    for (std::size_t begin = 0; begin < text.size() && paths.size() + 1 < kDevicesMax;) {
        const std::size_t end = text.find('\n', begin);
        paths.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return paths;
}

Result<std::vector<std::uint32_t>> note_devices(io::Directory& cache, const std::vector<std::string>& paths) {
    std::vector<std::string> known = read_devices(cache);
    std::vector<std::uint32_t> numbers;
    std::string added;
    for (const std::string& path : paths) {
        auto found = std::ranges::find(known, path);
        if (found == known.end()) {
            if (known.size() + 1 >= kDevicesMax)
                return Status(Code::kNoSpace, fmt::format("{}/{}: a read cache can have had {} devices at most",
                                                          cache.name(), kDevicesFile, kDevicesMax));
            added += path + '\n';
            known.push_back(path);
            found = known.end() - 1;
        }
        numbers.push_back(static_cast<std::uint32_t>(found - known.begin()) + 1);
    }
    if (added.empty()) return numbers;
    auto file = cache.open_file(kDevicesFile, io::OpenMode::kReadWrite);
    if (file.status().code() == Code::kNotFound) file = cache.open_file(kDevicesFile, io::OpenMode::kCreateNew);
    FOREBAY_TRY(file.status());
    const std::uint64_t end = read_device_lines(cache).size();
    FOREBAY_TRY(file.value()->resize(end));   // a killed process left a partial line
    FOREBAY_TRY(file.value()->write_at(end, std::as_bytes(std::span(added))));
    return numbers;
}

}   // namespace forebay::cache
