// What the process does that `forebay torture` kills: operations on one file that follow from a seed, and what the file
// holds after each commit of them.
//
// The stream of operations has no end. Writes overlap, also across the end of the file; truncations shorten and
// lengthen. What is written between two commits is far less than the staging area of the process takes
// (`connector_string`), so that no guarantee is given up for want of room. Pure but for `perform`.
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
    std::uint64_t size = 0;     // of a write, or of the file
    bool metadata = false;
    std::uint64_t content = 0;   // for `fill`
};

// Numbers that follow from a seed.
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

    // Options of the engine, "name=value": the size of the log and the drain differ from seed to seed.
    [[nodiscard]] static std::vector<std::string> settings(std::uint64_t seed);
    [[nodiscard]] static std::string connector_string(std::uint64_t seed, const std::string& nls);
    // What the file holds before it is opened.
    [[nodiscard]] static std::vector<std::byte> initial(std::uint64_t seed);

  private:
    [[nodiscard]] std::uint64_t random() noexcept;
    [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept { return random() % bound; }
    std::uint64_t state_;
    std::uint64_t until_commit_;
    std::uint64_t epoch_bytes_ = 0;
};

// Bytes that tell which write they come from, and which place in it.
void fill(std::span<std::byte> bytes, std::uint64_t content) noexcept;

// What the operation makes of a file that holds `bytes`; a commit changes nothing.
void apply_operation(const Operation& operation, std::vector<std::byte>& bytes);

// The file at one commit after the other.
class Oracle {
  public:
    explicit Oracle(std::uint64_t seed) : Oracle(Workload::initial(seed), seed) {}
    Oracle(std::vector<std::byte> base, std::uint64_t seed) : workload_(seed), bytes_(std::move(base)) {}
    // As it is after so many commits; never fewer than asked for before.
    [[nodiscard]] const std::vector<std::byte>& after(std::uint64_t commits);

  private:
    Workload workload_;
    std::vector<std::byte> bytes_;
    std::uint64_t commits_ = 0;
};

// Carries one operation out. `buffer` is scratch space.
[[nodiscard]] Status perform(stage::StagedFile& file, const Operation& operation, std::vector<std::byte>& buffer);

}   // namespace forebay::torture
