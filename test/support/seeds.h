// The seed of a run of random tests: a new one for each run, or FOREBAY_SEED. A failing test prints it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace forebay::test {

// FOREBAY_SEED, or a new number. RapidCheck's properties start from it too.
[[nodiscard]] std::uint64_t seed_of_run();

// Returns seeds for `for (const std::uint64_t seed : seeds("name", 12, {3, 17}))`. The first are those that failed
// once; keep them in the list. Then follow `count` new ones that depend on FOREBAY_SEED and the name. All are less than
// 2^31, and the new ones more than kFixedSeedMax. There are a quarter as many new ones under a sanitizer, where tests
// are slower, twenty times as many with FOREBAY_TEST_LONG=1, and a fifth with FOREBAY_TEST_QUICK=1. Only fixed seeds
// can assert that an event happens at all; new ones may miss it by chance.
inline constexpr std::uint64_t kFixedSeedMax = 100;
[[nodiscard]] std::vector<std::uint64_t> seeds(const char* name, std::size_t count,
                                               std::initializer_list<std::uint64_t> known = {});

// The step of tests that try every place: under a sanitizer they try one place in four.
#if defined(FOREBAY_SANITIZES_ADDRESS) || defined(FOREBAY_SANITIZES_THREAD)
inline constexpr int kEachNth = 4;
#else
inline constexpr int kEachNth = 1;
#endif

}   // namespace forebay::test
