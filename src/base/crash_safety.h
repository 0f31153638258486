// Whether this build keeps what a crash must not lose: commit records, holding back until a commit, checksums.
//
// It always does. A build with the CMake option FOREBAY_CRASH_SAFETY=OFF is for one purpose, to measure what that
// costs (`bench/run --only crash_safety`); after a crash its logs are worth nothing, and it is never installed.
#pragma once

namespace forebay {

#ifdef FOREBAY_WITHOUT_CRASH_SAFETY
inline constexpr bool kCrashSafety = false;
#else
inline constexpr bool kCrashSafety = true;
#endif

}   // namespace forebay
