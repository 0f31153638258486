#include "cli/status_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cli/file_view.h"

namespace forebay::cli {

namespace {

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '\\' || c == '"') result += '\\';
        if (c == '\n') result += "\\n";
        else result += c;
    }
    return result + "\"";
}

class Metrics {
  public:
    void begin(std::string_view name, std::string_view help) {
        name_ = name;
        fmt::format_to(std::back_inserter(text_), "# HELP forebay_{} {}\n# TYPE forebay_{} gauge\n", name, help, name);
    }
    void sample(std::string_view label, std::string_view value, double number) {
        fmt::format_to(std::back_inserter(text_), "forebay_{}{{{}={}}} {}\n", name_, label, quoted(value), number);
    }
    void one(std::string_view name, std::string_view help, double number) {
        begin(name, help);
        fmt::format_to(std::back_inserter(text_), "forebay_{} {}\n", name, number);
    }
    std::string text() && { return std::move(text_); }

  private:
    std::string name_, text_;
};

}   // namespace

std::string status_as_metrics(const Sample& now) {
    const std::vector<FileView> files = files_of(now.scan);
    double pending = 0, held = 0, left_behind = 0, oldest_s = 0;
    std::array<double, 4> by_state{};
    for (const FileView& file : files) {
        ++by_state[static_cast<std::size_t>(file.state)];
        (file.state == FileState::kLeftBehind ? left_behind : pending) += static_cast<double>(file.pending);
        held += static_cast<double>(file.sum.held);
        if (file.sum.oldest_ns != 0 && file.sum.oldest_ns < now.time_ns && file.pending > 0)
            oldest_s = std::max(oldest_s, static_cast<double>(now.time_ns - file.sum.oldest_ns) / 1e9);
    }
    double log = 0, capacity = 0, alive = 0, dead = 0;
    for (const ledger::ProcessView& process : now.scan.processes) {
        log += static_cast<double>(process.segments_allocated * process.segment);
        if (process.alive) capacity += static_cast<double>(process.size);
        ++(process.alive ? alive : dead);
    }

    Metrics metrics;
    metrics.begin("files", "Files that are staged on this node, by state.");
    for (std::size_t i = 0; i < by_state.size(); ++i)
        metrics.sample("state", state_name(static_cast<FileState>(i)), by_state[i]);
    metrics.begin("processes", "Processes that stage files, or died and left staged bytes.");
    metrics.sample("state", "alive", alive);
    metrics.sample("state", "dead", dead);
    metrics.one("pending_bytes", "Staged bytes of living processes that are not in their file yet.", pending);
    metrics.one("held_bytes", "Pending bytes that wait for the next commit.", held);
    metrics.one("oldest_pending_seconds", "Age of the oldest byte that is not in its file yet.", oldest_s);
    metrics.one("left_behind_bytes", "Staged bytes of dead processes, for forebay recover.", left_behind);
    metrics.one("log_bytes", "Space that logs take on the staging areas.", log);
    metrics.one("log_capacity_bytes", "Space that the logs of living processes may take.", capacity);
    metrics.one("unseen", "Staging areas and processes that could not be read.",
                static_cast<double>(now.unseen.size() + now.scan.skipped.size()));
    if (now.caches.empty()) return std::move(metrics).text();
    metrics.begin("read_cache_stored_bytes", "Bytes in the read cache of a staging area.");
    for (const CacheView& cache : now.caches)
        metrics.sample("area", cache.path, static_cast<double>(cache.account.stored_bytes));
    metrics.begin("read_cache_capacity_bytes", "Bytes that the read cache may hold.");
    for (const CacheView& cache : now.caches)
        metrics.sample("area", cache.path, static_cast<double>(cache.account.capacity_bytes));
    metrics.begin("read_cache_files", "Files in the read cache.");
    for (const CacheView& cache : now.caches)
        metrics.sample("area", cache.path, static_cast<double>(cache.replicas.size()));
    return std::move(metrics).text();
}

}   // namespace forebay::cli
