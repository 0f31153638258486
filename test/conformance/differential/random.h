// A small deterministic random source: the same seed gives the same program on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace differential {

class Random {
  public:
    // A stream of its own for every (seed, stream): leaving out one operation of a program does not
    // change the choices of the others.
    explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : state_(mix(seed) ^ mix(~stream)) {}

    std::uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15); }
    std::uint64_t below(std::uint64_t end) { return end < 2 ? 0 : next() % end; }
    std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
    bool chance(unsigned percent) { return below(100) < percent; }

    template <class T>
    T pick(std::initializer_list<T> choices) {
        return choices.begin()[below(choices.size())];
    }
    template <class T>
    T& pick(std::vector<T>& choices) {
        return choices[below(choices.size())];
    }
    template <class T>
    const T& pick(const std::vector<T>& choices) {
        return choices[below(choices.size())];
    }

    // Mostly small, rarely near `high`: the logarithm is uniform.
    std::uint64_t skewed(std::uint64_t low, std::uint64_t high) {
        std::uint64_t span = high - low + 1;
        unsigned bits = 0;
        while (bits < 63 && (std::uint64_t{1} << bits) < span) ++bits;
        const std::uint64_t limit = std::uint64_t{1} << below(bits + 1);
        return low + below(limit < span ? limit : span);
    }

  private:
    static std::uint64_t mix(std::uint64_t value) {
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
        return value ^ (value >> 31);
    }
    std::uint64_t state_;
};

}   // namespace differential
