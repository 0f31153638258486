// The interval at which a waiting process checks that the other process still lives.
#pragma once

#include <chrono>

namespace forebay::group {

inline constexpr std::chrono::milliseconds kLivenessInterval{500};

}   // namespace forebay::group
