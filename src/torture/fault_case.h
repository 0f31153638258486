// The faults that `forebay torture` injects (io/fault_file.h), and their outcomes (docs/consistency.md). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "io/fault_file.h"

namespace forebay::torture {

struct FaultKind {
    std::string_view name;   // "target-eio"
    io::Operation operation;
    int sys_errno;
    std::size_t bytes_done_first = 0;   // of a write that fails
    bool of_target = true;              // else of the staging area, after the open of the file
};
[[nodiscard]] const FaultKind* find_fault_kind(std::string_view name) noexcept;

struct FaultCase {
    const FaultKind* kind = nullptr;
    OnError on_error = OnError::kFail;
    Durability durability = Durability::kProcess;
    bool for_ever = false;   // every call from the Nth on fails; else only that one

    // Returns true if a flush, the close or the operation must report the fault, because no retry can hide it.
    [[nodiscard]] bool has_to_be_told() const noexcept;
    // Returns a text like "target-eio, for ever, on_error=fail".
    [[nodiscard]] std::string text() const;
    // Returns "name=value" settings for the process that writes.
    [[nodiscard]] std::vector<std::string> settings() const;
};

// Returns all faults of the target, or of the staging area, with each value of on_error, once and for ever. Any prefix
// is a mixture. on_error and durability have only the values in the user's `settings`, if given. If the staging area is
// not `durable`, it refuses durability=node, and no sync can fail.
[[nodiscard]] std::vector<FaultCase> fault_cases(bool of_target, bool durable, std::span<const std::string> settings);

}   // namespace forebay::torture
