#include "node/launch.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <string_view>
#include <system_error>

#include "io/posix_file.h"

namespace forebay::node {

namespace {

// Where launchers say which rank a process is: MPICH and its relatives, Open MPI, PMIx, Slurm.
constexpr std::array<std::string_view, 4> kRankVariables{"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                                         "SLURM_PROCID"};
constexpr std::string_view kConnectorVariable = "HDF5_VOL_CONNECTOR";
constexpr std::string_view kConnector = "forebay";

constexpr std::size_t kChunkBytes = 16 * 1024;

// What the system makes up has no size before it is read. Empty: it cannot be read.
std::string read_all(io::Directory& folder, const std::string& name) {
    std::string text;
    const auto file = folder.open_file(name, io::OpenMode::kRead);
    for (bool more = static_cast<bool>(file); more;) {
        const std::size_t before = text.size();
        text.resize(before + kChunkBytes);
        const auto bytes = file.value()->read_at(before, std::as_writable_bytes(std::span(text).subspan(before)));
        text.resize(before + (bytes ? bytes.value() : 0));
        more = text.size() == before + kChunkBytes;
    }
    return text;
}

std::string read_of_process(io::Directory& proc, int pid, const std::string& name) {
    const auto folder = proc.open_directory(std::to_string(pid));
    return folder ? read_all(*folder.value(), name) : std::string();
}

std::optional<int> number(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
    return value;
}

struct Given {
    int pid = 0;
    std::array<std::optional<int>, kRankVariables.size()> ranks;   // by each variable
    bool connector = false;
};

std::optional<Given> given_to(io::Directory& proc, int pid) {
    const std::string environment = read_of_process(proc, pid, "environ");
    if (environment.empty()) return std::nullopt;
    Given given;
    given.pid = pid;
    for (std::string_view rest = environment; !rest.empty();) {
        const std::string_view one = rest.substr(0, rest.find('\0'));
        rest.remove_prefix(std::min(one.size() + 1, rest.size()));
        const std::size_t equals = one.find('=');
        if (equals == one.npos) continue;
        const std::string_view name = one.substr(0, equals), value = one.substr(equals + 1);
        for (std::size_t i = 0; i < kRankVariables.size(); ++i)
            if (name == kRankVariables[i]) given.ranks[i] = number(value);
        // HDF5 takes the first word for the connector's name.
        if (name == kConnectorVariable) {
            const std::size_t begin = std::min(value.find_first_not_of(" \t\n\r"), value.size());
            const std::string_view word = value.substr(begin);
            given.connector = word.substr(0, word.find_first_of(" \t\n\r")) == kConnector;
        }
    }
    return given;
}

// The command name, in parentheses, may hold anything; fields are counted from behind it.
std::optional<int> parent_of(io::Directory& proc, int pid) {
    const std::string text = read_of_process(proc, pid, "stat");
    const std::size_t name_end = text.rfind(')');
    if (name_end == text.npos) return std::nullopt;
    std::istringstream fields(text.substr(name_end + 1));
    std::string state;
    int parent = 0;
    if (!(fields >> state >> parent) || parent <= 0) return std::nullopt;
    return parent;
}

// Each thread of a process has children of its own.
std::vector<Given> children_of(io::Directory& proc, int parent) {
    std::vector<Given> children;
    const auto process = proc.open_directory(std::to_string(parent));
    const auto threads = process ? process.value()->open_directory("task") : process.status();
    const auto names = threads ? threads.value()->list() : threads.status();
    if (!names) return children;
    for (const std::string& name : names.value()) {
        const auto thread = threads.value()->open_directory(name);
        if (!thread) continue;
        std::istringstream pids(read_all(*thread.value(), "children"));
        for (int pid = 0; pids >> pid;)
            if (auto given = given_to(proc, pid)) children.push_back(std::move(*given));
    }
    return children;
}

}   // namespace

Launch::Launch(int pid, std::string proc) : pid_(pid), proc_(std::move(proc)) {}

std::optional<Unequal> Launch::compare(std::span<const int> ranks, int own) {
    if (ranks.size() < 2) return std::nullopt;
    std::vector<int> asked(ranks.begin(), ranks.end());
    std::sort(asked.begin(), asked.end());
    const auto known = known_.find(asked);
    if (known != known_.end()) return known->second;
    return known_[asked] = look(asked, own);
}

std::optional<Unequal> Launch::look(std::span<const int> ranks, int own) const {
    const auto proc = io::open_posix_directory(proc_);
    const auto parent = proc ? parent_of(*proc.value(), pid_) : std::nullopt;
    if (!parent) return std::nullopt;
    const std::vector<Given> children = children_of(*proc.value(), *parent);
    for (std::size_t variable = 0; variable < kRankVariables.size(); ++variable) {
        std::map<int, const Given*> found;
        bool ambiguous = false;
        for (const Given& child : children) {
            const auto rank = child.ranks[variable];
            if (!rank || !std::binary_search(ranks.begin(), ranks.end(), *rank)) continue;
            // One launcher that has started several jobs, or a variable that all have inherited from somewhere else.
            ambiguous = !found.emplace(*rank, &child).second || ambiguous;
        }
        const auto self = found.find(own);
        if (ambiguous || self == found.end() || self->second->pid != pid_) continue;
        Unequal answer{-1, -1, found.size() == ranks.size()};
        for (const auto& [rank, child] : found)
            if (int& lowest = child->connector ? answer.with : answer.without; lowest < 0) lowest = rank;
        if (answer.with < 0 || answer.without < 0) return std::nullopt;
        return answer;
    }
    return std::nullopt;
}

}   // namespace forebay::node
