#include "base/configuration_text.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#include <fmt/format.h>

namespace forebay {

namespace {

constexpr std::size_t kBytesMax = std::size_t{1} << 20;

}   // namespace

Result<std::string> read_configuration(const std::string& path, std::string_view named_by) {
    const auto failure = [&](int error) {
        return Status::from_errno(error, fmt::format("read the configuration {} ({})", path, named_by));
    };
    struct Close {
        void operator()(std::FILE* file) const noexcept { std::fclose(file); }
    };
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
    if (!file) return failure(errno);
    std::string text;
    std::array<char, 65536> block;
    while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
        text.append(block.data(), got);
        if (text.size() > kBytesMax) return failure(EFBIG);
    }
    if (std::ferror(file.get()) != 0) return failure(errno);
    return text;
}

}   // namespace forebay
