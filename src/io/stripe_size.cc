#include "io/stripe_size.h"

#include <sys/xattr.h>

#include <new>
#include <vector>

#include "base/bytes.h"

namespace forebay::io {

namespace {

constexpr std::uint32_t kLustre = 0x0BD00BD0;   // statfs(2), f_type
constexpr std::uint32_t kLayoutV1 = 0x0BD10BD0, kLayoutV3 = 0x0BD30BD0;
constexpr std::size_t kStripeSizeAt = 24, kFixedPartBytes = 32;
// Smaller blocks are a local file system's page. Larger ones are an address space.
constexpr std::uint64_t kTellingMin = 64 << 10, kTellingMax = 64 << 20;

std::uint64_t if_telling(std::uint64_t bytes) noexcept {
    return bytes >= kTellingMin && bytes <= kTellingMax ? bytes : 0;
}

}   // namespace

std::uint64_t stripe_size(Bytes lustre_layout, std::uint64_t block_bytes) noexcept {
    if (lustre_layout.size() >= kFixedPartBytes) {
        const auto magic = load_le<std::uint32_t>(lustre_layout.data());
        if (magic == kLayoutV1 || magic == kLayoutV3)
            if (const std::uint64_t told = if_telling(load_le<std::uint32_t>(lustre_layout.data() + kStripeSizeAt));
                told != 0)
                return told;
    }
    return if_telling(block_bytes);
}

std::uint64_t ask_stripe_size(int descriptor, std::uint64_t file_system, std::uint64_t block_bytes) noexcept {
    // A layout grows with its stripes, and is only available as a whole. So Lustre's longest must fit.
    static constexpr std::size_t kLayoutMax = 64 << 10;
    // Another file system might ask a server in vain.
    const ssize_t bytes = file_system == kLustre ? ::fgetxattr(descriptor, "lustre.lov", nullptr, 0) : -1;
    if (bytes < static_cast<ssize_t>(kFixedPartBytes) || bytes > static_cast<ssize_t>(kLayoutMax))
        return stripe_size({}, block_bytes);
    try {
        std::vector<std::byte> layout(static_cast<std::size_t>(bytes));
        const ssize_t got = ::fgetxattr(descriptor, "lustre.lov", layout.data(), layout.size());
        return stripe_size(Bytes(layout).first(got > 0 ? static_cast<std::size_t>(got) : 0), block_bytes);
    } catch (const std::bad_alloc&) {
        return stripe_size({}, block_bytes);
    }
}

}   // namespace forebay::io
