// How often a waiting process checks that the process it waits for still lives.
#pragma once

#include <chrono>

namespace forebay::group {

inline constexpr std::chrono::milliseconds kLivenessInterval{500};

}   // namespace forebay::group
