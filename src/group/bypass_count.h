// Counts the writes of programs that bypass the log. The kernel makes writers of one file wait for each other. So a
// target write of the drain measures the target's speed only if no bypassing write was in flight meanwhile. The counts
// lie in memory of one process, or in memory that the participants of a shared file map. Thread-safe, also between
// processes. A write of a process that died stays in flight, and the drain then measures no pace.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace forebay::group {

struct BypassCount {
    std::atomic<std::uint64_t> begun{0}, ended{0};

    // Returns the number of writes so far, or nullopt if some are in flight.
    [[nodiscard]] std::optional<std::uint64_t> none_now() const noexcept {
        const std::uint64_t before = ended.load();   // first, to see a write that begins and ends in between
        const std::uint64_t all = begun.load();
        return all == before ? std::optional(all) : std::nullopt;
    }
    [[nodiscard]] bool none_since(std::optional<std::uint64_t> then) const noexcept {
        return then && begun.load() == *then;
    }
};

// A bypassing write. It is in flight during the lifetime of this object.
class BypassInFlight {
  public:
    explicit BypassInFlight(BypassCount& writes) noexcept : writes_(writes) { writes_.begun.fetch_add(1); }
    ~BypassInFlight() { writes_.ended.fetch_add(1); }
    BypassInFlight(const BypassInFlight&) = delete;
    BypassInFlight& operator=(const BypassInFlight&) = delete;

  private:
    BypassCount& writes_;
};

}   // namespace forebay::group
