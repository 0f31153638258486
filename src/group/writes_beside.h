// Writes to a target beside the drain: a bypass by the program itself.
//
// Writers of one file wait for each other in the kernel. So a target write of the drain tells how fast the target is
// only if none of these was under way meanwhile. Lies in memory of one process, or in what the participants of a shared
// file have mapped. Thread-safe, also between processes. One whose process has died is under way for ever, and nothing
// is learnt any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace forebay::group {

struct WritesBeside {
    std::atomic<std::uint64_t> begun{0}, ended{0};

    // Nothing: some are under way.
    [[nodiscard]] std::optional<std::uint64_t> none_now() const noexcept {
        const std::uint64_t before = ended.load();   // first: one that begins and ends in between must not go unnoticed
        const std::uint64_t all = begun.load();
        return all == before ? std::optional(all) : std::nullopt;
    }
    [[nodiscard]] bool none_since(std::optional<std::uint64_t> then) const noexcept {
        return then && begun.load() == *then;
    }
};

// One of them is under way as long as this lives.
class WriteBeside {
  public:
    explicit WriteBeside(WritesBeside& writes) noexcept : writes_(writes) { writes_.begun.fetch_add(1); }
    ~WriteBeside() { writes_.ended.fetch_add(1); }
    WriteBeside(const WriteBeside&) = delete;
    WriteBeside& operator=(const WriteBeside&) = delete;

  private:
    WritesBeside& writes_;
};

}   // namespace forebay::group
