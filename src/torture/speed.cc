#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "io/page_buffer.h"
#include "io/posix_file.h"
#include "torture/campaign.h"
#include "torture/victim.h"

namespace forebay::torture {

namespace {

constexpr std::uint64_t kPiece = std::uint64_t{8} << 20;   // also the largest write of recovery
constexpr std::uint64_t kOfOneWrite = std::uint64_t{1} << 20;
constexpr std::size_t kTimes = 5;   // odd
constexpr std::uint64_t kLongNs = 3'600'000'000'000;

void fill_piece(std::uint64_t offset, std::span<std::byte> piece) {
    for (std::uint64_t at = 0; at < piece.size(); at += kOfOneWrite)
        fill(piece.subspan(at, std::min<std::uint64_t>(kOfOneWrite, piece.size() - at)), offset + at);
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
        if (count.value() != length ||
            !std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(length), expected.begin()))
            return false;
    }
    return true;
}

// Measures the writes and the sync, but not the making of the bytes.
Result<std::uint64_t> write_in_order(const std::string& path, std::uint64_t bytes) {
    auto file = open_file(path, O_RDWR | O_CREAT | O_EXCL);
    if (!file) return file.status();
    // The alignment is that of recovery's buffers: some file systems split such writes less.
    const io::PageBuffer buffer(kPiece);
    const std::span<std::byte> piece = buffer.bytes();
    fill_piece(0, piece);
    const std::uint64_t begin_ns = monotonic_ns();
    for (std::uint64_t offset = 0; offset < bytes; offset += kPiece)
        FOREBAY_TRY(file.value()->write_at(offset, piece.first(std::min(kPiece, bytes - offset))));
    FOREBAY_TRY(file.value()->sync());
    return monotonic_ns() - begin_ns;
}

// Once each: the bytes in order and their sync, then the recovery of a killed process with a log of that size.
Result<Speed> measure_once(Ground& ground, std::uint64_t bytes, const std::vector<std::string>& settings) {
    const auto failed = [&](const char* what) {
        return Status(Code::kIo, fmt::format("{}: {}", what, ground.words()));
    };
    FOREBAY_TRY(ground.prepare({}));
    Speed speed;
    const std::string in_order = ground.folder() + "/in-order";
    const auto sequential_ns = write_in_order(in_order, bytes);
    if (!sequential_ns) return sequential_ns.status();
    speed.sequential_ns = sequential_ns.value();
    {
        std::vector<std::string> command{ground.self};
        for (std::string& argument : arguments_of(
                 {.seed = 1, .nls = ground.nls(), .file = ground.file(), .bulk_bytes = bytes, .settings = settings}))
            command.push_back(std::move(argument));
        auto victim = Killable::start(ground.signals, command, ground.words_file());
        if (!victim) return victim.status();
        const auto event = victim.value().wait(monotonic_ns() + kLongNs, 1);
        if (!event) return event.status();
        if (event.value() != Killable::Event::kOutput)
            return failed("the writing process did not reach its last commit");
        victim.value().kill();
        const auto end = victim.value().wait(monotonic_ns() + kHangNs);
        if (!end) return end.status();
        if (end.value() != Killable::Event::kEnded) return failed("the writing process did not die");
    }
    // Recovery also gets memory that was a file's before: on a virtual machine fresh memory may cost more than writes.
    if (::unlink(in_order.c_str()) != 0) return Status::from_errno(errno, "remove " + in_order);
    const std::uint64_t begin_ns = monotonic_ns();
    auto recovery = Killable::start(ground.signals, {ground.command, "recover", "--json", ground.nls()},
                                    ground.words_file());
    if (!recovery) return recovery.status();
    const auto end = recovery.value().wait(begin_ns + kLongNs);
    if (!end) return end.status();
    if (end.value() != Killable::Event::kEnded || recovery.value().wait_status() != 0) return failed("recovery failed");
    speed.recovery_ns = monotonic_ns() - begin_ns;
    const auto report = nlohmann::json::parse(recovery.value().output(), nullptr, false);
    if (report.is_object())
        for (const auto& file : report.value("files", nlohmann::json::array()))
            speed.bytes += file.value("bytes", std::uint64_t{0});
    const auto right = holds_everything(ground.file(), bytes);
    if (!right) return right.status();
    speed.right = right.value();
    return speed;
}

}   // namespace

Result<Speed> measure_recovery(Ground& ground, std::uint64_t bytes, const std::vector<std::string>& settings) {
    std::array<std::uint64_t, kTimes> recovery_ns{}, sequential_ns{};
    Speed speed;
    for (std::size_t i = 0; i < kTimes; ++i) {
        const auto once = measure_once(ground, bytes, settings);
        if (!once) return once.status();
        recovery_ns[i] = once.value().recovery_ns;
        sequential_ns[i] = once.value().sequential_ns;
        speed.bytes = once.value().bytes;
        speed.right = once.value().right && (i == 0 || speed.right);
    }
    const auto median = [](std::array<std::uint64_t, kTimes>& times) {
        std::sort(times.begin(), times.end());
        return times[kTimes / 2];
    };
    speed.recovery_ns = median(recovery_ns);
    speed.sequential_ns = median(sequential_ns);
    return speed;
}

}   // namespace forebay::torture
