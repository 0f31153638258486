// What a program saw: one line per operation with every call's outcome and a digest of every read.
//
// Two runs of the same program agree when their journals are equal. Every line goes to the file before
// the operation's first call ("> 17 write ...") and is completed after its last one, so that the journal
// of a process which died names the operation that it died in.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace differential {

[[nodiscard]] std::uint64_t digest_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
[[nodiscard]] std::uint64_t combine(std::uint64_t digest, std::uint64_t value);

class Journal {
  public:
    // `print_errors` shows HDF5's whole error stack of every failed call on stderr.
    explicit Journal(const std::string& path, bool print_errors = false);
    ~Journal();
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    void begin_case(std::uint64_t seed);
    void end_case();
    void begin_operation(std::uint64_t index, std::string_view name);
    void end_operation();

    // What the operation is about to do: names, selections, types.
    void note(std::string_view text);
    void note(std::string_view name, std::int64_t value);
    // The outcome of an HDF5 call. A failure is recorded with the class of the innermost error, and
    // the system's errno if HDF5 names it: programs and language bindings tell errors apart by these.
    template <class T>
    bool call(std::string_view name, T result) {
        record(name, result >= 0);
        return result >= 0;
    }
    // What a call gave back.
    void value(std::string_view name, std::int64_t value);
    void digest(std::string_view name, std::uint64_t value);
    void digest(std::string_view name, std::span<const std::byte> bytes) { digest(name, digest_bytes(bytes)); }

    [[nodiscard]] std::uint64_t failures() const { return failures_; }
    [[nodiscard]] std::uint64_t calls() const { return calls_; }

  private:
    void record(std::string_view name, bool succeeded);
    void flush();

    int descriptor_;
    bool print_errors_;
    std::string line_;
    std::uint64_t calls_ = 0, failures_ = 0;
};

}   // namespace differential
