#include "cli/trace_reader.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace forebay::cli {

namespace {

constexpr double kTraceSecond = 1e9;

std::optional<TraceEvent> event_of(const std::string& line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) return std::nullopt;
    const auto number = [&json](const char* key) -> std::uint64_t {
        const auto found = json.find(key);
        return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
    };
    TraceEvent event{TraceEvent::Kind::kWrite, number("pid"),   number("begin_ns"),
                     number("end_ns"),         number("bytes"), number("offset")};
    const auto kind = json.find("kind");
    if (kind == json.end() || event.end_ns < event.begin_ns) return std::nullopt;
    if (*kind == "read") event.kind = TraceEvent::Kind::kRead;
    else if (*kind == "wait") event.kind = TraceEvent::Kind::kWait;
    else if (*kind != "write") return std::nullopt;
    return event;
}

// Spreads `amount` evenly from begin to end over the intervals of `row`.
void spread(std::vector<double>& row, double interval_ns, double begin, double end, double amount) {
    const double count = static_cast<double>(row.size());
    if (end <= begin) end = begin + 1;
    const double from = std::clamp(begin / interval_ns, 0.0, count), to = std::clamp(end / interval_ns, 0.0, count);
    for (auto i = static_cast<std::size_t>(from); i < row.size() && static_cast<double>(i) < to; ++i) {
        const double low = std::max(from, static_cast<double>(i)), high = std::min(to, static_cast<double>(i) + 1);
        row[i] += amount * (high - low) * interval_ns / (end - begin);
    }
}

}   // namespace

Result<std::vector<TraceEvent>> read_trace(const std::string& path, std::uint64_t since_ns) {
    std::vector<TraceEvent> events;
    errno = 0;
    std::ifstream file(path);
    if (!file) {
        if (errno == ENOENT) return events;
        return Status::from_errno(errno, "read " + path);
    }
    for (std::string line; std::getline(file, line);)
        if (const auto event = event_of(line); event && event->end_ns > since_ns) events.push_back(*event);
    return events;
}

Timeline timeline_of(const std::vector<TraceEvent>& events, std::uint64_t begin_ns, std::uint64_t end_ns,
                     std::size_t intervals) {
    const double interval_ns = static_cast<double>(std::max(end_ns, begin_ns + 1) - begin_ns) /
                               static_cast<double>(intervals);
    const std::vector<double> none(intervals);
    Timeline result{interval_ns / kTraceSecond, none, none, none};
    std::set<std::uint64_t> processes;
    for (const TraceEvent& event : events) processes.insert(event.pid);
    for (const TraceEvent& event : events) {
        const double begin = static_cast<double>(event.begin_ns) - static_cast<double>(begin_ns);
        const double end = static_cast<double>(event.end_ns) - static_cast<double>(begin_ns);
        switch (event.kind) {
            case TraceEvent::Kind::kWrite:
                spread(result.written_bytes, interval_ns, begin, end, static_cast<double>(event.bytes));
                break;
            case TraceEvent::Kind::kRead:
                spread(result.read_bytes, interval_ns, begin, end, static_cast<double>(event.bytes));
                break;
            case TraceEvent::Kind::kWait:
                spread(result.waiting, interval_ns, begin, end,
                       (end - begin) / interval_ns / static_cast<double>(processes.size()));
                break;
        }
    }
    for (double& share : result.waiting) share = std::min(share, 1.0);   // a process may have several threads
    return result;
}

double bytes_per_second(const std::vector<TraceEvent>& events, TraceEvent::Kind kind) {
    std::vector<TraceEvent> chosen;
    std::ranges::copy_if(events, std::back_inserter(chosen),
                         [kind](const TraceEvent& one) { return one.kind == kind; });
    std::ranges::sort(chosen, {}, &TraceEvent::begin_ns);
    std::uint64_t bytes = 0, busy_ns = 0, until_ns = 0;
    for (const TraceEvent& event : chosen) {
        bytes += event.bytes;
        const std::uint64_t from = std::max(event.begin_ns, until_ns);
        if (event.end_ns > from) busy_ns += event.end_ns - from;
        until_ns = std::max(until_ns, event.end_ns);
    }
    return busy_ns == 0 ? 0 : static_cast<double>(bytes) * kTraceSecond / static_cast<double>(busy_ns);
}

Alignment alignment_of(const std::vector<TraceEvent>& events, std::uint64_t stripe_bytes) {
    Alignment result;
    for (const TraceEvent& event : events) {
        if (event.kind != TraceEvent::Kind::kWrite || event.bytes < stripe_bytes / 4) continue;
        ++result.writes;
        if (event.offset % stripe_bytes != 0 || (event.offset + event.bytes) % stripe_bytes != 0) ++result.unaligned;
    }
    return result;
}

}   // namespace forebay::cli
