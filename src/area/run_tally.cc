#include "area/run_tally.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "area/process.h"
#include "io/posix_file.h"

namespace forebay::area {

namespace {

constexpr unsigned kTalliesMax = 64;   // engines of one process: one for each libhdf5

std::uint64_t value(const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); }

}   // namespace

Result<std::string> TallyWriter::open(const std::string& folder) {
    const auto process = identify_this_process();
    if (!process) return process.status();
    auto directory = io::open_posix_directory(folder);
    if (!directory) return directory.status();
    for (unsigned number = 0; number < kTalliesMax; ++number) {
        const std::string name = fmt::format("{}-{}-{}", process.value().pid, process.value().start_ticks, number);
        auto file = directory.value()->open_file(name, io::OpenMode::kCreateNew);
        if (file.status().code() == Code::kAlreadyExists) continue;
        if (!file) return file.status();
        FOREBAY_TRY(file.value()->resize(sizeof(RunTally)));
        auto mapping = file.value()->map(0, sizeof(RunTally));
        if (!mapping) return mapping.status();
        mapping_ = std::move(mapping).value();
        replaceable_ = std::make_unique<io::Replaceable>(mapping_->bytes());
        auto* const tally = new (mapping_->bytes().data()) RunTally;
        tally->pid = process.value().pid;
        tally->start_ticks = process.value().start_ticks;
        tally->magic.store(kTallyMagic, std::memory_order_release);
        tally_ = tally;
        return folder + "/" + name;
    }
    return Status(Code::kUnavailable, fmt::format("make a file of counters in {}: each name is taken", folder));
}

Result<TallyView> read_tally(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return Status(Code::kInvalidArgument, path + " is not a complete path");
    auto directory = io::open_posix_directory(path.substr(0, slash));
    if (!directory) return directory.status();
    auto file = directory.value()->open_file(path.substr(slash + 1), io::OpenMode::kRead);
    if (!file) return file.status();
    alignas(RunTally) std::array<std::byte, sizeof(RunTally)> bytes{};
    const auto got = file.value()->read_at(0, bytes);
    if (!got) return got.status();
    const auto& tally = *std::launder(reinterpret_cast<const RunTally*>(bytes.data()));
    if (got.value() != bytes.size() || tally.magic.load() != kTallyMagic)
        return Status(Code::kCorrupt, path + " holds no counters of this version");
    TallyView view{.pid = tally.pid,
                   .start_ticks = tally.start_ticks,
                   .files_opened = value(tally.files_opened),
                   .files_staged = value(tally.files_staged),
                   .files_written = value(tally.files_written),
                   .read_files = value(tally.reads.files),
                   .hit_bytes = value(tally.reads.hit_bytes),
                   .missed_bytes = value(tally.reads.missed_bytes),
                   .fetched_bytes = value(tally.reads.fetched_bytes),
                   .stored_bytes = value(tally.reads.stored_bytes),
                   .remote_bytes = value(tally.reads.remote_bytes)};
    for (std::size_t i = 0; i < kTallyReasons; ++i) {
        view.aside[i] = value(tally.aside[i]);
        view.read_aside[i] = value(tally.reads.aside[i]);
    }
    return view;
}

}   // namespace forebay::area
