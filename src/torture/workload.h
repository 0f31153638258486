// The workload of the process that `forebay torture` kills: endless operations on one file that follow from a seed, and
// the file's content after each commit. Writes overlap, also across the end of the file; truncations shorten and
// lengthen it. The bytes between two commits are far fewer than the staging area holds (`connector_string`), so it
// never gives up a guarantee for lack of room. Pure, except for `perform`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "stage/staged_file.h"

namespace forebay::torture {

struct Operation {
    enum class Kind : std::uint8_t { kWrite, kTruncate, kCommit };
    Kind kind = Kind::kCommit;
    std::uint64_t offset = 0;   // of a write
    std::uint64_t size = 0;     // of a write, or the new size of the file
    bool metadata = false;
    std::uint64_t content = 0;   // argument of `fill`
};

class Dice {
  public:
    explicit Dice(std::uint64_t seed) noexcept : state_(seed) {}
    [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept;
    [[nodiscard]] bool one_in(std::uint64_t so_many) noexcept { return below(so_many) == 0; }

  private:
    std::uint64_t state_;
};

class Workload {
  public:
    explicit Workload(std::uint64_t seed) noexcept;
    [[nodiscard]] Operation next() noexcept;

    // Engine options, "name=value". The size of the log and the number of drain threads differ between seeds.
    [[nodiscard]] static std::vector<std::string> settings(std::uint64_t seed);
    [[nodiscard]] static std::string connector_string(std::uint64_t seed, const std::string& nls);
    [[nodiscard]] static std::vector<std::byte> initial(std::uint64_t seed);

  private:
    [[nodiscard]] std::uint64_t random() noexcept;
    [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept { return random() % bound; }
    std::uint64_t state_;
    std::uint64_t until_commit_;
    std::uint64_t epoch_bytes_ = 0;
};

// Fills bytes that identify their write and their place in it.
void fill(std::span<std::byte> bytes, std::uint64_t content) noexcept;

// Applies the operation to the content of a file. A commit changes no byte.
void apply_operation(const Operation& operation, std::vector<std::byte>& bytes);

class Oracle {
  public:
    explicit Oracle(std::uint64_t seed) : Oracle(Workload::initial(seed), seed) {}
    Oracle(std::vector<std::byte> base, std::uint64_t seed) : workload_(seed), bytes_(std::move(base)) {}
    // The content after `commits` commits. The number must not decrease between calls.
    [[nodiscard]] const std::vector<std::byte>& after(std::uint64_t commits);

  private:
    Workload workload_;
    std::vector<std::byte> bytes_;
    std::uint64_t commits_ = 0;
};

// Carries out one operation on a stage::StagedFile or stage::ForwardedWriting. `buffer` is scratch space.
template <class File>
[[nodiscard]] Status perform(File& file, const Operation& operation, std::vector<std::byte>& buffer) {
    switch (operation.kind) {
        case Operation::Kind::kCommit: return file.commit();
        case Operation::Kind::kTruncate: return file.truncate(operation.size);
        case Operation::Kind::kWrite: break;
    }
    buffer.resize(operation.size);
    fill(buffer, operation.content);
    const typename File::Part part{operation.offset, buffer};
    return file.write({&part, 1}, operation.metadata ? stage::ByteClass::kMetadata : stage::ByteClass::kRaw);
}

}   // namespace forebay::torture
