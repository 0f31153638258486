// A staging area as bytes of the fuzzer's, and the other way round.
//
//   input  = flags (1), then any number of
//            0, pid (2), start (2)                         a process directory, to which what follows belongs
//            1, file (1), offset (4), length (2), bytes    something in one of its files
//
// All little-endian. A file is 0 `log`, 1 `ledger`, 2 to 4 `board-<n-1>`, 5 `undo-1`; what no piece covers is zeros.
// The flags repair the checksums of logs and journals after that, as far as their records can be walked: otherwise
// hardly any change of the fuzzer's would come further than the first of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/file.h"
#include "log/format.h"

namespace forebay::fuzz {

inline constexpr std::uint8_t kRepair = 1, kOtherBoot = 2, kAlthoughChanged = 4, kUnasked = 8, kTwice = 16,
                              kKilled = 32;

struct HostileArea {
    std::uint8_t flags = 0;
    std::unique_ptr<io::Directory> area;
    area::BootId boot_id{};   // that of the first log or journal
};
[[nodiscard]] HostileArea decode(std::span<const std::uint8_t> input);

[[nodiscard]] std::vector<std::uint8_t> encode(std::uint8_t flags, io::Directory& area);

}   // namespace forebay::fuzz
