#pragma once

#include <atomic>
#include <cstdint>

namespace forebay::slowfs {

[[nodiscard]] std::int64_t now_ns() noexcept;

// Or until `stopping` is set, which it checks every 20 ms. Interrupting signals do not shorten the sleep.
void sleep_until(std::int64_t deadline_ns, const std::atomic<bool>& stopping) noexcept;

}   // namespace forebay::slowfs
