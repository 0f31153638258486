#include "control.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "quantity.h"

namespace forebay::slowfs {

namespace {

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(kBlank);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

Status set_bandwidth(Simulation& simulation, Channel channel, std::string_view argument) {
    auto bandwidth = parse_bandwidth(argument);
    if (!bandwidth) return bandwidth.status();
    simulation.throttle.set_bandwidth(channel, bandwidth.value());
    return Status::ok();
}

Status set_caller_bandwidth(Simulation& simulation, Throttle::Caller kind, std::string_view argument) {
    auto bandwidth = parse_bandwidth(argument);
    if (!bandwidth) return bandwidth.status();
    simulation.throttle.set_caller_bandwidth(kind, bandwidth.value());
    return Status::ok();
}

Status set_latency(Simulation& simulation, std::string_view argument) {
    OpSet ops = delayed_by_default();
    if (const std::size_t equals = argument.find('='); equals != std::string_view::npos) {
        auto named = parse_ops(argument.substr(0, equals));
        if (!named) return named.status();
        ops = named.value();
        argument.remove_prefix(equals + 1);
    }
    auto latency = parse_duration_ns(argument);
    if (!latency) return latency.status();
    simulation.throttle.set_latency(ops, latency.value());
    return Status::ok();
}

Status add_fault(Simulation& simulation, std::string_view argument) {
    auto rule = FaultRule::parse(argument);
    if (!rule) return rule.status();
    simulation.faults.add(std::move(rule).value());
    return Status::ok();
}

}   // namespace

Status execute(Simulation& simulation, std::string_view line) {
    line = trimmed(line);
    if (line.empty()) return Status::ok();
    const std::size_t blank = std::min(line.find(' '), line.size());
    const std::string_view command = line.substr(0, blank);
    const std::string_view argument = trimmed(line.substr(blank));

    if (command == "fault") return add_fault(simulation, argument);
    if (command == "latency") return set_latency(simulation, argument).with_context("latency");
    if (command == "bandwidth") return set_bandwidth(simulation, Channel::kShared, argument).with_context(command);
    if (command == "read-bandwidth") return set_bandwidth(simulation, Channel::kRead, argument).with_context(command);
    if (command == "write-bandwidth") return set_bandwidth(simulation, Channel::kWrite, argument).with_context(command);
    if (command == "thread-bandwidth")
        return set_caller_bandwidth(simulation, Throttle::Caller::kThread, argument).with_context(command);
    if (command == "process-bandwidth")
        return set_caller_bandwidth(simulation, Throttle::Caller::kProcess, argument).with_context(command);
    if (argument.empty()) {
        if (command == "reset") {
            simulation.statistics.reset();
            return Status::ok();
        }
        if (command == "clear") simulation.faults.clear();
        if (command == "clear" || command == "release") {
            simulation.hangs.release();
            return Status::ok();
        }
    }
    return {Code::kInvalidArgument,
            "unknown line '" + std::string(line) +
                "'; known are fault RULE, clear, release, bandwidth B, read-bandwidth B, "
                "write-bandwidth B, thread-bandwidth B, process-bandwidth B, latency [OPS=]D, reset"};
}

Status execute_lines(Simulation& simulation, std::string_view lines) {
    for (std::size_t begin = 0; begin < lines.size();) {
        const std::size_t end = std::min(lines.find('\n', begin), lines.size());
        FOREBAY_TRY(execute(simulation, lines.substr(begin, end - begin)));
        begin = end + 1;
    }
    return Status::ok();
}

std::string report(const Simulation& simulation) {
    nlohmann::json json = simulation.statistics.to_json();
    json["hanging"] = simulation.hangs.waiting();
    auto faults = nlohmann::json::array();
    for (const FaultRules::Tally& tally : simulation.faults.tallies()) {
        faults.push_back({{"rule", tally.rule}, {"matched", tally.matched}, {"hit", tally.hit}});
    }
    json["faults"] = std::move(faults);
    json["bandwidth"] = simulation.throttle.bandwidth(Channel::kShared);
    json["read_bandwidth"] = simulation.throttle.bandwidth(Channel::kRead);
    json["write_bandwidth"] = simulation.throttle.bandwidth(Channel::kWrite);
    json["thread_bandwidth"] = simulation.throttle.caller_bandwidth(Throttle::Caller::kThread);
    json["process_bandwidth"] = simulation.throttle.caller_bandwidth(Throttle::Caller::kProcess);
    auto latencies = nlohmann::json::object();
    for (std::size_t i = 0; i < kOpCount; ++i) {
        const Op op = static_cast<Op>(i);
        if (const auto latency = simulation.throttle.latency_ns(op); latency > 0) {
            latencies[std::string(op_name(op))] = static_cast<double>(latency) / 1e9;
        }
    }
    json["latency_s"] = std::move(latencies);
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}   // namespace forebay::slowfs
