#include "cli/write_speed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/clock.h"

namespace forebay::cli {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::uint64_t kBytesMax = std::uint64_t{64} << 20;
constexpr std::uint64_t kSyncEvery = std::uint64_t{4} << 20;
constexpr std::uint64_t kPhaseNs = 500'000'000;

Result<int> open_nameless(const std::string& directory) {
    int descriptor = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        // File systems without O_TMPFILE, parallel ones among them: the file is unlinked at once.
        std::string name = directory + "/.forebay-speed-XXXXXX";
        descriptor = ::mkostemp(name.data(), O_CLOEXEC);
        if (descriptor >= 0) ::unlink(name.c_str());
    }
    if (descriptor < 0) return Status::from_errno(errno, "create a file in " + directory);
    return descriptor;
}

// Returns bytes per second.
Result<double> write_for_a_while(int descriptor, const std::vector<char>& block, bool durable,
                                 const std::string& directory) {
    const std::uint64_t begin = monotonic_ns();
    std::uint64_t bytes = 0, elapsed = 0;
    while (bytes < kBytesMax && elapsed < kPhaseNs) {
        const ssize_t wrote = ::pwrite(descriptor, block.data(), block.size(), static_cast<off_t>(bytes));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0)
            return Status::from_errno(wrote < 0 ? errno : EIO,
                                      fmt::format("write {} bytes in {}", block.size(), directory));
        bytes += static_cast<std::uint64_t>(wrote);
        if (durable && bytes % kSyncEvery == 0 && ::fdatasync(descriptor) != 0)
            return Status::from_errno(errno, "sync a file in " + directory);
        elapsed = monotonic_ns() - begin;
    }
    return static_cast<double>(bytes) * 1e9 / static_cast<double>(std::max<std::uint64_t>(elapsed, 1));
}

}   // namespace

Result<WriteSpeed> measure_write_speed(const std::string& directory) {
    const Result<int> descriptor = open_nameless(directory);
    if (!descriptor) return descriptor.status();
    const std::vector<char> block(kBlock, 'f');
    Result<double> seen = write_for_a_while(descriptor.value(), block, false, directory);
    // Dirty pages of the first phase would slow down the second.
    if (seen && ::ftruncate(descriptor.value(), 0) != 0)
        seen = Status::from_errno(errno, "shorten a file in " + directory);
    const Result<double> durable = seen ? write_for_a_while(descriptor.value(), block, true, directory) : seen;
    ::close(descriptor.value());
    if (!durable) return durable.status();
    return WriteSpeed{seen.value(), durable.value()};
}

}   // namespace forebay::cli
