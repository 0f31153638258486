#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/torture/campaign.h"
#include "cli/torture/victim.h"
#include "io/posix_file.h"

namespace forebay::cli {

namespace {

constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;   // the largest write of recovery, too
constexpr std::uint64_t kOfOneWrite = std::uint64_t{1} << 20;
constexpr std::uint64_t kLongNs = 3'600'000'000'000;

// The bytes that the writing process puts there.
void fill_piece(std::uint64_t offset, std::span<std::byte> piece) {
    for (std::uint64_t at = 0; at < piece.size(); at += kOfOneWrite) fill(piece.subspan(at, std::min<std::uint64_t>(kOfOneWrite, piece.size() - at)), offset + at);
}

Result<std::unique_ptr<io::File>> open_file(const std::string& path, int flags) {
    const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
    if (descriptor < 0) return Status::from_errno(errno, "open " + path);
    return io::adopt_posix_file(descriptor, path);
}

Result<bool> holds_everything(const std::string& path, std::uint64_t bytes) {
    auto file = open_file(path, O_RDONLY);
    if (!file) return file.status();
    std::vector<std::byte> expected(kPiece), got(kPiece);
    for (std::uint64_t offset = 0; offset < bytes; offset += kPiece) {
        const std::size_t length = std::min(kPiece, bytes - offset);
        fill_piece(offset, std::span(expected).first(length));
        const auto count = file.value()->read_at(offset, std::span(got).first(length));
        if (!count) return count.status();
        if (count.value() != length || !std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(length), expected.begin())) return false;
    }
    return true;
}

// Only the writes and the sync count, not making the bytes.
Result<std::uint64_t> write_in_order(const std::string& path, std::uint64_t bytes) {
    auto file = open_file(path, O_RDWR | O_CREAT | O_EXCL);
    if (!file) return file.status();
    std::vector<std::byte> piece(kPiece);
    fill_piece(0, piece);
    const std::uint64_t begin_ns = monotonic_ns();
    for (std::uint64_t offset = 0; offset < bytes; offset += kPiece)
        FOREBAY_TRY(file.value()->write_at(offset, std::span(piece).first(std::min(kPiece, bytes - offset))));
    FOREBAY_TRY(file.value()->sync());
    return monotonic_ns() - begin_ns;
}

}   // namespace

Result<Speed> measure_recovery(Ground& ground, std::uint64_t bytes, const std::vector<std::string>& settings) {
    const auto failed = [&](const char* what) { return Status(Code::kIo, fmt::format("{}: {}", what, ground.words())); };
    FOREBAY_TRY(ground.prepare({}));
    const auto before = write_in_order(ground.folder() + "/before", bytes);
    if (!before) return before.status();
    {
        std::vector<std::string> command{ground.self};
        for (std::string& argument : arguments_of({.seed = 1, .nls = ground.nls(), .file = ground.file(), .bulk_bytes = bytes, .settings = settings})) command.push_back(std::move(argument));
        auto victim = Killable::start(ground.signals, command, ground.words_file());
        if (!victim) return victim.status();
        const auto event = victim.value().wait(monotonic_ns() + kLongNs, 1);
        if (!event) return event.status();
        if (event.value() != Killable::Event::kOutput) return failed("the process that writes did not get there");
        victim.value().kill();
        const auto end = victim.value().wait(monotonic_ns() + kHangNs);
        if (!end) return end.status();
        if (end.value() != Killable::Event::kEnded) return failed("the process that writes did not die");
    }
    Speed speed;
    const std::uint64_t begin_ns = monotonic_ns();
    auto recovery = Killable::start(ground.signals, {ground.self, "recover", "--json", ground.nls()}, ground.words_file());
    if (!recovery) return recovery.status();
    const auto end = recovery.value().wait(begin_ns + kLongNs);
    if (!end) return end.status();
    if (end.value() != Killable::Event::kEnded || recovery.value().wait_status() != 0) return failed("recovery did not get there");
    speed.recovery_ns = monotonic_ns() - begin_ns;
    const auto report = nlohmann::json::parse(recovery.value().output(), nullptr, false);
    if (report.is_object())
        for (const auto& file : report.value("files", nlohmann::json::array())) speed.bytes += file.value("bytes", std::uint64_t{0});
    const auto right = holds_everything(ground.file(), bytes);
    if (!right) return right.status();
    speed.right = right.value();
    const auto after = write_in_order(ground.folder() + "/after", bytes);
    if (!after) return after.status();
    speed.sequential_ns = std::min(before.value(), after.value());
    return speed;
}

}   // namespace forebay::cli
