// Runs random parallel HDF5 programs that know what they must read, one per seed, each in a directory of its own.
//
//   mpiexec -n 3 parallel_oracle --seeds 1..100 --dir D
//   … --seeds 17..17 --max-ops 20 --skip 3,5       leaves operations out
//   … --without atomic,copy                        leaves kinds of operations out: writes come in their place
//   … --between-nodes                              synchronises as MPI wants it between nodes: by flush and barrier
//   … --corrupt 4                                  the last rank writes something wrong in operation 4 or later
//   … --trace                                      says what is done
//
// Status 3: a read gave something else than it must, or a call has failed; standard error tells. Otherwise each
// directory has what is expected to be in its files, for parallel_oracle.py. Runs natively as well: it knows nothing of
// forebay.
#include <hdf5.h>
#include <mpi.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "oracle_program.h"

namespace oracle {
namespace {

struct Arguments {
    std::uint64_t first = 1, last = 1;
    std::string directory = ".";
    Options options;
};

[[noreturn]] void usage(const std::string& problem) {
    std::fprintf(stderr, "parallel_oracle: %s\n", problem.c_str());
    std::exit(2);
}

std::uint64_t number(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

void take(Arguments& arguments, const std::string& name, const std::string& value) {
    std::istringstream words(value);
    std::string word;
    if (name == "--seeds") {
        if (std::sscanf(value.c_str(), "%" SCNu64 "..%" SCNu64, &arguments.first, &arguments.last) != 2)
            usage("--seeds wants A..B");
    } else if (name == "--dir") {
        arguments.directory = value;
    } else if (name == "--max-ops") {
        arguments.options.operations_max = number(value);
    } else if (name == "--corrupt") {
        arguments.options.corrupt_at = number(value);
    } else if (name == "--skip") {
        while (std::getline(words, word, ',')) arguments.options.skipped.insert(number(word));
    } else if (name == "--without") {
        while (std::getline(words, word, ',')) arguments.options.without.insert(word);
    } else {
        usage("unknown option " + name);
    }
}

Arguments parse(int count, char** words) {
    Arguments arguments;
    for (int i = 1; i < count; ++i) {
        const std::string name = words[i];
        if (name == "--between-nodes") arguments.options.between_nodes = true;
        else if (name == "--trace") arguments.options.trace = true;
        else if (++i < count) take(arguments, name, words[i]);
        else usage(name + " lacks its value");
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
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    std::uint64_t wrong = 0;
    if (!enter(arguments.directory, rank == 0)) return 2;
    for (std::uint64_t seed = arguments.first; seed <= arguments.last; ++seed) {
        if (!enter(std::to_string(seed), rank == 0)) return 2;
        Options options = arguments.options;
        options.seed = seed;
        wrong += Program(options, communicators).run();
        MPI_Barrier(MPI_COMM_WORLD);
        if (::chdir("..") != 0) return 2;
    }
    MPI_Comm_free(&communicators[1]);
    MPI_Comm_free(&communicators[2]);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return wrong == 0 ? 0 : 3;
}

}   // namespace
}   // namespace oracle

int main(int count, char** words) {
    const oracle::Arguments arguments = oracle::parse(count, words);
    MPI_Init(&count, &words);
    const int status = oracle::run(arguments);
    MPI_Finalize();
    return status;
}
