// Runs random parallel HDF5 programs, one per seed, each in a directory of its own; every rank journals what it saw.
//
//   mpiexec -n 3 parallel_differential --seeds 1..100 --dir D --journal F     journals F.0, F.1, F.2
//   … --seeds 17..17 --skip 3,5 --max-ops 20                                leaves operations out
//   … --seeds 17..17 --fault value@6                                         the last rank misbehaves on purpose
//   … --between-nodes                                                        flushes at every barrier
//   … --print-errors                                                         shows HDF5's whole error stacks
//
// Run once natively and once with HDF5_VOL_CONNECTOR=forebay, the journals and the files must agree.
// The clock that HDF5 stamps objects with stands still between MPI_Init and MPI_Finalize.
#include <hdf5.h>
#include <mpi.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "parallel_program.h"

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
    ParallelOptions program;
};

[[noreturn]] void usage(const std::string& problem) {
    std::fprintf(stderr, "parallel_differential: %s\n", problem.c_str());
    std::exit(2);
}

void parse_fault(const std::string& text, ParallelOptions& options) {
    static const std::map<std::string, Fault> faults{
        {"value", Fault::kValue}, {"read", Fault::kRead}, {"crash", Fault::kCrash}, {"hang", Fault::kHang}};
    const auto at = text.find('@');
    const auto found = faults.find(text.substr(0, at));
    if (found == faults.end() || at == std::string::npos) usage("unknown fault " + text);
    options.fault = found->second;
    options.fault_at = std::strtoull(text.c_str() + at + 1, nullptr, 10);
}

void parse_skipped(const std::string& text, ParallelOptions& options) {
    for (const char* at = text.c_str(); *at != '\0';) {
        char* end = nullptr;
        options.skipped.insert(std::strtoull(at, &end, 10));
        if (end == at) usage("--skip wants numbers");
        at = *end == ',' ? end + 1 : end;
    }
}

Arguments parse(int count, char** words) {
    Arguments arguments;
    for (int i = 1; i < count; ++i) {
        const std::string name = words[i];
        if (name == "--between-nodes") {
            arguments.program.flush_before_reading = true;
            continue;
        }
        if (name == "--print-errors") {
            arguments.print_errors = true;
            continue;
        }
        if (++i == count) usage(name + " lacks its value");
        const std::string value = words[i];
        if (name == "--seeds") {
            if (std::sscanf(value.c_str(), "%" SCNu64 "..%" SCNu64, &arguments.first, &arguments.last) != 2)
                usage("--seeds wants A..B");
        } else if (name == "--dir") {
            arguments.directory = value;
        } else if (name == "--journal") {
            arguments.journal = value;
        } else if (name == "--max-ops") {
            arguments.program.operations_max = std::strtoull(value.c_str(), nullptr, 10);
        } else if (name == "--skip") {
            parse_skipped(value, arguments.program);
        } else if (name == "--fault") {
            parse_fault(value, arguments.program);
        } else {
            usage("unknown option " + name);
        }
    }
    return arguments;
}

bool enter(const std::string& directory, bool make) {
    const bool made = !make || ::mkdir(directory.c_str(), 0755) == 0 || errno == EEXIST;
    MPI_Barrier(MPI_COMM_WORLD);
    if (made && ::chdir(directory.c_str()) == 0) return true;
    std::perror(directory.c_str());
    return false;
}

int run(const Arguments& arguments) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::vector<MPI_Comm> communicators{MPI_COMM_WORLD, MPI_COMM_NULL, MPI_COMM_NULL};
    MPI_Comm_dup(MPI_COMM_WORLD, &communicators[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &communicators[2]);   // backwards
    Journal journal(arguments.journal.empty() ? "" : arguments.journal + "." + std::to_string(rank),
                    arguments.print_errors);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    if (!enter(arguments.directory, rank == 0)) return 2;
    for (std::uint64_t seed = arguments.first; seed <= arguments.last; ++seed) {
        if (!enter(std::to_string(seed), rank == 0)) return 2;
        ParallelOptions options = arguments.program;
        options.seed = seed;
        ParallelProgram(options, communicators, journal).run();
        MPI_Barrier(MPI_COMM_WORLD);
        if (::chdir("..") != 0) return 2;
    }
    MPI_Comm_free(&communicators[1]);
    MPI_Comm_free(&communicators[2]);
    return 0;
}

}   // namespace
}   // namespace differential

int main(int count, char** words) {
    const differential::Arguments arguments = differential::parse(count, words);
    MPI_Init(&count, &words);
    clock_stands_still = true;
    const int status = differential::run(arguments);
    clock_stands_still = false;
    if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
    MPI_Finalize();
    return status;
}
