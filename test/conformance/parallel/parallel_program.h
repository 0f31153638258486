// One random parallel program: every rank draws the same choices from the seed, and its own data.
//
// What a program does is defined natively: no two ranks touch the same bytes, one of them writing, without a barrier in
// between. On one node, and natively on any POSIX file system, a rank then reads what another wrote without a flush.
#pragma once

#include <hdf5.h>
#include <mpi.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "../differential/element.h"
#include "../differential/identifier.h"
#include "../differential/journal.h"
#include "../differential/random.h"
#include "decomposition.h"

namespace differential {

// A deliberate fault on the last rank, to prove that the comparison notices.
enum class Fault : std::uint8_t { kNone, kValue, kRead, kCrash, kHang };

struct ParallelOptions {
    std::uint64_t seed = 0;
    std::uint64_t operations_max = UINT64_MAX;
    std::set<std::uint64_t> skipped;     // operations left out
    bool flush_before_reading = false;   // and at every barrier: what is defined across nodes
    Fault fault = Fault::kNone;
    std::uint64_t fault_at = 0;   // the operation from which on it strikes, once
};

struct SharedDataset {
    std::string path;
    Element element = Element::kInt32;
    Dims chunk;   // empty: contiguous
    bool filtered = false;
    bool unfilled = false;   // HDF5 gives its storage no content, so it is written whole at once
    Id held;                 // open between operations, or not

    [[nodiscard]] bool chunked() const { return !chunk.empty(); }
};

struct SharedFile {
    std::string name;
    MPI_Comm communicator = MPI_COMM_NULL;   // the program's
    Id id;
    bool writable = false;
    bool metadata_read_together = false;   // then all transfers must be collective
    std::vector<SharedDataset> datasets;
    std::vector<std::string> groups{"/"};
};

class ParallelProgram {
  public:
    // `communicators` are different orders of all ranks; they belong to the caller.
    ParallelProgram(const ParallelOptions& options, const std::vector<MPI_Comm>& communicators, Journal& journal);
    ParallelProgram(const ParallelProgram&) = delete;
    ParallelProgram& operator=(const ParallelProgram&) = delete;

    void run();

  private:
    struct Operation {
        const char* name;
        unsigned weight;
        void (ParallelProgram::*run)(Random&);
    };
    static const std::vector<Operation>& operations();
    void create_files();
    void run_operation(std::uint64_t index);

    void create_dataset(Random& random);
    void write_some(Random& random);
    void read_some(Random& random);
    void exchange(Random& random);
    void write_alone(Random& random);
    void append_steps(Random& random);
    void change_extent(Random& random);
    void transfer_many(Random& random);
    void delete_and_reuse(Random& random);
    void create_group(Random& random);
    void change_attributes(Random& random);
    void read_attributes(Random& random);
    void flush(Random& random);
    void reopen(Random& random);
    void look_alone(Random& random);
    void finish();

    void open(SharedFile& file, Random& random, bool create, bool writable);
    void close(SharedFile& file);
    SharedFile& some_file(Random& random) { return random.pick(files_); }
    SharedDataset* some_dataset(SharedFile& file, Random& random);
    void done_with(SharedDataset& dataset, Random& random);
    bool opened(SharedFile& file, SharedDataset& dataset);
    void forget(SharedFile& file, std::size_t at);
    // Everyone has ended what they did before.
    void settle(SharedFile& file);
    void write(const SharedFile& file, SharedDataset& dataset, const Decomposition& parts, bool collective,
               Random& random);
    void read(const SharedFile& file, SharedDataset& dataset, const Decomposition& parts, bool collective,
              Random& random);
    void read_whole(SharedDataset& dataset, bool collective);
    [[nodiscard]] bool strikes(Fault fault);

    ParallelOptions options_;
    const std::vector<MPI_Comm>& communicators_;
    Journal& journal_;
    std::size_t rank_ = 0, ranks_ = 1;
    std::vector<SharedFile> files_;
    std::size_t elements_max_ = 0;
    std::uint64_t operation_ = 0, names_ = 0;
    bool touched_ = false;   // since the last barrier
    bool struck_ = false;
};

}   // namespace differential
