// The faults that `forebay torture` injects at the seam to the operating system (io/fault_file.h), and what each of
// them has to come to (docs/consistency.md). Pure.
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
    std::size_t bytes_done_first = 0;   // of a write
    bool of_target = true;              // else of the staging area, once the file is open
};
// Null: there is none of that name.
[[nodiscard]] const FaultKind* find_fault_kind(std::string_view name) noexcept;

struct FaultCase {
    const FaultKind* kind = nullptr;
    OnError on_error = OnError::kFail;
    Durability durability = Durability::kProcess;
    bool for_ever = false;   // every call from the Nth on; else that one alone

    // A flush, the close or the operation itself has to tell of it: what happened cannot pass by being tried again.
    [[nodiscard]] bool has_to_be_told() const noexcept;
    // "target-eio, for ever, on_error=fail"
    [[nodiscard]] std::string text() const;
    // "name=value", for the process that writes.
    [[nodiscard]] std::vector<std::string> settings() const;
};

// All faults of the target, or of the staging area, with each value of on_error, once and for ever, in an order in
// which a part of them is a mixture. `settings` are given by the user: on_error and durability, if they are among them,
// have that value alone. Unless the staging area is `durable`, durability=node is refused there, and no sync is made
// that could fail.
[[nodiscard]] std::vector<FaultCase> fault_cases(bool of_target, bool durable, std::span<const std::string> settings);

}   // namespace forebay::torture
