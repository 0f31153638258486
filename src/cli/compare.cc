#include "cli/compare.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "base/options.h"
#include "cli/child_process.h"
#include "cli/exit_status.h"
#include "cli/folder_comparison.h"
#include "cli/shown.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kToldMax = 20;   // differences in the text output; JSON has all

struct Difference {
    FolderDifference found;
    bool same_content = false;       // according to h5diff
    bool differs_natively = false;   // two native runs differ there, too
};

struct Comparison {
    std::vector<double> native_s, forebay_s;
    std::optional<RunSummary> last;   // of the runs with forebay
    ChildEnd native_end;
    bool ends_differ = false;
    std::uint64_t files = 0, bytes = 0;
    std::vector<Difference> differences;
    std::vector<std::string> written_outside;   // files of the original folder that the program changed
    std::vector<std::string> kept;              // copies

    [[nodiscard]] bool equal() const {
        return !ends_differ && written_outside.empty() && not_drained(*last).empty() &&
               std::ranges::all_of(differences,
                                   [](const Difference& one) { return one.same_content || one.differs_natively; });
    }
};

// `run_child` leaves signals blocked. Restores the mask, so that the next child, and this process, can be interrupted.
Result<ChildEnd> run_interruptible(const std::vector<std::string>& arguments,
                                   const std::vector<std::string>& environment) {
    sigset_t before;
    if (::sigprocmask(SIG_SETMASK, nullptr, &before) != 0) return Status::from_errno(errno, "read the signal mask");
    Result<ChildEnd> end = run_child(arguments, environment);
    if (::sigprocmask(SIG_SETMASK, &before, nullptr) != 0) return Status::from_errno(errno, "set the signal mask");
    return end;
}

bool ended_well(const Result<ChildEnd>& end) { return end && end.value().signal == 0 && end.value().exit_status == 0; }

// A copy of a folder in which the program runs. The destructor removes it, unless it is kept.
class Copy {
  public:
    // kUnavailable: `cp` has printed the reason. Other errors: the copy cannot be made there.
    [[nodiscard]] static Result<Copy> make(const fs::path& folder, const fs::path& beside, std::string_view kind) {
        std::string name = fmt::format("{}/{}.{}-XXXXXX", beside.string(), folder.filename().string(), kind);
        if (::mkdtemp(name.data()) == nullptr)
            return Status::from_errno(errno, fmt::format("make a copy of {} in {} (--copies names another folder)",
                                                         folder.string(), beside.string()));
        Copy copy(name);
        const auto end = run_interruptible({"cp", "-a", "--reflink=auto", "--", folder.string() + "/.", name},
                                           environment_with({}));
        if (!end) return end.status();
        if (!ended_well(end)) return Status(Code::kUnavailable, fmt::format("copy {}", folder.string()));
        copy.settle();
        return copy;
    }
    ~Copy() {
        std::error_code ignored;
        if (!path_.empty()) fs::remove_all(path_, ignored);
    }
    Copy(Copy&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    Copy& operator=(Copy&&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }
    std::string keep() { return std::exchange(path_, {}); }

  private:
    explicit Copy(std::string path) : path_(std::move(path)) {}

    // Syncs the data that the copy and the previous run left in memory. Otherwise that would slow down the next run.
    void settle() const {
        const int descriptor = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (descriptor < 0) return;
        (void)::syncfs(descriptor);
        ::close(descriptor);
    }

    std::string path_;
};

class WorkingFolder {
  public:
    explicit WorkingFolder(const std::string& folder)
        : before_(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)),
          there_(before_ >= 0 && ::chdir(folder.c_str()) == 0) {}
    ~WorkingFolder() {
        if (before_ < 0) return;
        if (::fchdir(before_) != 0) complain_of_run("the working directory does not exist any more");
        ::close(before_);
    }
    WorkingFolder(const WorkingFolder&) = delete;
    WorkingFolder& operator=(const WorkingFolder&) = delete;
    [[nodiscard]] bool there() const { return there_; }

  private:
    const int before_;
    const bool there_;
};

class Comparing {
  public:
    Comparing(const PreparedRun& prepared, const std::vector<std::string>& program, const CompareRequest& request,
              fs::path folder, fs::path beside)
        : prepared_(prepared),
          program_(program),
          request_(request),
          folder_(std::move(folder)),
          beside_(std::move(beside)),
          native_environment_(native_environment(prepared.plugin_folder)) {}

    [[nodiscard]] Result<Comparison> run() {
        Comparison result;
        const FolderTimes before = times_of(folder_);
        for (unsigned turn = 0; turn < request_.runs; ++turn) {
            auto native = Copy::make(folder_, beside_, "native");
            if (!native) return native.status();
            const auto native_end = run_native(native.value(), result.native_s);
            if (!native_end) return native_end.status();
            auto staged = Copy::make(folder_, beside_, "forebay");
            if (!staged) return staged.status();
            const Status ran = run_with_forebay(staged.value(), result);
            if (!ran) return ran;
            result.native_end = native_end.value();
            const ChildEnd& end = result.last->end;
            if (end.signal != result.native_end.signal || end.exit_status != result.native_end.exit_status)
                result.ends_differ = true;
            FOREBAY_TRY(compare(native.value(), staged.value(), result));
            if (request_.keep || !result.equal()) {
                result.kept.push_back(native.value().keep());
                result.kept.push_back(staged.value().keep());
            }
            // The next runs would end in the same way, and a user who interrupts the program wants no more runs.
            if (!result.equal() || result.native_end.signal != 0) break;
        }
        result.written_outside = changed_between(before, times_of(folder_));
        return result;
    }

  private:
    Result<ChildEnd> run_native(const Copy& copy, std::vector<double>& seconds) {
        const WorkingFolder working(copy.path());
        if (!working.there()) return Status::from_errno(errno, "enter " + copy.path());
        const auto begin = std::chrono::steady_clock::now();
        auto end = run_interruptible(program_, in_folder(native_environment_, copy.path()));
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        return end;
    }

    Status run_with_forebay(const Copy& copy, Comparison& result) {
        const WorkingFolder working(copy.path());
        if (!working.there()) return Status::from_errno(errno, "enter " + copy.path());
        PreparedRun there = prepared_;
        there.variables["PWD"] = copy.path();
        sigset_t before;
        if (::sigprocmask(SIG_SETMASK, nullptr, &before) != 0) return Status::from_errno(errno, "read the signal mask");
        Result<RunSummary> summary = run_staged(there, program_);
        if (::sigprocmask(SIG_SETMASK, &before, nullptr) != 0) return Status::from_errno(errno, "set the signal mask");
        if (!summary) return summary.status();
        result.forebay_s.push_back(summary.value().elapsed_s);
        result.last = std::move(summary).value();
        return Status::ok();
    }

    static std::vector<std::string> in_folder(std::vector<std::string> environment, const std::string& folder) {
        std::erase_if(environment, [](const std::string& entry) { return entry.starts_with("PWD="); });
        environment.push_back("PWD=" + folder);
        return environment;
    }

    // A program may write different bytes in each run. A second native run shows that.
    Status compare(const Copy& native, const Copy& staged, Comparison& result) {
        FolderComparison found = compare_folders(native.path(), staged.path());
        result.files = found.files;
        result.bytes = found.bytes;
        if (found.differences.empty()) return Status::ok();
        std::set<std::string> differ_natively;
        if (result.native_end.signal == 0) {
            auto again = Copy::make(folder_, beside_, "native-again");
            if (!again) return again.status();
            std::vector<double> not_compared;
            const auto end = run_native(again.value(), not_compared);
            if (!end) return end.status();
            for (const FolderDifference& one : compare_folders(native.path(), again.value().path()).differences)
                differ_natively.insert(one.path);
        }
        for (FolderDifference& one : found.differences) {
            const bool same_content = one.is_bytes && h5diff_finds_none(fs::path(native.path()) / one.path,
                                                                        fs::path(staged.path()) / one.path);
            const bool natively = differ_natively.contains(one.path);
            // If several runs differ at a path, the last one counts.
            std::erase_if(result.differences, [&](const Difference& known) { return known.found.path == one.path; });
            result.differences.push_back({std::move(one), same_content, natively});
        }
        return Status::ok();
    }

    [[nodiscard]] bool h5diff_finds_none(const fs::path& one, const fs::path& other) const {
        if (!looks_like_hdf5(one) || !looks_like_hdf5(other)) return false;
        return ended_well(run_interruptible({"h5diff", "-q", one.string(), other.string()}, native_environment_));
    }

    const PreparedRun& prepared_;
    const std::vector<std::string>& program_;
    const CompareRequest& request_;
    const fs::path folder_, beside_;
    const std::vector<std::string> native_environment_;
};

double median(std::vector<double> values) {
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string gain(double native_s, double forebay_s) {
    if (native_s < 0.1 && forebay_s < 0.1) return "too short to compare";
    const double ratio = forebay_s > 0 ? native_s / forebay_s : 1;
    if (ratio > 1.02) return fmt::format("{:.2f} times as fast", ratio);
    if (ratio < 0.98) return fmt::format("takes {:.2f} times as long", 1 / ratio);
    return "as fast";
}

std::string end_in_words(const ChildEnd& end) {
    return end.signal != 0 ? fmt::format("signal {}", end.signal) : fmt::format("exit status {}", end.exit_status);
}

void tell(const Comparison& result, const fs::path& folder) {
    const double native_s = median(result.native_s), forebay_s = median(result.forebay_s);
    fmt::print(stderr, "\nforebay run --compare: in fresh copies of {}{}\n\n", printable(folder.string()),
               result.native_s.size() > 1 ? fmt::format(", medians of {} runs", result.native_s.size()) : "");
    fmt::print(stderr, "  native       {:9.2f} s\n  with forebay {:9.2f} s   {}\n\n", native_s, forebay_s,
               gain(native_s, forebay_s));
    if (result.ends_differ)
        fmt::print(stderr, "  DIFFERENT: natively the program ended with {}, with forebay with {}\n",
                   end_in_words(result.native_end), end_in_words(result.last->end));
    for (std::size_t i = 0; i < std::min(result.differences.size(), kToldMax); ++i) {
        const Difference& one = result.differences[i];
        const std::string path = printable(one.found.path);
        if (one.same_content) fmt::print(stderr, "  equal by h5diff: {} {}\n", path, one.found.what);
        else if (one.differs_natively)
            fmt::print(stderr, "  not comparable: {} also differs between two native runs\n", path);
        else fmt::print(stderr, "  DIFFERENT: {} {}\n", path, one.found.what);
    }
    if (result.differences.size() > kToldMax)
        fmt::print(stderr, "  and {} more (--json shows all)\n", result.differences.size() - kToldMax);
    for (const std::string& name : result.written_outside)
        fmt::print(
            stderr,
            "  NOT COMPARED: the program changed {} in the folder itself, not in its copy: give the program a path "
            "that is relative to its working directory\n",
            printable(name));
    if (result.differences.empty())
        fmt::print(stderr, "  {}, {}: {}\n", result.files == 1 ? "1 file" : fmt::format("{} files", result.files),
                   format_size(result.bytes), result.files == 0 ? "nothing to compare" : "equal, byte for byte");
    for (const std::string& copy : result.kept) fmt::print(stderr, "  kept: {}\n", printable(copy));
    fmt::print(stderr, "\n{}", as_text(*result.last));
}

ordered_json comparison_as_json(const Comparison& result) {
    ordered_json differences = ordered_json::array();
    for (const Difference& one : result.differences)
        differences.push_back({{"path", one.found.path},
                               {"what", one.found.what},
                               {"equal_by_h5diff", one.same_content},
                               {"differs_natively", one.differs_natively}});
    return {{"equal", result.equal()},
            {"native_s", result.native_s},
            {"forebay_s", result.forebay_s},
            {"files", result.files},
            {"bytes", result.bytes},
            {"differences", differences},
            {"ends_differ", result.ends_differ},
            {"written_outside", result.written_outside},
            {"kept", result.kept},
            {"run", cli::as_json(*result.last)}};
}

}   // namespace

int run_compared(const PreparedRun& prepared, const std::vector<std::string>& program, const CompareRequest& request) {
    std::error_code error;
    const fs::path folder = fs::canonical(request.folder.empty() ? "." : request.folder, error);
    if (error || !fs::is_directory(folder)) {
        complain_of_run(fmt::format("--folder {}: the folder does not exist", request.folder));
        return kExitUsage;
    }
    const fs::path beside = request.copies.empty() ? folder.parent_path() : fs::canonical(request.copies, error);
    if (error) {
        complain_of_run(fmt::format("--copies {}: the folder does not exist", request.copies));
        return kExitUsage;
    }
    if (folder == folder.root_path() || !fs::is_directory(beside) || beside == folder ||
        beside.string().starts_with(folder.string() + "/")) {
        complain_of_run(fmt::format("{} cannot hold copies of {}: name another folder with --copies", beside.string(),
                                    folder.string()));
        return kExitUsage;
    }
    const Result<Comparison> compared = Comparing(prepared, program, request, folder, beside).run();
    if (!compared) {
        if (compared.status().code() == Code::kUnavailable) {
            complain_of_run(compared.status().message());
            return kExitProblem;
        }
        return start_failure(compared.status());
    }
    const Comparison& result = compared.value();
    tell(result, folder);
    if (!request.json_path.empty() && !write_json(request.json_path, comparison_as_json(result))) return kExitProblem;
    if (!result.equal()) return kExitProblem;
    if (result.native_end.signal != 0) return kExitSignal + result.native_end.signal;
    return result.native_end.exit_status;
}

}   // namespace forebay::cli
