// What a parallel program has written, kept in memory beside the file: plain arrays, the same on every rank.
//
// Values are 64-bit integers that the element type of the dataset can hold exactly. An element whose content HDF5 does
// not define (storage without a fill value) is unknown until it has been written.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../differential/identifier.h"
#include "../differential/random.h"
#include "../differential/selection.h"

namespace oracle {

using differential::Dims;
using differential::Id;
using differential::Random;

enum class Number : std::uint8_t {
    kInt8,
    kInt16Big,
    kInt32,
    kInt64,
    kUnsigned16,
    kUnsigned32Big,
    kFloat32,
    kFloat64,
    kCount
};
[[nodiscard]] const char* number_name(Number number);
// Its type in the file; HDF5's own, not to be closed.
[[nodiscard]] hid_t file_type(Number number);
[[nodiscard]] std::size_t size_of(Number number);
// Any 64 bits as a value of this type.
[[nodiscard]] std::int64_t fitted(Number number, std::uint64_t bits);

enum class Layout : std::uint8_t { kContiguous, kChunked, kFiltered, kCompact };

// An array of known and unknown elements, in C order.
class Content {
  public:
    [[nodiscard]] const Dims& dims() const { return dims_; }
    [[nodiscard]] std::size_t size() const { return values_.size(); }
    [[nodiscard]] std::int64_t value(std::size_t at) const { return values_[at]; }
    [[nodiscard]] bool known(std::size_t at) const { return known_[at] != 0; }
    [[nodiscard]] const std::vector<std::int64_t>& values() const { return values_; }
    [[nodiscard]] const std::vector<std::uint8_t>& known() const { return known_; }
    void set(std::size_t at, std::int64_t value) {
        values_[at] = value;
        known_[at] = 1;
    }
    // What lies in both extents stays; the rest gets `fill`, or is unknown.
    void resize(const Dims& dims, std::optional<std::int64_t> fill);

  private:
    Dims dims_;
    std::vector<std::int64_t> values_;
    std::vector<std::uint8_t> known_;
};

struct Dataset {
    std::string path;
    Number number = Number::kInt32;
    Layout layout = Layout::kContiguous;
    Dims chunk, limit;                  // chunk: empty unless chunked
    std::optional<std::int64_t> fill;   // of elements that nobody has written; nothing: HDF5 does not say
    Content content;
    std::map<std::string, std::vector<std::int32_t>> attributes;
    Id held;                              // open between operations, or not
    bool read = false, written = false;   // by any rank, since all last met

    [[nodiscard]] bool chunked() const { return layout == Layout::kChunked || layout == Layout::kFiltered; }
    [[nodiscard]] bool filtered() const { return layout == Layout::kFiltered; }
};

// The selected elements of a dataspace as positions in C order, in the order of a transfer.
[[nodiscard]] std::vector<std::size_t> positions(hid_t space);
// Elements of the box [start, start + count) of `dims`: a block, a comb or points.
[[nodiscard]] Id random_selection(const Dims& dims, const Dims& start, const Dims& count, Random& random);

// Writes what is to be found in a file, for a reader that knows nothing of this program: see parallel_oracle.py.
struct Expected {
    std::string file;
    const std::vector<Dataset>* datasets = nullptr;
    const std::vector<std::string>* groups = nullptr;
};
[[nodiscard]] bool write_expected(const std::string& path, const std::vector<Expected>& files);

}   // namespace oracle
