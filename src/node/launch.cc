#include "node/launch.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

namespace forebay::node {

namespace {

// Where launchers say which rank a process is: MPICH and its relatives, Open MPI, PMIx, Slurm.
constexpr std::array<std::string_view, 4> kRankVariables{"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"};
constexpr std::string_view kConnectorVariable = "HDF5_VOL_CONNECTOR";
constexpr std::string_view kConnector = "forebay";

std::string read_all(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
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

std::optional<Given> given_to(const std::string& proc, int pid) {
    const std::string environment = read_all(proc + "/" + std::to_string(pid) + "/environ");
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
std::optional<int> parent_of(const std::string& proc, int pid) {
    const std::string text = read_all(proc + "/" + std::to_string(pid) + "/stat");
    const std::size_t name_end = text.rfind(')');
    if (name_end == text.npos) return std::nullopt;
    std::istringstream fields(text.substr(name_end + 1));
    std::string state;
    int parent = 0;
    if (!(fields >> state >> parent) || parent <= 0) return std::nullopt;
    return parent;
}

// Each thread of a process has children of its own.
std::vector<Given> children_of(const std::string& proc, int parent) {
    std::vector<Given> children;
    std::error_code error;
    const std::filesystem::path threads = proc + "/" + std::to_string(parent) + "/task";
    for (std::filesystem::directory_iterator at(threads, error), end; !error && at != end; at.increment(error)) {
        std::istringstream pids(read_all(at->path().string() + "/children"));
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
    const auto parent = parent_of(proc_, pid_);
    if (!parent) return std::nullopt;
    const std::vector<Given> children = children_of(proc_, *parent);
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
