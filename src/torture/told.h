// The reports of the writing process to `forebay torture`, on its standard output. It writes one letter for each event
// at once, so a killed process never reports more than it did. Pure, except for `tell`.
//   c  a commit has returned well
//   x  a commit has failed
//   f  a call has met the fault
//   w  a write or truncation has failed: the operation of this number, from 0; "w17;"
//   o  the file was closed well
//   e  its close has failed
//   g  bytes have reached the file before their commit (`guarantee_given_up`)
//   s  the checksum of the file's content: "s123;"
//   r  the open failed
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace forebay::torture {

struct Told {
    std::uint64_t commits = 0;        // commits that have returned, well or not
    std::uint64_t good_commits = 0;   // not a count: the number of the last good commit, from 1; 0: none
    std::uint64_t failures = 0;       // failed calls
    bool fault_met = false, given_up = false;
    std::optional<std::uint64_t> failed_operation{};   // the last operation, if it failed
    bool closed = false, closed_well = false, refused = false;
    std::vector<std::uint64_t> seen{};   // checksums of the file's content (base/checksum.h)
};
[[nodiscard]] Told understand(std::string_view output);

[[nodiscard]] bool tell(std::string_view what) noexcept;

}   // namespace forebay::torture
