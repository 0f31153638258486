// What the process that writes tells `forebay torture`, on its standard output: one letter for each thing that
// happened, written at once, so that what is known of a killed process is never more than what it did. Pure but for
// `tell`.
//
//   c  a commit has returned well       x  a commit has failed
//   f  the fault has been met           w  a write or truncation has failed: the operation of this number, from 0;
//   "w17;" o  the file was closed well         e  its close has failed g  bytes have reached the file before their
//   commit (`guarantee_given_up`)
//   s  the checksum of all that the file holds: "s123;"    r  it could not be opened
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace forebay::torture {

struct Told {
    std::uint64_t commits = 0;        // that have returned, well or not
    std::uint64_t good_commits = 0;   // the number of the last one that returned well; 0: none has
    std::uint64_t failures = 0;       // of any call
    bool fault_met = false, given_up = false;
    std::optional<std::uint64_t> failed_operation{};   // it was the last one
    bool closed = false, closed_well = false, refused = false;
    std::vector<std::uint64_t> seen{};   // checksums of what the file held (base/checksum.h)
};
[[nodiscard]] Told understand(std::string_view output);

// False: nobody reads any more.
[[nodiscard]] bool tell(std::string_view what) noexcept;

}   // namespace forebay::torture
