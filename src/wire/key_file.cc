#include "wire/key_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "io/private_file.h"

namespace forebay::wire {

namespace {

constexpr std::size_t kTextBytes = 2 * std::tuple_size_v<SealKey> + 1;

Status no_key(const std::string& path) {
    return {Code::kInvalidArgument, path + ": it has no key, which is 64 hexadecimal digits"};
}

Result<SealKey> key_in(std::string_view text, const std::string& path) {
    if (text.size() != kTextBytes || text.back() != '\n') return no_key(path);
    SealKey key;
    for (std::size_t i = 0; i < key.size(); ++i) {
        unsigned value = 0;
        const char* const from = text.data() + 2 * i;
        const auto end = std::from_chars(from, from + 2, value, 16);
        if (end.ec != std::errc() || end.ptr != from + 2) return no_key(path);
        key[i] = static_cast<std::byte>(value);
    }
    return key;
}

std::string key_as_text(const SealKey& key) {
    std::string text;
    for (const std::byte byte : key) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    return text + '\n';
}

}   // namespace

std::string key_file(const std::string& option) {
    if (!option.empty()) return option;
    const char* const home = std::getenv("HOME");
    return home != nullptr && *home == '/' ? std::string(home) + "/.config/forebay/server.key" : std::string();
}

Result<SealKey> read_key(const std::string& path) {
    if (path.empty()) return Status(Code::kNotFound, "there is no home directory for the key (option server_key)");
    const auto text = io::read_private_file(path, kTextBytes);
    if (!text) return text.status().with_context("the key of staging servers");
    return key_in(text.value(), path);
}

Result<SealKey> read_or_make_key(const std::string& path) {
    auto key = read_key(path);
    if (key || path.empty() || key.status().code() != Code::kNotFound) return key;
    const auto secret = new_secret();
    if (!secret) return secret.status();
    FOREBAY_TRY(io::make_private_file(path, key_as_text(secret.value())));
    return read_key(path);
}

}   // namespace forebay::wire
