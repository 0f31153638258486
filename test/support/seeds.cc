#include "support/seeds.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace forebay::test {
namespace {

std::uint64_t chosen_seed() {
    if (const char* const given = std::getenv("FOREBAY_SEED"); given != nullptr && *given != 0)
        return std::strtoull(given, nullptr, 10);
    return std::random_device{}() & 0x7FFFFFFF;
}

std::uint64_t mixed(std::uint64_t value) {   // splitmix64, by S. Vigna: public domain
    value += 0x9E3779B97F4A7C15;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
}

bool is_set(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && std::string(value) == "1";
}

std::size_t fitting(std::size_t count) {
    if (is_set("FOREBAY_TEST_LONG")) return 20 * count;
    if (is_set("FOREBAY_TEST_QUICK")) return (count + 4) / 5;
#if defined(FOREBAY_SANITIZES_ADDRESS) || defined(FOREBAY_SANITIZES_THREAD)
    return (count + 3) / 4;
#else
    return count;
#endif
}

class SaysTheSeed : public testing::EmptyTestEventListener {
    void OnTestEnd(const testing::TestInfo& info) override {
        if (info.result()->Failed()) std::cerr << "FOREBAY_SEED=" << seed_of_run() << " repeats this run\n";
    }
};

// Runs before main. RapidCheck reads RC_PARAMS when its first property begins.
const bool prepared = [] {
    const std::string attempts = is_set("FOREBAY_TEST_QUICK") ? " max_success=20" : "";   // instead of 100
    ::setenv("RC_PARAMS", ("seed=" + std::to_string(seed_of_run()) + attempts).c_str(), 0);
    testing::UnitTest::GetInstance()->listeners().Append(new SaysTheSeed);   // GoogleTest deletes it
    return true;
}();

}   // namespace

std::uint64_t seed_of_run() {
    static const std::uint64_t seed = chosen_seed();
    return seed;
}

std::vector<std::uint64_t> seeds(const char* name, std::size_t count, std::initializer_list<std::uint64_t> known) {
    std::uint64_t state = seed_of_run();
    for (const char* letter = name; *letter != 0; ++letter) state = mixed(state + static_cast<unsigned char>(*letter));
    std::vector<std::uint64_t> all(known);
    for (std::size_t i = 0; i < fitting(count); ++i)
        all.push_back(kFixedSeedMax + 1 + mixed(state + i) % (0x7FFFFFFF - kFixedSeedMax));
    return all;
}

}   // namespace forebay::test
