#include "journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace differential {
namespace {

std::string hexadecimal(std::uint64_t value) {
    std::array<char, 20> text{};
    std::snprintf(text.data(), text.size(), "%016" PRIx64, value);
    return text.data();
}

// HDF5 numbers the stack upward from the innermost error.
herr_t keep_innermost(unsigned position, const H5E_error2_t* error, void* data) {
    if (position != 0) return 0;
    std::array<char, 128> major{}, minor{};
    H5Eget_msg(error->maj_num, nullptr, major.data(), major.size());
    H5Eget_msg(error->min_num, nullptr, minor.data(), minor.size());
    auto& text = *static_cast<std::string*>(data);
    text = std::string(major.data()) + "/" + minor.data();
    if (const char* number = error->desc ? std::strstr(error->desc, "errno = ") : nullptr)
        text += "/errno " + std::to_string(std::atoi(number + 8));
    return 0;
}

}   // namespace

std::uint64_t combine(std::uint64_t digest, std::uint64_t value) {
    digest ^= value + 0x9E3779B97F4A7C15 + (digest << 6) + (digest >> 2);
    digest *= 0xFF51AFD7ED558CCD;
    return digest ^ (digest >> 33);
}

std::uint64_t digest_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
    std::uint64_t digest = combine(seed, bytes.size());
    std::size_t position = 0;
    for (; position + 8 <= bytes.size(); position += 8) {
        std::uint64_t word;
        std::memcpy(&word, bytes.data() + position, 8);
        digest = combine(digest, word);
    }
    std::uint64_t last = 0;
    if (position < bytes.size()) std::memcpy(&last, bytes.data() + position, bytes.size() - position);
    return combine(digest, last);
}

Journal::Journal(const std::string& path, bool print_errors)
    : descriptor_(path.empty() ? STDOUT_FILENO : ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)),
      print_errors_(print_errors) {
    if (descriptor_ < 0) {
        std::perror(path.c_str());
        std::exit(2);
    }
}

Journal::~Journal() {
    flush();
    if (descriptor_ != STDOUT_FILENO) ::close(descriptor_);
}

void Journal::begin_case(std::uint64_t seed) {
    line_ += "case " + std::to_string(seed);
    line_ += '\n';
    flush();
}

void Journal::end_case() {
    line_ += "end\n";
    flush();
}

void Journal::begin_operation(std::uint64_t index, std::string_view name) {
    line_ += "> " + std::to_string(index);
    line_ += ' ';
    line_ += name;
    flush();
}

void Journal::end_operation() {
    line_ += '\n';
    flush();
}

void Journal::note(std::string_view text) {
    line_ += ' ';
    line_ += text;
    flush();   // before the call that it announces
}

void Journal::note(std::string_view name, std::int64_t value) {
    line_ += ' ';
    line_ += name;
    line_ += ':' + std::to_string(value);
}

void Journal::value(std::string_view name, std::int64_t value) {
    line_ += ' ';
    line_ += name;
    line_ += '=' + std::to_string(value);
}

void Journal::digest(std::string_view name, std::uint64_t value) {
    line_ += ' ';
    line_ += name;
    line_ += '=' + hexadecimal(value);
}

void Journal::record(std::string_view name, bool succeeded) {
    ++calls_;
    line_ += ' ';
    line_ += name;
    if (succeeded) return;
    ++failures_;
    if (print_errors_) H5Eprint2(H5E_DEFAULT, stderr);
    std::string reason;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &reason);
    line_ += "!failed(" + reason + ")";
}

void Journal::flush() {
    std::size_t done = 0;
    while (done < line_.size()) {
        const auto written = ::write(descriptor_, line_.data() + done, line_.size() - done);
        if (written <= 0) std::_Exit(2);
        done += static_cast<std::size_t>(written);
    }
    line_.clear();
}

}   // namespace differential
