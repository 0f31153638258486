// `forebay cache prefetch`: reads files through the cache before a program needs them.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "area/process.h"
#include "area/registry.h"
#include "area/staging_area.h"
#include "base/clock.h"
#include "base/options.h"
#include "cache/attached_replica.h"
#include "cache/read_cache.h"
#include "cli/cache_commands.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/progress_bar.h"
#include "cli/shown.h"
#include "io/open_existing.h"
#include "io/posix_file.h"
#include "wire/cache_servers.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kPrefetchPiece = std::size_t{1} << 20;
// A read stores no block of a unit while another fetch of the unit is in flight, even of other blocks. The command then
// reads the file again, as long as that stores more. It gives up after this number of passes without progress.
constexpr int kIdlePassesMax = 3;

struct PrefetchRequest {
    std::vector<std::string> names;
    std::string from;   // a file with a name in each line; "-" is standard input; empty: none
    std::string nls;
    bool json = false;
};

struct Prefetched {
    std::string path;
    std::uint64_t size = 0, read_bytes = 0, cached_bytes = 0;
    double seconds = 0;
    std::string problem;   // why the file is not cached completely; empty if it is

    [[nodiscard]] std::uint64_t bytes_per_second() const {
        return seconds <= 0 ? 0 : static_cast<std::uint64_t>(static_cast<double>(read_bytes) / seconds);
    }
};

std::string reason_of(cache::Aside why, io::File& source) {
    switch (why) {
        case cache::Aside::kYoung: {
            const auto state = source.state(io::File::Ask::kTimes);
            const std::uint64_t now_ns = realtime_ns();
            const std::uint64_t changed_ns = state ? std::max(state.value().modified_ns, state.value().changed_ns) : 0;
            return fmt::format(
                "it is too young: its last change was {} s ago; after 3 s it can be stored (after 61 s on file "
                "systems such as NFS)",
                (now_ns - std::min(now_ns, changed_ns)) / 1'000'000'000);
        }
        case cache::Aside::kFast: return "it is on a local file system, and the cache would not be faster";
        case cache::Aside::kChanged: return "a process writes it, or has written it during the prefetch";
        case cache::Aside::kFull:
            return "there is no more room: option read_cache_size, or the free space of the device without that "
                   "of option size";
        case cache::Aside::kFault: return "the staging area or the file cannot be read or written";
        case cache::Aside::kUnsure:
            return "its file system may later show another file with the same inode number and times, so forebay "
                   "caches a file there only while a program has it open";
        case cache::Aside::kSlow: return "the staging area answers slower than the file system";
        case cache::Aside::kForked:
        case cache::Aside::kOnce:
        case cache::Aside::kNone: break;
    }
    return "not all of it was stored";
}

class Prefetching {
  public:
    Prefetching(LoadedOptions loaded, bool terminal) : loaded_(std::move(loaded)), terminal_(terminal) {
        loaded_.options.read_cache = ReadCacheMode::kOn;
        // Replicas that are fetched for others must outlive this process.
        loaded_.options.read_cache_lifetime = CacheLifetime::kPermanent;
        const std::string& servers = loaded_.options.read_cache_servers;
        if (servers.empty() || loaded_.options.reads_from_job()) return;   // this process belongs to no job
        auto asked = wire::CacheServers::create(servers, loaded_.options.server_key);
        if (asked) cache_.find_peers_by(wire::find_peers(std::move(asked).value()));
        else servers_problem_ = asked.status();
    }
    [[nodiscard]] const Status& servers_problem() const noexcept { return servers_problem_; }

    Prefetched operator()(const std::string& path, std::size_t number, std::size_t count) {
        Prefetched result;
        result.path = path;
        const int descriptor = io::open_patiently(path, O_RDONLY);
        if (descriptor < 0) {
            result.problem = Status::from_errno(errno, "open").message();
            return result;
        }
        const std::shared_ptr<io::File> source = io::adopt_posix_file(descriptor, path);
        const auto state = source->state(io::File::Ask::kTimes);
        if (!state || !S_ISREG(state.value().mode) || state.value().size == 0) {
            result.problem = state ? "it is empty, or not a regular file" : state.status().message();
            return result;
        }
        result.size = state.value().size;
        if (const io::FileTraits traits = source->traits(); !traits.local && !traits.sure_versions) {
            result.problem = reason_of(cache::Aside::kUnsure, *source);
            return result;
        }
        const auto before = cache_.totals().asides;
        std::string warning;
        const auto file = cache_.open(source, warning, false);
        if (file == nullptr) {
            const auto after = cache_.totals().asides;
            std::size_t why = 0;
            for (std::size_t i = 0; i < after.size(); ++i)
                if (after[i] > before[i]) why = i;
            result.problem = warning.empty() ? reason_of(static_cast<cache::Aside>(why), *source) : warning;
            return result;
        }
        if (!warning.empty()) fmt::print(stderr, "forebay cache prefetch: {}\n", printable(warning));
        cache::Aside why = cache::Aside::kNone;
        for (int idle = 0; idle < kIdlePassesMax;) {
            why = read(*file, result, number, count);
            const std::uint64_t cached_before = std::exchange(result.cached_bytes, cached_bytes(*source, result.size));
            idle = result.cached_bytes > cached_before ? 0 : idle + 1;
            if (why != cache::Aside::kNone || !result.problem.empty() || result.cached_bytes == result.size) break;
        }
        file->close();
        cache_.note_closed(*file);
        if (result.problem.empty() && result.cached_bytes < result.size) result.problem = reason_of(why, *source);
        return result;
    }

  private:
    // Reads the file, which has a replica, in order and not faster than the cache stores it.
    cache::Aside read(cache::CachedFile& file, Prefetched& result, std::size_t number, std::size_t count) {
        std::vector<std::byte> piece(kPrefetchPiece);
        const auto begin = std::chrono::steady_clock::now();
        const double before = result.seconds;
        cache::Aside why = cache::Aside::kNone;
        result.read_bytes = 0;
        const auto goes_on = [&] {
            return why == cache::Aside::kNone ||
                   (why == cache::Aside::kFault && !file.attached()->replica()->unusable());
        };
        while (result.read_bytes < result.size && goes_on()) {
            const auto got = file.read_at(result.read_bytes, piece);
            if (!got) result.problem = got.status().message();
            if (!got || got.value() == 0) break;
            result.read_bytes += got.value();
            file.await_stored();
            why = file.counters().aside.load();
            result.seconds = before + std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
            if (terminal_)
                draw_progress({number, count, result.read_bytes, result.size},
                              fmt::format(", {}/s", format_size(result.bytes_per_second())));
        }
        return why;
    }

    std::uint64_t cached_bytes(io::File& source, std::uint64_t size) const {
        const auto identity = source.identity();
        const auto self = area::identify_this_process();
        const auto area = area::open_staging_area(loaded_);
        if (!identity || !self || !area) return 0;
        const auto folder = area.value().directory->open_directory("cache");
        if (!folder) return 0;
        for (const cache::ReplicaView& view : cache::list_replicas(*folder.value()))
            if (view.name == cache::replica_name(identity.value()) && view.state == cache::ReplicaView::State::kValid)
                return std::min(view.stored_bytes, size);
        return 0;
    }

    Result<std::unique_ptr<io::Directory>> open_area() const {
        auto area = area::open_staging_area(loaded_);
        if (!area) return area.status();
        (void)area::note_area(loaded_.options, loaded_.options.nls);
        return std::move(area.value().directory);
    }

    LoadedOptions loaded_;
    const bool terminal_;
    Status servers_problem_;
    cache::ReadCache cache_{loaded_.options, [this] { return open_area(); }, {.judge_speed = false}};
};

void print_prefetched(const std::vector<Prefetched>& all) {
    for (const Prefetched& one : all) {
        fmt::print("{}\n", printable(one.path));
        if (one.read_bytes > 0)
            fmt::print("  read {} in {:.2f} s, {}/s; {} of {} is cached\n", format_size(one.read_bytes), one.seconds,
                       format_size(one.bytes_per_second()), format_size(one.cached_bytes), format_size(one.size));
        if (!one.problem.empty())
            fmt::print("  NOT CACHED{}: {}\n", one.cached_bytes > 0 ? " WHOLLY" : "", one.problem);
    }
}

ordered_json prefetched_as_json(const std::string& nls, const std::vector<Prefetched>& all) {
    ordered_json result{{"nls", nls}, {"files", ordered_json::array()}};
    for (const Prefetched& one : all)
        result["files"].push_back({{"path", one.path},
                                   {"size", one.size},
                                   {"read_bytes", one.read_bytes},
                                   {"cached_bytes", one.cached_bytes},
                                   {"seconds", one.seconds},
                                   {"bytes_per_second", one.bytes_per_second()},
                                   {"problem", one.problem}});
    return result;
}

// A file to fetch, with a problem if it cannot be fetched. The other files are fetched anyway.
Prefetched named(const std::string& name) {
    Prefetched file;
    std::error_code failed;
    const std::filesystem::path path = std::filesystem::canonical(name, failed);
    file.path = failed ? name : path.string();
    if (failed == std::errc::no_such_file_or_directory) file.problem = "no such file or directory";
    else if (failed) file.problem = failed.message();
    return file;
}

// Returns a file, or the regular files in a directory and below, sorted by name. Does not follow links.
std::vector<Prefetched> named_files(const std::string& name) {
    std::vector<Prefetched> files{named(name)};
    std::error_code failed;
    if (!files.front().problem.empty() || !std::filesystem::is_directory(files.front().path, failed)) return files;
    std::vector<std::string> paths;
    std::filesystem::recursive_directory_iterator entry(files.front().path, failed), end;
    for (; !failed && entry != end; entry.increment(failed))
        if (std::error_code gone; entry->symlink_status(gone).type() == std::filesystem::file_type::regular)
            paths.push_back(entry->path().string());
    if (failed) files.front().problem = "list the directory: " + failed.message();
    else if (paths.empty()) files.front().problem = "there is no file in the directory";
    else files.clear();
    std::ranges::sort(paths);
    for (std::string& path : paths) files.emplace_back().path = std::move(path);
    return files;
}

bool read_names(const std::string& from, std::vector<std::string>& names) {
    std::ifstream file;
    if (from != "-") file.open(from);
    std::istream& lines = from == "-" ? std::cin : file;
    for (std::string line; std::getline(lines, line);)
        if (!line.empty()) names.push_back(line);
    return from == "-" || file.eof();
}

int prefetch(const PrefetchRequest& request) {
    auto loaded = options_here();
    if (!loaded) return complain_of_cache("prefetch", loaded.status());
    if (!request.nls.empty()) loaded.value().options.nls = std::filesystem::absolute(request.nls).string();
    area::fit_to_staging_area(loaded.value());
    std::vector<std::string> names = request.names;
    if (!request.from.empty() && !read_names(request.from, names))
        return complain_of_cache("prefetch",
                                 {Code::kInvalidArgument, "--from " + request.from + ": it cannot be read"});
    if (names.empty())
        return complain_of_cache("prefetch", {Code::kInvalidArgument, "name files or directories, or use --from"});
    std::vector<Prefetched> all;
    std::size_t files = 0;
    for (const std::string& name : names)
        for (Prefetched& one : named_files(name)) {
            if (one.problem.empty()) ++files;
            else fmt::print(stderr, "forebay cache prefetch: {}: {}\n", printable(name), one.problem);
            all.push_back(std::move(one));
        }
    if (files == 0) return kExitUsage;
    const std::string nls = loaded.value().options.nls;
    const bool terminal = !request.json && progress_is_shown();
    {
        Prefetching prefetching(std::move(loaded).value(), terminal);
        if (const Status& unusable = prefetching.servers_problem(); !unusable)
            return complain_of_cache("prefetch", unusable.with_context("option read_cache_servers"));
        std::size_t number = 0;
        for (Prefetched& one : all)
            if (one.problem.empty()) one = prefetching(one.path, number++, files);
    }
    if (terminal) erase_progress();
    if (request.json)
        fmt::print("{}\n", prefetched_as_json(nls, all).dump(2, ' ', false, ordered_json::error_handler_t::replace));
    else print_prefetched(all);
    return std::ranges::all_of(all, [](const Prefetched& one) { return one.problem.empty(); }) ? kExitFine
                                                                                               : kExitProblem;
}

}   // namespace

void add_cache_prefetch(CLI::App& cache, int& exit_status) {
    CLI::App* command = cache.add_subcommand("prefetch", "Read files into the cache before a program needs them");
    auto request = std::make_shared<PrefetchRequest>();
    command->add_option("FILE", request->names, "The files; a directory stands for all files in it and below");
    command->add_option("--from", request->from, "A file with more names, one per line; -: standard input")
        ->type_name("LIST");
    command->add_option("--nls", request->nls, "The staging area; default: that of option nls")->type_name("DIR");
    command->add_flag("--json", request->json, "Print JSON");
    command->footer("Prefetched files stay in the cache, also with read_cache_lifetime=temporal.\n\n" +
                    exit_statuses({{"0", "the files are cached completely"},
                                   {"1", "some of them are not, or do not exist; the report says which and why"},
                                   {"2", "the command line or an option is wrong, or none of the files exists"}}));
    command->callback([request, &exit_status] { exit_status = prefetch(*request); });
}

}   // namespace forebay::cli
