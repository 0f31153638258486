#include "base/staging_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/options.h"
#include "base/options_value.h"

namespace forebay {

namespace {

constexpr std::uint64_t kDeviceBytesMin = std::uint64_t{1} << 20, kDeviceBytesMax = std::uint64_t{1} << 50;

bool is_escape(std::string_view text, std::size_t at) {
    return text[at] == '\\' && at + 1 < text.size() && std::string_view(":=\\").find(text[at + 1]) != text.npos;
}

struct WrittenDevice {
    std::string path;
    std::optional<std::string> size;
};

Status no_device(std::string reason) { return {Code::kInvalidArgument, std::move(reason)}; }

std::vector<WrittenDevice> split_devices(std::string_view text) {
    std::vector<WrittenDevice> devices(1);
    std::size_t sign = std::string::npos;   // offset of the path's last "=" that is not escaped
    const auto end_device = [&] {
        WrittenDevice& device = devices.back();
        if (sign == std::string::npos || device.path.find('/', sign) != std::string::npos) return;
        device.size = device.path.substr(sign + 1);
        device.path.resize(sign);
    };
    for (std::size_t at = 0; at < text.size(); ++at) {
        std::string& path = devices.back().path;
        if (is_escape(text, at)) {
            path += text[++at];
        } else if (text.substr(at).starts_with(":/")) {
            end_device();
            devices.emplace_back();
            sign = std::string::npos;
        } else {
            if (text[at] == '=') sign = path.size();
            path += text[at];
        }
    }
    end_device();
    return devices;
}

Result<StagingDevice> device_of(const WrittenDevice& written) {
    StagingDevice device{written.path, 0};
    if (!device.path.starts_with('/'))
        return no_device("not an absolute path; it would move with the program's working directory");
    if (device.path.find('\n') != std::string::npos) return no_device("a path with a line break cannot be used");
    if (!written.size) return device;
    const auto bytes = parse_size(*written.size);
    if (!bytes || bytes.value() < kDeviceBytesMin || bytes.value() > kDeviceBytesMax)
        return no_device(fmt::format(
            "'{}' after {} is not a size; allowed: {} to {}, such as 200GiB. In a path, write \\= for =", *written.size,
            device.path, format_size(kDeviceBytesMin), format_size(kDeviceBytesMax)));
    device.bytes = bytes.value();
    return device;
}

}   // namespace

Result<std::vector<StagingDevice>> parse_staging_devices(std::string_view text) {
    std::vector<StagingDevice> devices;
    if (text.empty()) return devices;
    for (const WrittenDevice& written : split_devices(text)) {
        auto device = device_of(written);
        FOREBAY_TRY(device.status());
        const std::string& path = device.value().path;
        if (std::ranges::find(devices, path, &StagingDevice::path) != devices.end())
            return no_device(fmt::format("{} is named twice", path));
        devices.push_back(std::move(device).value());
    }
    if (devices.size() > kStagingDevicesMax)
        return no_device(fmt::format("{} directories; at most {} are allowed", devices.size(), kStagingDevicesMax));
    return devices;
}

std::string staging_devices_text(const std::vector<StagingDevice>& devices) {
    std::string text;
    for (const StagingDevice& device : devices) {
        if (!text.empty()) text += ':';
        text += as_staging_device(device.path);
        if (device.bytes != 0) (text += '=') += options_internal::exact_size(device.bytes);
    }
    return text;
}

// Escapes only characters that would be misread, so most paths stay unchanged.
std::string as_staging_device(std::string_view path) {
    const std::size_t last_part = path.rfind('/');
    std::string text;
    for (std::size_t at = 0; at < path.size(); ++at) {
        const bool sign = path[at] == '=' && (last_part == path.npos || at > last_part);
        const bool escape = path[at] == '\\' && (at + 1 == path.size() || is_escape(path, at));
        if (sign || escape || path.substr(at).starts_with(":/")) text += '\\';
        text += path[at];
    }
    return text;
}

}   // namespace forebay
