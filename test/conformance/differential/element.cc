#include "element.h"

#include <array>
#include <cstring>

#include "journal.h"

namespace differential {
namespace {

struct Compound {
    std::int32_t number;
    double real;
    char text[8];
};
struct CompoundOfArrays {
    std::int16_t grid[2][3];
    std::uint64_t stamp;
    std::int8_t flag;
};
struct CompoundWithString {
    std::int32_t number;
    char* text;
};
constexpr std::size_t kTextBytes = 12, kOpaqueBytes = 7;

Id compound_type(hid_t number, hid_t real) {
    Id text(H5Tcopy(H5T_C_S1));
    H5Tset_size(text.get(), sizeof(Compound::text));
    Id type(H5Tcreate(H5T_COMPOUND, sizeof(Compound)));
    H5Tinsert(type.get(), "number", HOFFSET(Compound, number), number);
    H5Tinsert(type.get(), "real", HOFFSET(Compound, real), real);
    H5Tinsert(type.get(), "text", HOFFSET(Compound, text), text.get());
    return type;
}

Id compound_of_arrays_type() {
    const std::array<hsize_t, 2> dims{2, 3};
    Id grid(H5Tarray_create2(H5T_NATIVE_INT16, 2, dims.data()));
    Id type(H5Tcreate(H5T_COMPOUND, sizeof(CompoundOfArrays)));
    H5Tinsert(type.get(), "grid", HOFFSET(CompoundOfArrays, grid), grid.get());
    H5Tinsert(type.get(), "stamp", HOFFSET(CompoundOfArrays, stamp), H5T_NATIVE_UINT64);
    H5Tinsert(type.get(), "flag", HOFFSET(CompoundOfArrays, flag), H5T_NATIVE_INT8);
    return type;
}

Id string_type(std::size_t size, H5T_cset_t characters) {
    Id type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type.get(), size);
    H5Tset_cset(type.get(), characters);
    return type;
}

Id compound_with_string_type() {
    const Id text = string_type(H5T_VARIABLE, H5T_CSET_ASCII);
    Id type(H5Tcreate(H5T_COMPOUND, sizeof(CompoundWithString)));
    H5Tinsert(type.get(), "number", HOFFSET(CompoundWithString, number), H5T_NATIVE_INT32);
    H5Tinsert(type.get(), "text", HOFFSET(CompoundWithString, text), text.get());
    return type;
}

Id enumeration_type() {
    Id type(H5Tenum_create(H5T_NATIVE_INT16));
    for (std::int16_t value = 0; value < 4; ++value) {
        const std::int16_t stored = static_cast<std::int16_t>(value * 100 - 50);
        H5Tenum_insert(type.get(), std::array{"low", "middle", "high", "none"}[static_cast<std::size_t>(value)],
                       &stored);
    }
    return type;
}

Id int12_type() {
    Id type(H5Tcopy(H5T_STD_I16LE));
    H5Tset_precision(type.get(), 12);
    return type;
}

Id vlen_type(hid_t base) { return Id(H5Tvlen_create(base)); }

// Kinds whose file type is their memory type too, after compaction.
Id shared_type(Element element) {
    const hsize_t three = 3;
    switch (element) {
        case Element::kEnumeration: return enumeration_type();
        case Element::kFixedString: return string_type(kTextBytes, H5T_CSET_ASCII);
        case Element::kOpaque: {
            Id type(H5Tcreate(H5T_OPAQUE, kOpaqueBytes));
            H5Tset_tag(type.get(), "seven bytes");
            return type;
        }
        case Element::kArray: return Id(H5Tarray_create2(H5T_NATIVE_INT16, 1, &three));
        case Element::kCompoundOfArrays: return compound_of_arrays_type();
        case Element::kBitfield: return Id(H5Tcopy(H5T_STD_B16LE));
        case Element::kOldReference: return Id(H5Tcopy(H5T_STD_REF_OBJ));
        case Element::kVlenSequence: return vlen_type(H5T_NATIVE_INT32);
        case Element::kVlenString: return string_type(H5T_VARIABLE, H5T_CSET_ASCII);
        case Element::kVlenStringUtf8: return string_type(H5T_VARIABLE, H5T_CSET_UTF8);
        case Element::kCompoundWithString: return compound_with_string_type();
        case Element::kVlenOfVlen: return vlen_type(vlen_type(H5T_NATIVE_INT32).get());
        case Element::kReference: return Id(H5Tcopy(H5T_STD_REF));
        default: return Id();
    }
}

std::uint64_t digest_sequence(const hvl_t& sequence) {
    if (sequence.p == nullptr) return combine(17, sequence.len);
    return digest_bytes({static_cast<const std::byte*>(sequence.p), sequence.len * sizeof(std::int32_t)});
}

std::uint64_t digest_text(const char* text) {
    return text == nullptr ? 23 : digest_bytes(std::as_bytes(std::span(text, std::strlen(text))));
}

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

template <class T>
void store(std::byte* at, const T& value) {
    std::memcpy(at, &value, sizeof value);
}

std::uint64_t digest_reference(const std::byte* at) {
    auto reference = load<H5R_ref_t>(at);
    const std::vector<std::byte> empty(sizeof reference);
    if (std::memcmp(at, empty.data(), empty.size()) == 0) return 31;
    std::array<char, 200> name{};
    const auto kind = H5Rget_type(&reference);
    const auto length = H5Rget_obj_name(&reference, H5P_DEFAULT, name.data(), name.size());
    return combine(combine(static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(length)),
                   digest_text(name.data()));
}

std::uint64_t digest_owner(Element element, const std::byte* at) {
    switch (element) {
        case Element::kVlenSequence: return digest_sequence(load<hvl_t>(at));
        case Element::kVlenString:
        case Element::kVlenStringUtf8: return digest_text(load<char*>(at));
        case Element::kCompoundWithString: {
            const auto value = load<CompoundWithString>(at);
            return combine(digest_text(value.text), static_cast<std::uint64_t>(value.number));
        }
        case Element::kVlenOfVlen: {
            const auto outer = load<hvl_t>(at);
            std::uint64_t digest = outer.len;
            for (std::size_t i = 0; i < outer.len; ++i)
                digest = combine(digest, digest_sequence(static_cast<const hvl_t*>(outer.p)[i]));
            return digest;
        }
        default: return digest_reference(at);
    }
}

}   // namespace

const char* element_name(Element element) {
    static constexpr std::array names{
        "int8",        "int16be",   "int32",           "int32be",         "int64",    "uint16",        "uint32be",
        "float16",     "float32",   "float32be",       "float64",         "int12",    "enum",          "string12",
        "opaque7",     "int16[3]",  "compound",        "compound-arrays", "bitfield", "old-reference", "vlen",
        "vlen-string", "vlen-utf8", "compound-string", "vlen-vlen",       "reference"};
    static_assert(names.size() == static_cast<std::size_t>(Element::kCount));
    return names[static_cast<std::size_t>(element)];
}

Element random_element(Random& random) {
    if (random.chance(60))
        return static_cast<Element>(random.below(static_cast<std::uint64_t>(Element::kInt12Bits) + 1));
    return static_cast<Element>(random.below(static_cast<std::uint64_t>(Element::kCount)));
}

Id file_type(Element element) {
    switch (element) {
        case Element::kInt8: return Id(H5Tcopy(H5T_STD_I8LE));
        case Element::kInt16Big: return Id(H5Tcopy(H5T_STD_I16BE));
        case Element::kInt32: return Id(H5Tcopy(H5T_STD_I32LE));
        case Element::kInt32Big: return Id(H5Tcopy(H5T_STD_I32BE));
        case Element::kInt64: return Id(H5Tcopy(H5T_STD_I64LE));
        case Element::kUnsigned16: return Id(H5Tcopy(H5T_STD_U16LE));
        case Element::kUnsigned32Big: return Id(H5Tcopy(H5T_STD_U32BE));
        case Element::kFloat16: return Id(H5Tcopy(H5T_IEEE_F16LE));
        case Element::kFloat32: return Id(H5Tcopy(H5T_IEEE_F32LE));
        case Element::kFloat32Big: return Id(H5Tcopy(H5T_IEEE_F32BE));
        case Element::kFloat64: return Id(H5Tcopy(H5T_IEEE_F64LE));
        case Element::kInt12Bits: return int12_type();
        case Element::kCompound: {
            Id type = compound_type(H5T_STD_I32BE, H5T_IEEE_F32LE);
            H5Tpack(type.get());
            return type;
        }
        case Element::kCompoundOfArrays: {
            Id type = compound_of_arrays_type();
            H5Tpack(type.get());
            return type;
        }
        default: return shared_type(element);
    }
}

Id memory_type(Element element) {
    switch (element) {
        case Element::kInt8: return Id(H5Tcopy(H5T_NATIVE_INT8));
        case Element::kInt16Big:
        case Element::kInt12Bits: return Id(H5Tcopy(H5T_NATIVE_INT16));
        case Element::kInt32:
        case Element::kInt32Big: return Id(H5Tcopy(H5T_NATIVE_INT32));
        case Element::kInt64: return Id(H5Tcopy(H5T_NATIVE_INT64));
        case Element::kUnsigned16: return Id(H5Tcopy(H5T_NATIVE_UINT16));
        case Element::kUnsigned32Big: return Id(H5Tcopy(H5T_NATIVE_UINT32));
        case Element::kFloat16:
        case Element::kFloat32:
        case Element::kFloat32Big: return Id(H5Tcopy(H5T_NATIVE_FLOAT));
        case Element::kFloat64: return Id(H5Tcopy(H5T_NATIVE_DOUBLE));
        case Element::kCompound: return compound_type(H5T_NATIVE_INT32, H5T_NATIVE_DOUBLE);
        default: return shared_type(element);
    }
}

std::size_t memory_bytes(Element element) {
    switch (element) {
        case Element::kInt8: return 1;
        case Element::kInt16Big:
        case Element::kInt12Bits:
        case Element::kUnsigned16:
        case Element::kEnumeration:
        case Element::kBitfield: return 2;
        case Element::kInt64:
        case Element::kFloat64: return 8;
        case Element::kFixedString: return kTextBytes;
        case Element::kOpaque: return kOpaqueBytes;
        case Element::kArray: return 6;
        case Element::kCompound: return sizeof(Compound);
        case Element::kCompoundOfArrays: return sizeof(CompoundOfArrays);
        case Element::kOldReference: return sizeof(hobj_ref_t);
        case Element::kVlenSequence:
        case Element::kVlenOfVlen: return sizeof(hvl_t);
        case Element::kVlenString:
        case Element::kVlenStringUtf8: return sizeof(char*);
        case Element::kCompoundWithString: return sizeof(CompoundWithString);
        case Element::kReference: return sizeof(H5R_ref_t);
        default: return 4;
    }
}

Values::Values(Element element, std::size_t count, Random& random, hid_t location,
               const std::vector<std::string>& paths)
    : element_(element), bytes_(count * memory_bytes(element)) {
    const std::size_t size = memory_bytes(element);
    for (std::size_t i = 0; i < count; ++i) fill_one(bytes_.data() + i * size, random, location, paths);
}

Values::~Values() {
    if (element_ != Element::kReference) return;
    for (std::size_t at = 0; at + sizeof(H5R_ref_t) <= bytes_.size(); at += sizeof(H5R_ref_t)) {
        auto reference = load<H5R_ref_t>(bytes_.data() + at);
        const H5R_ref_t empty{};
        if (std::memcmp(&reference, &empty, sizeof empty) != 0) H5Rdestroy(&reference);
    }
}

void Values::fill_number(std::byte* at, Random& random) const {
    const auto value = static_cast<std::int64_t>(random.next() >> (random.chance(80) ? 53 : 34));
    switch (element_) {
        case Element::kInt8: return store(at, static_cast<std::int8_t>(value));
        case Element::kInt16Big:
        case Element::kUnsigned16: return store(at, static_cast<std::int16_t>(value));
        case Element::kInt12Bits: return store(at, static_cast<std::int16_t>(value & 0x7FF));
        case Element::kInt64: return store(at, value);
        case Element::kFloat16: return store(at, static_cast<float>(value % 2048));
        case Element::kFloat32:
        case Element::kFloat32Big: return store(at, static_cast<float>(value) / 8);
        case Element::kFloat64: return store(at, static_cast<double>(value) / 16);
        default: return store(at, static_cast<std::int32_t>(value));
    }
}

char* Values::random_text(Random& random, std::size_t length_max) {
    auto& text = owned_.emplace_back(random.skewed(0, length_max) + 1);
    for (auto& letter : text) letter = static_cast<std::byte>('a' + random.below(26));
    text.back() = std::byte{0};
    return reinterpret_cast<char*>(text.data());
}

hvl_t Values::random_sequence(Random& random) {
    const std::size_t length = random.skewed(0, 40);
    if (length == 0) return {0, nullptr};
    auto& numbers = owned_.emplace_back(length * sizeof(std::int32_t));
    for (auto& byte : numbers) byte = static_cast<std::byte>(random.next());
    return {length, numbers.data()};
}

void Values::fill_one(std::byte* at, Random& random, hid_t location, const std::vector<std::string>& paths) {
    if (is_number(element_)) return fill_number(at, random);
    switch (element_) {
        case Element::kEnumeration:
            return store(at, static_cast<std::int16_t>(static_cast<std::int64_t>(random.below(4)) * 100 - 50));
        case Element::kVlenSequence: return store(at, random_sequence(random));
        case Element::kVlenString:
        case Element::kVlenStringUtf8: return store(at, random_text(random, 100));
        case Element::kCompoundWithString: {
            CompoundWithString value{};
            value.number = static_cast<std::int32_t>(random.next());
            value.text = random_text(random, 30);
            return store(at, value);
        }
        case Element::kVlenOfVlen: {
            const std::size_t length = random.below(4);
            auto& inner = owned_.emplace_back(length * sizeof(hvl_t));
            for (std::size_t i = 0; i < length; ++i) store(inner.data() + i * sizeof(hvl_t), random_sequence(random));
            return store(at, hvl_t{length, length == 0 ? nullptr : inner.data()});
        }
        case Element::kOldReference: {
            hobj_ref_t reference = 0;
            if (!paths.empty() && H5Rcreate(&reference, location, random.pick(paths).c_str(), H5R_OBJECT, -1) < 0)
                reference = 0;
            return store(at, reference);
        }
        case Element::kReference: {
            H5R_ref_t reference{};
            if (!paths.empty() && H5Rcreate_object(location, random.pick(paths).c_str(), H5P_DEFAULT, &reference) < 0)
                reference = {};
            return store(at, reference);
        }
        case Element::kCompound: {
            Compound value{};
            value.number = static_cast<std::int32_t>(random.next());
            value.real = static_cast<double>(random.below(4096)) / 4;
            std::memcpy(value.text, "compound", sizeof value.text);
            value.text[random.below(8)] = '\0';
            std::memset(at, 0, sizeof value);
            return store(at, value);
        }
        default:
            for (std::size_t i = 0; i < memory_bytes(element_); ++i) at[i] = static_cast<std::byte>(random.next());
    }
}

ReadBuffer::ReadBuffer(Element element, std::size_t count)
    : element_(element),
      count_(count),
      bytes_(count * memory_bytes(element), owns_memory(element) ? std::byte{0} : std::byte{0xA5}) {}

ReadBuffer::~ReadBuffer() {
    if (!filled_ || !owns_memory(element_) || count_ == 0) return;
    const hsize_t count = count_;
    const Id space(H5Screate_simple(1, &count, nullptr)), type = memory_type(element_);
    H5Treclaim(type.get(), space.get(), H5P_DEFAULT, bytes_.data());
}

std::uint64_t ReadBuffer::digest() {
    filled_ = true;
    const std::size_t size = memory_bytes(element_);
    std::uint64_t digest = count_;
    if (owns_memory(element_)) {
        for (std::size_t i = 0; i < count_; ++i)
            digest = combine(digest, digest_owner(element_, bytes_.data() + i * size));
        return digest;
    }
    if (element_ != Element::kCompound && element_ != Element::kCompoundOfArrays) return digest_bytes(bytes_);
    for (std::size_t i = 0; i < count_; ++i) {   // padding is nobody's
        if (element_ == Element::kCompound) {
            const auto value = load<Compound>(bytes_.data() + i * size);
            digest = digest_bytes(std::as_bytes(std::span(value.text)),
                                  combine(digest, static_cast<std::uint64_t>(value.number)));
            digest = digest_bytes(std::as_bytes(std::span(&value.real, 1)), digest);
        } else {
            const auto value = load<CompoundOfArrays>(bytes_.data() + i * size);
            digest = digest_bytes(std::as_bytes(std::span(&value.grid, 1)), combine(digest, value.stamp));
            digest = combine(digest, static_cast<std::uint64_t>(value.flag));
        }
    }
    return digest;
}

}   // namespace differential
