// Runs random HDF5 programs, one per seed, each in a directory of its own, and journals what they saw.
//
//   differential --seeds 1..200 --dir D --journal F          runs them all
//   differential --seeds 17..17 --dir D --skip 3,5 --max-ops 20   leaves operations out
//   differential --seeds 17..17 --dir D --fault value@6      misbehaves on purpose
//
// Run once natively and once with HDF5_VOL_CONNECTOR=forebay, the journals and the files must agree.
// The clock that HDF5 stamps objects with is replaced by a constant, so that equal programs give equal bytes.
#include <hdf5.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "journal.h"
#include "program.h"

// Takes the place of the C library's for libhdf5, once main() runs: libraries wait for time to pass as they start.
static bool clock_stands_still = false;
extern "C" [[gnu::visibility("default")]] int gettimeofday(struct timeval* __restrict now, void* __restrict) noexcept {
    struct timespec real{1'600'000'000, 0};
    if (!clock_stands_still) ::clock_gettime(CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec;
    now->tv_usec = real.tv_nsec / 1000;
    return 0;
}

namespace differential {
namespace {

struct Arguments {
    std::uint64_t first = 1, last = 1;
    std::string directory = ".", journal;
    bool print_errors = false;
    bool free_lists = true;
    ProgramOptions program;
};

[[noreturn]] void usage(const char* problem) {
    std::fprintf(stderr,
                 "differential: %s\n"
                 "usage: differential --seeds A..B --dir D [--journal F] [--max-ops K] [--skip I,J,...]\n"
                 "                    [--heavy PERCENT] [--errors print]\n"
                 "                    [--free-lists off]\n"
                 "                    [--fault value|lost-write|read|status|crash|hang@OPERATION]\n",
                 problem);
    std::exit(2);
}

void parse_fault(const std::string& text, ProgramOptions& options) {
    static const std::map<std::string, Fault> faults{{"value", Fault::kValue}, {"lost-write", Fault::kLostWrite},
                                                     {"read", Fault::kRead},   {"status", Fault::kStatus},
                                                     {"crash", Fault::kCrash}, {"hang", Fault::kHang}};
    const auto at = text.find('@');
    const auto found = faults.find(text.substr(0, at));
    if (found == faults.end() || at == std::string::npos) usage("unknown fault");
    options.fault = found->second;
    options.fault_at = std::strtoull(text.c_str() + at + 1, nullptr, 10);
}

Arguments parse(int count, char** words) {
    Arguments arguments;
    for (int i = 1; i + 1 < count; i += 2) {
        const std::string name = words[i], value = words[i + 1];
        if (name == "--seeds") {
            if (std::sscanf(value.c_str(), "%" SCNu64 "..%" SCNu64, &arguments.first, &arguments.last) != 2)
                usage("--seeds wants A..B");
        } else if (name == "--dir") {
            arguments.directory = value;
        } else if (name == "--journal") {
            arguments.journal = value;
        } else if (name == "--max-ops") {
            arguments.program.operations_max = std::strtoull(value.c_str(), nullptr, 10);
        } else if (name == "--heavy") {
            arguments.program.heavy_percent = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
        } else if (name == "--errors") {
            arguments.print_errors = value == "print";
        } else if (name == "--free-lists") {
            arguments.free_lists = value != "off";
        } else if (name == "--fault") {
            parse_fault(value, arguments.program);
        } else if (name == "--skip") {
            for (const char* at = value.c_str(); *at != '\0';) {
                char* end = nullptr;
                arguments.program.skipped.insert(std::strtoull(at, &end, 10));
                at = *end == ',' ? end + 1 : end;
                if (end == at && *end != '\0') usage("--skip wants numbers");
            }
        } else {
            usage(("unknown option " + name).c_str());
        }
    }
    if (count % 2 == 0) usage("an option lacks its value");
    return arguments;
}

void enter(const std::string& directory) {
    if ((::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) || ::chdir(directory.c_str()) != 0) {
        std::perror(directory.c_str());
        std::exit(2);
    }
}

// HDF5 1.14 loops for ever in some programs. So many seconds of computing end the process by a signal.
constexpr long kCaseSecondsMax = 8;

void start_watchdog() {
    const struct itimerval limit{{0, 0}, {kCaseSecondsMax, 0}};
    ::setitimer(ITIMER_PROF, &limit, nullptr);
}

int run(int count, char** words) {
    Arguments arguments = parse(count, words);
    Journal journal(arguments.journal, arguments.print_errors);
    enter(arguments.directory);
    for (std::uint64_t seed = arguments.first; seed <= arguments.last; ++seed) {
        start_watchdog();
        if (H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) < 0) return 3;   // HDF5 does not start, and has said why
        // HDF5 keeps what it frees. Without its lists the C library sees each block come and go.
        if (!arguments.free_lists && H5set_free_list_limits(0, 0, 0, 0, 0, 0) < 0) return 3;
        enter(std::to_string(seed));
        arguments.program.seed = seed;
        const std::int64_t left_open = Program(arguments.program, journal).run();
        if (::chdir("..") != 0) return 2;
        if (left_open != 0) break;   // the rest wants a new process
        // Some programs restart the library, and the plugins with it.
        if (Random(seed, 0xC105E).chance(6)) H5close();
    }
    std::fprintf(stderr, "calls %" PRIu64 " failed %" PRIu64 "\n", journal.calls(), journal.failures());
    return 0;
}

}   // namespace
}   // namespace differential

int main(int count, char** words) {
    clock_stands_still = true;
    return differential::run(count, words);
}
