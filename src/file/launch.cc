#include "file/launch.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <string_view>
#include <system_error>

#include "io/posix_file.h"

namespace forebay::file {

namespace {

// Variables that hold a process's rank: of MPICH and its relatives, Open MPI, PMIx, Slurm.
constexpr std::array<std::string_view, 4> kRankVariables{"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                                         "SLURM_PROCID"};
constexpr std::string_view kConnectorVariable = "HDF5_VOL_CONNECTOR";
constexpr std::string_view kConnector = "forebay";

constexpr std::size_t kChunkBytes = 16 * 1024;

// A file of /proc has no size before it is read. Returns an empty text if the file cannot be read.
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
    std::array<std::optional<int>, kRankVariables.size()> ranks;
    bool connector = false;
};

// Calls `take(name, value)` for each variable that the process was given. Returns false if they cannot be read.
bool for_each_variable(io::Directory& proc, int pid, auto&& take) {
    const std::string environment = read_of_process(proc, pid, "environ");
    for (std::string_view rest = environment; !rest.empty();) {
        const std::string_view one = rest.substr(0, rest.find('\0'));
        rest.remove_prefix(std::min(one.size() + 1, rest.size()));
        const std::size_t equals = one.find('=');
        if (equals != one.npos) take(one.substr(0, equals), one.substr(equals + 1));
    }
    return !environment.empty();
}

std::optional<Given> given_to(io::Directory& proc, int pid) {
    Given given;
    given.pid = pid;
    const bool known = for_each_variable(proc, pid, [&](std::string_view name, std::string_view value) {
        for (std::size_t i = 0; i < kRankVariables.size(); ++i)
            if (name == kRankVariables[i]) given.ranks[i] = number(value);
        // HDF5 takes the first word for the connector's name.
        if (name == kConnectorVariable) {
            const std::size_t begin = std::min(value.find_first_not_of(" \t\n\r"), value.size());
            const std::string_view word = value.substr(begin);
            given.connector = word.substr(0, word.find_first_of(" \t\n\r")) == kConnector;
        }
    });
    return known ? std::optional(std::move(given)) : std::nullopt;
}

// The fields of the process's stat line behind the command name. The name stands in parentheses and may hold any byte.
std::vector<std::string> fields_of(io::Directory& proc, int pid) {
    const std::string text = read_of_process(proc, pid, "stat");
    const std::size_t name_end = text.rfind(')');
    std::vector<std::string> fields;
    if (name_end == text.npos) return fields;
    std::istringstream words(text.substr(name_end + 1));
    for (std::string word; words >> word;) fields.push_back(std::move(word));
    return fields;
}

std::optional<int> parent_of(io::Directory& proc, int pid) {
    const std::vector<std::string> fields = fields_of(proc, pid);
    const auto parent = fields.size() > 1 ? number(fields[1]) : std::nullopt;
    return parent && *parent > 0 ? parent : std::nullopt;
}

std::optional<std::uint64_t> start_of(io::Directory& proc, int pid) {
    constexpr std::size_t kStart = 19;   // the 22nd of proc(5)
    const std::vector<std::string> fields = fields_of(proc, pid);
    std::uint64_t ticks = 0;
    if (fields.size() <= kStart) return std::nullopt;
    const char* const end = fields[kStart].data() + fields[kStart].size();
    const auto [behind, error] = std::from_chars(fields[kStart].data(), end, ticks);
    return error == std::errc{} && behind == end ? std::optional(ticks) : std::nullopt;
}

// Variables in which a launcher tells a process its rank, the number of ranks, and its rank on its node.
struct RankVariables {
    std::string_view rank, size, on_node;
};
constexpr std::array kToldByLauncher{
    RankVariables{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    RankVariables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    RankVariables{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}};

struct ToldRank {
    std::optional<int> rank, size, on_node;
};

ToldRank told_rank(io::Directory& proc, int pid, const RankVariables& names) {
    ToldRank told;
    (void)for_each_variable(proc, pid, [&](std::string_view name, std::string_view value) {
        if (name == names.rank) told.rank = number(value);
        if (name == names.size) told.size = number(value);
        if (name == names.on_node) told.on_node = number(value);
    });
    return told;
}

// Each thread of a process lists children of its own.
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

// The launcher is the nearest ancestor that has no rank of its own.
std::optional<LaunchedRank> launched_rank(int pid, const std::string& proc) {
    constexpr int kAncestorsMax = 64;
    const auto folder = io::open_posix_directory(proc);
    const auto self = area::identify_this_process();
    if (!folder || !self) return std::nullopt;
    for (const RankVariables& names : kToldByLauncher) {
        const ToldRank told = told_rank(*folder.value(), pid, names);
        if (!told.rank || !told.size || *told.size < 2) continue;
        auto launcher = parent_of(*folder.value(), pid);
        for (int i = 0; i < kAncestorsMax && launcher && told_rank(*folder.value(), *launcher, names).rank; ++i)
            launcher = parent_of(*folder.value(), *launcher);
        const auto start = launcher && *launcher > 1 ? start_of(*folder.value(), *launcher) : std::nullopt;
        if (!start) continue;   // process 1 of a machine launches one job after the other
        return LaunchedRank{{static_cast<std::uint64_t>(*launcher), *start, self.value().boot_id},
                            !told.on_node || *told.on_node == *told.rank};
    }
    return std::nullopt;
}

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
            // One launcher has started several jobs, or all children have inherited the variable from elsewhere.
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

}   // namespace forebay::file
