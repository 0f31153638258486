#include "cli/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "area/process.h"
#include "area/run_record.h"
#include "io/posix_file.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "forebay-run-";
constexpr std::string_view kRandom = "XXXXXX";   // mkdtemp replaces it
// A younger empty folder is in the making, unless its process died meanwhile.
constexpr std::time_t kMakingSecondsMax = 600;

// With the boot's number, because a lock tells nothing of processes under another kernel.
Result<std::string> prefix_of_names() {
    const auto self = area::identify_this_process();
    if (!self) return self.status();
    return fmt::format("{}{}-", kPrefix, area::to_text(self.value().boot_id));
}

bool is_of_dead_run(const std::string& path) {
    struct stat facts{};
    if (::lstat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid()) return false;
    switch (area::life_at(path)) {
        case area::Life::kLives:
        case area::Life::kUnseen: return false;
        case area::Life::kEnded: return true;
        case area::Life::kUntold: break;
    }
    std::error_code error;
    const bool empty = fs::is_empty(path, error);
    return !error && empty && std::time(nullptr) - facts.st_mtime > kMakingSecondsMax;
}

void remove_dead_runs(const std::string& temporary) {
    const auto prefix = prefix_of_names();
    if (!prefix) return;
    std::error_code error, ignored;
    for (fs::directory_iterator entry(temporary, error), end; !error && entry != end; entry.increment(error)) {
        const std::string path = entry->path().string(), name = entry->path().filename().string();
        if (name.size() == prefix.value().size() + kRandom.size() && name.starts_with(prefix.value()) &&
            is_of_dead_run(path))
            fs::remove_all(path, ignored);
    }
}

}   // namespace

RunFolder::RunFolder(Variables& variables) {
    const char* folder = std::getenv("TMPDIR");
    // A colon separates the files of nested runs.
    const bool usable = folder != nullptr && *folder == '/' &&
                        std::string_view(folder).find(':') == std::string_view::npos;
    const std::string temporary = usable ? folder : "/tmp";
    remove_dead_runs(temporary);
    why_not_ = make(temporary);
    if (!why_not_ && path_.empty() && temporary != "/tmp") why_not_ = make("/tmp");
    if (!why_not_) return;
    const std::string record = record_path();
    const char* outer = std::getenv(area::kRunVariable);
    variables[area::kRunVariable] = outer != nullptr && *outer != '\0' ? fmt::format("{}:{}", outer, record) : record;
    if (options_with(variables).options.stats.empty()) variables[option_variable("stats")] = record;
}

Status RunFolder::make(const std::string& temporary) {
    const auto prefix = prefix_of_names();
    if (!prefix) return prefix.status();
    std::string name = fmt::format("{}/{}{}", temporary, prefix.value(), kRandom);
    if (::mkdtemp(name.data()) == nullptr) return Status::from_errno(errno, "create " + name);
    path_ = name;
    auto directory = io::open_posix_directory(path_);
    if (!directory) return directory.status();
    // The folder works without a lock too. Then it stays if this process is killed.
    auto alive = directory.value()->hold(std::string(area::kAliveFile));
    if (alive) alive_ = std::move(alive).value();
    else (void)directory.value()->remove_file(std::string(area::kAliveFile));
    auto record = directory.value()->open_file(area::kRunRecordFile, io::OpenMode::kCreateNew);
    if (record) record_ = std::move(record).value();
    return record.status();
}

std::string RunFolder::record_path() const { return path_ + "/" + area::kRunRecordFile; }

RunFolder::~RunFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<Statistics> RunFolder::read() const {
    if (!why_not_) return why_not_;
    return read_statistics(*record_);
}

Status RunFolder::is_whole() const {
    const auto made = record_->identity(), there = io::identify(record_path());
    if (!made) return made.status();
    if (there && there.value() == made.value()) return Status::ok();
    return {Code::kNotFound, record_path() + " is gone, or was replaced"};
}

}   // namespace forebay::cli
