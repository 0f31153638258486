// One random parallel program that knows what it must read.
//
// Every rank draws the same plan from the seed: who writes which elements with which values. So each of them keeps the
// same picture of all files (oracle_model.h) and compares every read with it. Nothing is compared with another run.
//
// What a program does is defined by MPI: two ranks touch the same element, one of them writing, only with a
// synchronisation in between. Between nodes that is a flush and a barrier; on one node, and in MPI's atomic mode, a
// barrier is enough. Ranks do not meet otherwise, so one of them may be several operations ahead.
#pragma once

#include <hdf5.h>
#include <mpi.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oracle_model.h"

namespace oracle {

struct Options {
    std::uint64_t seed = 0;
    std::uint64_t operations_max = UINT64_MAX;
    std::set<std::uint64_t> skipped;         // operations left out, by number
    std::set<std::string> without;           // kinds of operations left out, by name
    bool between_nodes = false;              // a barrier alone does not synchronise
    bool trace = false;                      // say what is done
    std::uint64_t corrupt_at = UINT64_MAX;   // the last rank writes something else from this operation on, once
};

struct File {
    std::string name;
    Id id;
    bool writable = false;
    bool atomic = false;
    bool together = false;   // metadata are read collectively: so are all transfers
    std::vector<Dataset> datasets;
    std::vector<std::string> groups;   // without the root
};

class Program {
  public:
    // `communicators` are different orders of all ranks; they belong to the caller.
    Program(const Options& options, const std::vector<MPI_Comm>& communicators);
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    // Collective. Elements that were read on this rank and were not what they must be.
    std::uint64_t run();

  private:
    struct Operation {
        const char* name;
        unsigned weight;
        void (Program::*run)(Random&);
    };
    static const std::vector<Operation>& operations();
    void run_operation(std::uint64_t index);

    // oracle_operations.cc
    void create_dataset(Random& random);
    void write_together(Random& random);
    void read_together(Random& random);
    void write_alone(Random& random);
    void transfer_many(Random& random);
    void transfer_mixed(Random& random);
    void change_extent(Random& random);
    void append_steps(Random& random);
    void delete_and_reuse(Random& random);
    void use_unnamed(Random& random);
    void copy_object(Random& random);
    void move_object(Random& random);
    void create_groups(Random& random);
    void change_attributes(Random& random);
    void flush(Random& random);
    void reopen(Random& random);
    void reopen_for_reading(Random& random);
    void lay_out_serially(Random& random);
    void set_atomic(Random& random);
    void finish();

    // Whether a space that has been freed may still be written or read by a rank that is behind: then all meet.
    void before_freeing(File& file, Random& random) { settle_if(touched(file), file, random); }
    void before_reading(File& file, const Dataset& dataset, Random& random) {
        settle_if(dataset.written, file, random);
    }
    void before_writing(File& file, const Dataset& dataset, Random& random) {
        settle_if(dataset.written || dataset.read, file, random);
    }
    void settle_if(bool needed, File& file, Random& random);
    void settle(File& file, Random& random);
    [[nodiscard]] static bool touched(const File& file);

    void open(File& file, Random& random, bool create, bool writable);
    void close(File& file, Random& random);
    File& some_file(Random& random) { return random.pick(files_); }
    // Open; null: there is none such.
    template <class Wanted>
    Dataset* some_dataset(File& file, Random& random, Wanted&& wanted);
    Dataset* some_dataset(File& file, Random& random);
    void hold(const File& file, Dataset& dataset);
    void done_with(Dataset& dataset, Random& random);
    Dataset choose_dataset(const File& file, Random& random, bool serial);
    [[nodiscard]] Id creation_list(Dataset& dataset, Random& random, bool serial);
    void write_whole(const File& file, Dataset& dataset, Random& random);

    // What a rank takes part in with one dataset: its part, and the buffer for it.
    struct Transfer {
        Id space, memory;
        std::vector<std::size_t> at;   // positions in the dataset
        std::vector<std::byte> buffer;
        hid_t type = H5I_INVALID_HID;
        std::size_t step = 1;   // of the buffer's elements from one to the next
    };
    [[nodiscard]] std::vector<Id> parts_of(const Dataset& dataset, bool whole, Random& random);
    [[nodiscard]] Transfer prepare(const Dataset& dataset, Id space, Random& random, bool may_convert = true);
    // Puts the values of all ranks into the picture, and this rank's into the buffer.
    void plan_write(Dataset& dataset, const std::vector<Id>& parts, Transfer& mine, Random& random);
    void fill_buffer(const Dataset& dataset, Transfer& mine);
    void compare(const Dataset& dataset, Transfer& mine);
    [[nodiscard]] Id transfer_list(bool collective, bool filtered, Random& random);
    void write_parts(const File& file, Dataset& dataset, const std::vector<Id>& parts, bool collective, Random& random);
    void read_parts(const File& file, Dataset& dataset, const std::vector<Id>& parts, bool collective, Random& random);
    void act_alone(const File& file, Dataset& dataset, const std::vector<Id>& owned, Random& random);
    void transfer(const File& file, const std::vector<Dataset*>& chosen, Random& random);
    void fresh_dataset(File& file, Dataset& dataset, Random& random);
    void check_attributes(const Dataset& dataset);
    void check_everything(File& file, Random& random);

    void say(const std::string& what);
    // Ends all ranks where an HDF5 call has failed: none of them may.
    void need(bool succeeded, const char* call);
    [[nodiscard]] bool corrupts() {
        return rank_ + 1 == ranks_ && operation_ >= options_.corrupt_at && !std::exchange(corrupted_, true);
    }

    Options options_;
    const std::vector<MPI_Comm>& communicators_;
    std::size_t rank_ = 0, ranks_ = 1;
    std::vector<File> files_;
    std::size_t elements_max_ = 0;
    std::uint64_t operation_ = 0, names_ = 0, wrong_ = 0;
    bool corrupted_ = false;
    std::string told_;   // of the operation under way
};

template <class Wanted>
Dataset* Program::some_dataset(File& file, Random& random, Wanted&& wanted) {
    std::vector<Dataset*> found;
    for (Dataset& dataset : file.datasets)
        if (wanted(dataset)) found.push_back(&dataset);
    if (found.empty()) return nullptr;
    Dataset* const chosen = random.pick(found);
    say(file.name + chosen->path);
    hold(file, *chosen);
    return chosen;
}

}   // namespace oracle
