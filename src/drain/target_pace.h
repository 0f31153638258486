// Tells whether a target takes CPU time, as a page cache does, rather than waiting, and how much. It averages the last
// few writes; the last one counts half. Time without the processor is no waiting. Pure. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

namespace forebay::drain {

class TargetPace {
  public:
    static constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;

    // A write of `bytes` took `took_ns`, and `cpu_ns` of processor time. `slept`: the thread slept in between.
    void wrote(std::uint64_t bytes, std::uint64_t cpu_ns, std::uint64_t took_ns, bool slept) noexcept {
        bytes_ = bytes_ / 2 + bytes;
        cpu_ns_ = cpu_ns_ / 2 + cpu_ns;
        took_ns_ = took_ns_ / 2 + (slept ? took_ns : cpu_ns);
    }
    // True after the first write.
    [[nodiscard]] bool known() const noexcept { return bytes_ != 0; }
    // The ns that kBytes take, at least 1; none if the target waits, or before the first write.
    [[nodiscard]] std::optional<std::uint64_t> of_memory() const noexcept {
        if (2 * cpu_ns_ <= took_ns_ || bytes_ == 0) return std::nullopt;
        return 1 + static_cast<std::uint64_t>(static_cast<double>(took_ns_) / static_cast<double>(bytes_) * kBytes);
    }

  private:
    std::uint64_t bytes_ = 0, cpu_ns_ = 0, took_ns_ = 0;
};

}   // namespace forebay::drain
