// The element kinds of the generated datasets and attributes: their types in the file and in memory,
// random values, and digests of what was read.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "identifier.h"
#include "random.h"

namespace differential {

enum class Element : std::uint8_t {
    // numbers, which convert into one another
    kInt8,
    kInt16Big,
    kInt32,
    kInt32Big,
    kInt64,
    kUnsigned16,
    kUnsigned32Big,
    kFloat16,
    kFloat32,
    kFloat32Big,
    kFloat64,
    kInt12Bits,
    // fixed size
    kEnumeration,
    kFixedString,
    kOpaque,
    kArray,
    kCompound,
    kCompoundOfArrays,
    kBitfield,
    kOldReference,
    // values which own memory, and live in the file's heaps
    kVlenSequence,
    kVlenString,
    kVlenStringUtf8,
    kCompoundWithString,
    kVlenOfVlen,
    kReference,
    kCount,
};

[[nodiscard]] constexpr bool is_number(Element element) { return element <= Element::kInt12Bits; }
[[nodiscard]] constexpr bool owns_memory(Element element) { return element >= Element::kVlenSequence; }
[[nodiscard]] const char* element_name(Element element);
[[nodiscard]] Element random_element(Random& random);

[[nodiscard]] Id file_type(Element element);
[[nodiscard]] Id memory_type(Element element);
[[nodiscard]] std::size_t memory_bytes(Element element);

// Values for one write. Owns what variable-length values point to.
class Values {
  public:
    // `location` and `paths` are what references may point at.
    Values(Element element, std::size_t count, Random& random, hid_t location, const std::vector<std::string>& paths);
    ~Values();
    Values(const Values&) = delete;
    Values& operator=(const Values&) = delete;

    [[nodiscard]] const void* data() const { return bytes_.data(); }
    [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }

  private:
    void fill_one(std::byte* at, Random& random, hid_t location, const std::vector<std::string>& paths);
    void fill_number(std::byte* at, Random& random) const;
    char* random_text(Random& random, std::size_t length_max);
    hvl_t random_sequence(Random& random);

    Element element_;
    std::vector<std::byte> bytes_;
    std::list<std::vector<std::byte>> owned_;
};

// Room for one read: a known pattern before it, so that elements which the read leaves alone count too.
class ReadBuffer {
  public:
    ReadBuffer(Element element, std::size_t count);
    ~ReadBuffer();
    ReadBuffer(const ReadBuffer&) = delete;
    ReadBuffer& operator=(const ReadBuffer&) = delete;

    [[nodiscard]] void* data() { return bytes_.data(); }
    // After a read that succeeded; only then is there anything to give back to HDF5.
    [[nodiscard]] std::uint64_t digest();

  private:
    Element element_;
    std::size_t count_;
    bool filled_ = false;
    std::vector<std::byte> bytes_;
};

}   // namespace differential
