// One random program: the files, groups and datasets it believes in, and the operations it runs on them.
//
// What the program does depends on its seed alone, never on what a call returned: two runs of one seed issue
// the same calls until one of them fails where the other does not. The picture of the files may be wrong
// (a deleted name, a moved object); using it then is a test of errors.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "element.h"
#include "identifier.h"
#include "journal.h"
#include "random.h"
#include "settings.h"

namespace differential {

// A deliberate fault, to prove that the comparison notices.
enum class Fault : std::uint8_t { kNone, kValue, kLostWrite, kRead, kStatus, kCrash, kHang };

struct ProgramOptions {
    std::uint64_t seed = 0;
    std::uint64_t operations_max = UINT64_MAX;
    std::set<std::uint64_t> skipped;   // operations left out
    unsigned heavy_percent = 4;        // of the programs move tens of megabytes
    Fault fault = Fault::kNone;
    std::uint64_t fault_at = 0;   // the operation from which on it strikes, once
};

struct FileState {
    std::string stem, name;
    Driver driver = Driver::kDefault;
    bool created = false;
    std::vector<std::string> groups, datasets, types;   // paths that were made once
};

struct Handle {
    Id id;
    std::size_t file = 0;
    bool writable = false;
};

struct HeldDataset {
    Id id;
    std::size_t file = 0;
    Element element = Element::kInt32;
    std::string path;
    bool writable = false;
};

class Program {
  public:
    Program(const ProgramOptions& options, Journal& journal);
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    // The number of identifiers that HDF5 could not close: if any, the library is in no state to go on.
    std::int64_t run();

    // For the operations.
    [[nodiscard]] Journal& journal() { return journal_; }
    [[nodiscard]] std::vector<FileState>& files() { return files_; }
    [[nodiscard]] std::vector<Handle>& handles() { return handles_; }
    [[nodiscard]] std::vector<HeldDataset>& held() { return held_; }
    [[nodiscard]] std::size_t elements_max(Element element) const { return owns_memory(element) ? 150 : elements_max_; }
    [[nodiscard]] bool heavy() const { return heavy_; }

    // An open file: mostly a writable one. Null when none is open.
    [[nodiscard]] Handle* some_handle(Random& random, bool writable = true);
    [[nodiscard]] FileState& file_of(const Handle& handle) { return files_[handle.file]; }
    // A dataset of an open file, by name or held open; null (and noted) when there is none or it does not open.
    [[nodiscard]] HeldDataset* some_dataset(Random& random, bool writable);
    // Gives a dataset back after use: closes it, or holds it open for later operations.
    void done_with(HeldDataset* dataset, Random& random);
    // A name for a new object in some group of the file. The element is part of the name.
    [[nodiscard]] std::string new_path(FileState& file, char kind, Element element, Random& random);
    [[nodiscard]] static Element element_of(const std::string& name);
    void forget(FileState& file, const std::string& path);
    // Closes everything open in the file, at once.
    void close_file(std::size_t file);
    void close_datasets(std::size_t file);
    // A copy under another name takes the objects with it.
    static void learn_copy(FileState& from, const std::string& source, FileState& to, const std::string& target);

    bool write(hid_t dataset, Element element, const struct Transfer& transfer, Random& random,
               hid_t list = H5P_DEFAULT);
    bool read(hid_t dataset, Element element, const struct Transfer& transfer, hid_t list = H5P_DEFAULT);
    // True once, in the operation that the fault was ordered for.
    [[nodiscard]] bool strikes(Fault fault);

  private:
    void run_operation(std::uint64_t index);
    std::int64_t finish();

    ProgramOptions options_;
    Journal& journal_;
    std::vector<FileState> files_;
    std::vector<Handle> handles_;
    std::vector<HeldDataset> held_;
    HeldDataset borrowed_;
    std::uint64_t operation_ = 0, names_ = 0;
    std::size_t elements_max_ = 0;
    bool heavy_ = false, struck_ = false;
};

struct Operation {
    const char* name;
    unsigned weight;
    void (*run)(Program&, Random&);
};
[[nodiscard]] std::vector<Operation> file_operations();
[[nodiscard]] std::vector<Operation> dataset_operations();
[[nodiscard]] std::vector<Operation> chunk_operations();
[[nodiscard]] std::vector<Operation> group_operations();
[[nodiscard]] std::vector<Operation> attribute_operations();

void create_file(Program& program, Random& random);
void open_file(Program& program, Random& random);

[[nodiscard]] Dims extent_of(hid_t dataset);

}   // namespace differential
