#include "statistics.h"

#include <algorithm>
#include <bit>
#include <string>

#include <nlohmann/json.hpp>

namespace forebay::slowfs {

namespace {

void raise(std::atomic<std::int64_t>& maximum, std::int64_t value) noexcept {
    std::int64_t seen = maximum.load();
    while (seen < value && !maximum.compare_exchange_weak(seen, value)) {
    }
}

template <std::size_t N>
nlohmann::json histogram(const std::array<std::atomic<std::uint64_t>, N>& buckets) {
    auto json = nlohmann::json::object();
    for (std::size_t i = 0; i < N; ++i) {
        const std::uint64_t smallest = i == 0 ? 0 : std::uint64_t{1} << (i - 1);
        if (const std::uint64_t count = buckets[i].load(); count > 0) json[std::to_string(smallest)] = count;
    }
    return json;
}

}   // namespace

void Statistics::Counters::finish(std::uint64_t moved_bytes, bool failed, std::int64_t took_ns) noexcept {
    errors += failed ? 1 : 0;
    bytes += moved_bytes;
    duration_ns += took_ns;
    in_flight -= 1;
}

void Statistics::begin(Op op) noexcept {
    for (Counters* counters : {&by_op_[index_of(op)], &all_}) {
        raise(counters->in_flight_max, counters->in_flight.fetch_add(1) + 1);
    }
}

void Statistics::end(Op op, std::uint64_t asked_bytes, std::uint64_t moved_bytes, bool failed,
                     std::int64_t duration_ns) noexcept {
    for (Counters* counters : {&by_op_[index_of(op)], &all_}) {
        counters->count += 1;
        counters->finish(moved_bytes, failed, duration_ns);
    }
    const std::size_t bucket = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(asked_bytes)),
                                                     kBucketCount - 1);
    if (op == Op::kRead) read_sizes_[bucket] += 1;
    if (op == Op::kWrite) write_sizes_[bucket] += 1;
}

void Statistics::end_rest(Op op, std::uint64_t moved_bytes, bool failed, std::int64_t duration_ns) noexcept {
    for (Counters* counters : {&by_op_[index_of(op)], &all_}) {
        counters->rests += 1;
        counters->finish(moved_bytes, failed, duration_ns);
    }
}

void Statistics::reset() noexcept {
    const auto clear = [](Counters& counters) {
        counters.count = 0;
        counters.rests = 0;
        counters.errors = 0;
        counters.bytes = 0;
        counters.duration_ns = 0;
        counters.in_flight_max = counters.in_flight.load();
    };
    clear(all_);
    for (Counters& counters : by_op_) clear(counters);
    for (auto& bucket : read_sizes_) bucket = 0;
    for (auto& bucket : write_sizes_) bucket = 0;
}

nlohmann::json Statistics::to_json() const {
    auto operations = nlohmann::json::object();
    for (std::size_t i = 0; i < kOpCount; ++i) {
        const Counters& counters = by_op_[i];
        operations[std::string(op_name(static_cast<Op>(i)))] = {
            {"count", counters.count.load()},
            {"rests", counters.rests.load()},
            {"errors", counters.errors.load()},
            {"bytes", counters.bytes.load()},
            {"time_s", static_cast<double>(counters.duration_ns.load()) / 1e9},
            {"in_flight_max", counters.in_flight_max.load()},
        };
    }
    return {
        {"count", all_.count.load()},
        {"errors", all_.errors.load()},
        {"in_flight", all_.in_flight.load()},
        {"in_flight_max", all_.in_flight_max.load()},
        {"bytes_read", by_op_[index_of(Op::kRead)].bytes.load()},
        {"bytes_written", by_op_[index_of(Op::kWrite)].bytes.load()},
        {"read_sizes", histogram(read_sizes_)},
        {"write_sizes", histogram(write_sizes_)},
        {"operations", std::move(operations)},
    };
}

}   // namespace forebay::slowfs
