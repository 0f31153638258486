#include "cli/advice.h"

#include <fmt/format.h>

namespace forebay::cli {

namespace {

constexpr double kSecond = 1e9;
constexpr double kNoticedPart = 0.05;   // of the run's time
constexpr std::uint64_t kManyRequests = 10'000, kSmallRequest = 4 << 10;
constexpr std::uint64_t kManyWrites = 1'000, kSmallWrite = 256 << 10;
constexpr std::uint64_t kNoticedMisses = 16 << 20;
constexpr std::uint64_t kManyStripes = 100, kUsualStripe = 1 << 20;

double seconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / kSecond; }

class Advising {
  public:
    Advising(const RunSummary& summary, const Options& options, const WritesToFiles& writes)
        : summary_(summary),
          options_(options),
          writes_(writes),
          sum_(totals(all_files(summary))),
          processes_(process_count(summary)) {}

    std::vector<Advice> all() {
        losses();
        gaps_in_figures();
        waits();
        staging_area();
        requests();
        reading();
        asides();
        return std::move(advice_);
    }

  private:
    void add(std::string finding, std::string action, std::string option = {}) {
        advice_.push_back({std::move(finding), std::move(action), std::move(option)});
    }

    [[nodiscard]] double part(std::uint64_t nanoseconds) const {
        const double each = seconds(nanoseconds) / static_cast<double>(processes_ == 0 ? 1 : processes_);
        return summary_.elapsed_s > 0 ? each / summary_.elapsed_s : 0;
    }

    void losses() {
        if (const auto lost = not_drained(summary_); !lost.empty())
            add(fmt::format("Staged bytes of {} did not reach their file.", lost.size() == 1 ? "one file" : "files"),
                "They are in the log on the staging area: `forebay recover` brings the files to their last flush.");
        if (sum_.guarantee_given_up > 0)
            add(fmt::format(
                    "{} reached the file before their commit, for lack of room: a crash at that time would have "
                    "left a mixture of two states.",
                    format_size(sum_.guarantee_given_up)),
                "Let the log take as much as the program writes between two flushes.", "size");
    }

    void gaps_in_figures() {
        for (const std::string& gap : gaps(summary_))
            add(fmt::format("These figures are incomplete: {}.", gap), "The findings cover only the rest.");
        for (const std::string& remark : summary_.remarks)
            add(remark + ".", "forebay does not see the files that are read and written there.");
        if (gaps(summary_).empty() && summary_.remarks.empty() && summary_.statistics.begun.empty() &&
            sum_.requests == 0 && summary_.statistics.processes.empty())
            add("No HDF5 file went through forebay.",
                "`forebay doctor -- PROGRAM` says whether the program can load it.");
    }

    void waits() {
        if (part(sum_.stall_ns) > kNoticedPart)
            add(fmt::format("Writes waited {:.1f} s for room on the staging area, which was full.",
                            seconds(sum_.stall_ns)),
                fmt::format("Let the log take as much as the program writes in one burst, instead of {}.",
                            format_size(options_.size)),
                "size");
        if (part(sum_.close_ns) > kNoticedPart && options_.flush == OnFlush::kDrain)
            add(fmt::format("Flushes and closes waited {:.1f} s for the files.", seconds(sum_.close_ns)),
                "A flush that returns once the state is committed to the log does not wait.", "flush=commit");
        else if (part(sum_.close_ns) > kNoticedPart && options_.close == OnClose::kWait)
            add(fmt::format("Closes and flushes waited {:.1f} s for the files.", seconds(sum_.close_ns)),
                "With a deferred close, a program that closes a file at each step goes on at once.", "close=deferred");
    }

    void staging_area() {
        const double stage_s = seconds(sum_.stage_ns - std::min(sum_.stage_ns, sum_.stall_ns));
        if (stage_s < 1 || writes_.bytes_per_s <= 0 || sum_.staged == 0) return;
        const double speed = static_cast<double>(sum_.staged) / stage_s;
        if (speed < writes_.bytes_per_s)
            add(fmt::format("The staging area took {}/s, the files {}/s.",
                            format_size(static_cast<std::uint64_t>(speed)),
                            format_size(static_cast<std::uint64_t>(writes_.bytes_per_s))),
                "Staging helps if node-local storage is faster than the file system: name another device.", "nls");
    }

    void requests() {
        if (sum_.requests >= kManyRequests && sum_.staged / sum_.requests < kSmallRequest)
            add(fmt::format("The program made {} writes of {} on average.", sum_.requests,
                            format_size(sum_.staged / sum_.requests)),
                "Small metadata are often the cause. libver='latest' and H5Pset_meta_block_size put them "
                "together. A few large attributes cost less than many small ones.");
        if (sum_.target_writes >= kManyWrites && sum_.drained / sum_.target_writes < kSmallWrite)
            add(fmt::format("The file system got {} writes of {} on average.", sum_.target_writes,
                            format_size(sum_.drained / sum_.target_writes)),
                "The written bytes lie far apart. Larger chunks, or chunks that are written whole, lie together. "
                "For large datasets, use H5Pset_alignment.");
        if (const Alignment& seen = writes_.alignment; seen.writes >= kManyStripes && seen.unaligned > seen.writes / 2)
            add(fmt::format("{} of {} writes to the files began or ended within a stripe of {}.", seen.unaligned,
                            seen.writes, format_size(adviser_stripe(options_))),
                "For each of them, a parallel file system locks the stripe, or reads it first. H5Pset_alignment "
                "(h5py: alignment_interval) makes datasets begin at a stripe. If the file system has another "
                "stripe size, name it.",
                "stripe");
        if (sum_.superseded > sum_.staged / 5 && sum_.superseded > (64U << 20))
            add(fmt::format("{} were overwritten before they reached the file.", format_size(sum_.superseded)),
                "forebay wrote only their last version. If chunks are compressed, a larger chunk cache "
                "(H5Pset_chunk_cache, h5py: rdcc_nbytes) also saves compressing them again.");
        if (sum_.stolen > sum_.staged / 2 && sum_.stolen > (64U << 20))
            add(fmt::format("The program read back {} that it had just written.", format_size(sum_.stolen)),
                "HDF5 reads, changes and writes partial chunks: a chunk cache that holds a row of chunks avoids "
                "that. For small pieces of datasets without chunks, use a larger sieve buffer "
                "(H5Pset_sieve_buf_size).");
    }

    void reading() {
        const CacheStatistics cache = cache_totals(summary_.statistics);
        const auto aside = [&cache](const char* reason) {
            const auto found = cache.aside.find(reason);
            return found == cache.aside.end() ? 0 : found->second;
        };
        if (aside("full") > 0)
            add(fmt::format("{} files did not fit into the read cache.", aside("full")),
                fmt::format("Let it take more than {}.", format_size(options_.read_cache_size)), "read_cache_size");
        if (aside("young") > 0)
            add(fmt::format("{} files were too young to be cached.", aside("young")),
                "A file can be cached a minute after its last change, or earlier. Data for later jobs need no action.");
        if (aside("forked") > 0)
            add(fmt::format(
                    "Forked children read files that their parent had opened. They bypassed the read cache ({} times).",
                    aside("forked")),
                "Open the files in each worker: then all workers share the cached files.");
        if (aside("changed") > 0)
            add(fmt::format("{} files changed while they were read through the cache.", aside("changed")),
                "After the change, forebay read them from the file system.");
        if (aside("fault") > 0)
            add(fmt::format("The read cache of {} files failed on the staging area.", aside("fault")),
                "`forebay doctor` names the problem.", "nls");
        if (options_.read_cache == ReadCacheMode::kOn && cache.missed_bytes > kNoticedMisses &&
            cache.stored_bytes < cache.missed_bytes / 2)
            add(fmt::format("{} were read from the files, and the node kept {} of them.",
                            format_size(cache.missed_bytes), format_size(cache.stored_bytes)),
                "The next read takes the rest from the file system again.");
        const auto reasons = aside_by_reason(summary_.statistics);
        const auto only_read = reasons.find("read_only");
        if (options_.read_cache == ReadCacheMode::kOff && only_read != reasons.end())
            add(fmt::format("The program opened {} files for reading only.", only_read->second),
                "With the read cache, the node serves repeated reads.", "read_cache=auto");
    }

    void asides() {
        const auto reasons = aside_by_reason(summary_.statistics);
        const auto count = [&reasons](const char* reason) {
            const auto found = reasons.find(reason);
            return found == reasons.end() ? 0 : found->second;
        };
        if (count("staging_area") > 0)
            add(fmt::format("{} files were written directly: the staging area could not be used.",
                            count("staging_area")),
                "`forebay doctor` names the problem.", "nls");
        if (count("bad_option") > 0)
            add("Some option values are not usable, so files were written directly.", "`forebay doctor` names them.");
        if (count("driver") > 0)
            add(fmt::format("{} files use a file driver of the program's choice.", count("driver")),
                "forebay stages files of HDF5's default driver, and of mpio: if possible, leave out H5Pset_fapl_….");
        if (count("mpi") > 0)
            add(fmt::format("{} files that were opened with MPI stayed with mpio.", count("mpi")),
                "`forebay doctor` says whether this MPI library is known; files opened for reading only need "
                "read_cache=on. Ranks that read the same metadata wait for each other: with "
                "H5Pset_all_coll_metadata_ops one rank reads for all.");
        if (count("handle_taken") > 0)
            add(fmt::format("The program asked for the descriptor of {} files.", count("handle_taken")),
                "H5Fget_vfd_handle ends staging of the file, since the program may then write to it without HDF5.");
        if (count("address_given") > 0)
            add(fmt::format("The program asked for the place of its data in {} files.", count("address_given")),
                "H5Dget_offset and H5Dget_chunk_info end staging of the file: call them after the last write.");
        if (count("second_library") > 0)
            add("The process has two HDF5 libraries. forebay could not serve one of them.",
                "Build packages that bring their own libhdf5 against one library.");
        for (const char* other : {"disabled", "subfiling", "swmr", "under_connector", "not_regular", "atomicity",
                                  "several_nodes", "server"})
            if (count(other) > 0)
                add(fmt::format("{} files were left alone ({}).", count(other), other),
                    "docs/statistics.md explains the reason.");
    }

    const RunSummary& summary_;
    const Options& options_;
    const WritesToFiles writes_;
    const ledger::FileCounters sum_;
    const std::size_t processes_;
    std::vector<Advice> advice_;
};

}   // namespace

std::uint64_t adviser_stripe(const Options& options) { return options.stripe > 0 ? options.stripe : kUsualStripe; }

std::vector<Advice> advice_for(const RunSummary& summary, const Options& options, const WritesToFiles& writes) {
    return Advising(summary, options, writes).all();
}

}   // namespace forebay::cli
