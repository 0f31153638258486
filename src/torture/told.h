// What the process that writes tells `forebay torture`, on its standard output: one letter for each thing that
// happened, written at once, so that what is known of a killed process is never more than what it did. Pure but for
// `tell`.
//
//   c  a commit has returned well       x  a commit has failed
//   f  the fault has been met           w  a write or truncation has failed: the operation of this number, from 0;
//   "w17;" o  the file was closed well         e  its close has failed g  bytes have reached the file before their
//   commit (`guarantee_given_up`)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace forebay::torture {

struct Told {
    std::uint64_t commits = 0;        // that have returned, well or not
    std::uint64_t good_commits = 0;   // the number of the last one that returned well; 0: none has
    std::uint64_t failures = 0;       // of any call
    bool fault_met = false, given_up = false;
    std::optional<std::uint64_t> failed_operation{};   // it was the last one
    bool closed = false, closed_well = false;
};
[[nodiscard]] Told understand(std::string_view output) noexcept;

// False: nobody reads any more.
[[nodiscard]] bool tell(std::string_view what) noexcept;

}   // namespace forebay::torture
