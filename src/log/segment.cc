#include "log/segment.h"

#include <fmt/format.h>

#include <cerrno>

#include "base/bytes.h"
#include "io/guarded_access.h"
#include "log/format.h"

namespace forebay::log {

namespace {

// Words of a segment header that change in use, and that other processes read.
std::atomic_ref<std::uint64_t> word(const Segment& segment, std::size_t offset) noexcept {
    return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(segment.at(offset)));
}

void raise_generation(Segment& segment) noexcept {
    auto generation = word(segment, kGenerationOffset);
    generation.store(little_endian(little_endian(generation.load(std::memory_order_relaxed)) + 1),
                     std::memory_order_release);
    // Later stores into the segment must not become visible before the new generation.
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

}   // namespace

std::uint64_t Segment::generation() const noexcept {
    return little_endian(word(*this, kGenerationOffset).load(std::memory_order_acquire));
}

std::uint64_t Segment::use() const noexcept {
    return little_endian(word(*this, kUseOffset).load(std::memory_order_relaxed));
}

std::optional<std::uint64_t> Segment::published_tail() const noexcept {
    std::uint64_t tail_now = 0;
    const std::byte* const faulted = io::guarded(bytes(), [&]() noexcept {
        tail_now = little_endian(word(*this, kTailOffset).load(std::memory_order_acquire));
    });
    return faulted == nullptr ? std::optional(tail_now) : std::nullopt;
}

Status Segment::fault(const std::byte* address) const {
    const auto offset = static_cast<std::uint64_t>(address - bytes().data()) + index_ * size();
    return Status::from_errno(EIO, fmt::format("access offset {} of the staging log {}", offset,
                                               file_ != nullptr ? file_->name() : ""));
}

Status Segment::begin(const area::ProcessIdentity& process, std::uint64_t log, std::uint64_t order_in_log) {
    tail = kSegmentHeaderBytes;
    live_bytes = 0;
    pins = 0;
    first_time_ns = 0;
    participant = 0;
    order = {};
    SegmentHeader header{size(), process, log, order_in_log};
    const std::byte* const faulted = io::guarded(bytes(), [&]() noexcept {
        raise_generation(*this);
        own_generation = generation();
        header.taken = static_cast<std::uint32_t>(own_generation);
        word(*this, kTailOffset).store(little_endian(tail), std::memory_order_relaxed);
        word(*this, kNeededOffset).store(0, std::memory_order_relaxed);
        encode(header, bytes().first(kSegmentHeaderBytes));
    });
    return faulted == nullptr ? Status::ok() : fault(faulted);
}

bool Segment::end() noexcept {
    return io::guarded(bytes(), [&]() noexcept {
               word(*this, 0).store(0, std::memory_order_relaxed);
               raise_generation(*this);
           }) == nullptr;
}

}   // namespace forebay::log
