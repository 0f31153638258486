#include "torture/workload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/options.h"

namespace forebay::torture {

namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kFileMax = 3 * kKiB * kKiB;
constexpr std::uint64_t kEpochMax = 3 * kKiB * kKiB;   // between two commits; a log has at least 16 MiB
constexpr std::uint64_t kOperationsMax = 40;           // between two commits

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): the finalizer.
std::uint64_t mixed(std::uint64_t value) noexcept {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}
constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

}   // namespace

std::uint64_t Dice::below(std::uint64_t bound) noexcept { return mixed(state_ += kStep) % bound; }

Workload::Workload(std::uint64_t seed) noexcept
    : state_(mixed(seed + kStep)), until_commit_(1 + below(kOperationsMax)) {}

std::uint64_t Workload::random() noexcept { return mixed(state_ += kStep); }

Operation Workload::next() noexcept {
    if (until_commit_ == 0 || epoch_bytes_ >= kEpochMax) {
        until_commit_ = 1 + below(kOperationsMax);
        epoch_bytes_ = 0;
        return {};
    }
    --until_commit_;
    if (below(16) == 0) return {.kind = Operation::Kind::kTruncate, .size = below(kFileMax)};
    // Mostly small pieces, like metadata. Some fill segments, and some may bypass the log.
    constexpr std::uint64_t kSizes[] = {64, 512, 4 * kKiB, 4 * kKiB, 64 * kKiB, 64 * kKiB, 200 * kKiB, 600 * kKiB};
    Operation operation{.kind = Operation::Kind::kWrite, .size = 1 + below(kSizes[below(std::size(kSizes))])};
    operation.offset = below(kFileMax - operation.size);
    operation.metadata = operation.size <= 64 * kKiB && below(2) == 0;
    operation.content = random();
    epoch_bytes_ += operation.size;
    return operation;
}

std::vector<std::string> Workload::settings(std::uint64_t seed) {
    const std::uint64_t choice = mixed(seed);
    constexpr std::uint64_t kThreads[] = {1, 2, 4, 8};
    constexpr std::uint64_t kLogs[] = {16, 16, 32, 64};
    return {"stripe=64KiB", "strict=on", fmt::format("size={}MiB", kLogs[choice % 4]),
            fmt::format("drain_threads={}", kThreads[choice / 8 % 4])};
}

std::string Workload::connector_string(std::uint64_t seed, const std::string& nls) {
    return fmt::format("nls={};{}", quote_connector_value(as_staging_device(nls)), fmt::join(settings(seed), ";"));
}

std::vector<std::byte> Workload::initial(std::uint64_t seed) {
    std::vector<std::byte> bytes(mixed(~seed) % (256 * kKiB));
    fill(bytes, ~seed);
    return bytes;
}

void fill(std::span<std::byte> bytes, std::uint64_t content) noexcept {
    while (!bytes.empty()) {
        const std::uint64_t word = mixed(content += kStep);
        const std::size_t length = std::min(sizeof word, bytes.size());
        std::memcpy(bytes.data(), &word, length);
        bytes = bytes.subspan(length);
    }
}

void apply_operation(const Operation& operation, std::vector<std::byte>& bytes) {
    if (operation.kind == Operation::Kind::kTruncate) bytes.resize(operation.size);
    if (operation.kind != Operation::Kind::kWrite) return;
    bytes.resize(std::max<std::uint64_t>(bytes.size(), operation.offset + operation.size));
    fill(std::span(bytes).subspan(operation.offset, operation.size), operation.content);
}

const std::vector<std::byte>& Oracle::after(std::uint64_t commits) {
    while (commits_ < commits) {
        const Operation operation = workload_.next();
        commits_ += operation.kind == Operation::Kind::kCommit;
        apply_operation(operation, bytes_);
    }
    return bytes_;
}

}   // namespace forebay::torture
