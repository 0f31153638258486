// Statements on the board of a durable group: which parts of its logs are certain, and the last commit.
//
// docs/log-format.md, "Durable logs of several processes", is the specification. The drainer writes statements to two
// places in turns and syncs the board in between, so one of the two is always whole. Thread-safety: none; one writer.
// Pure but for `write_statement` and `read_last_statement`, which block on the file.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "log/frontier.h"

namespace forebay::group {

struct Statement {
    std::uint64_t number = 0;   // rising from 1
    bool certain = true;        // false: a sync has failed, so it holds for the death of the processes only
    std::uint64_t commit_sequence = 0, committed_size = 0,
                  commit_time_ns = 0;   // sequence 0: none yet, the size is that at open
    log::Frontier frontier{0, 0};
    struct Log {
        std::uint64_t needed_from = 0;   // segments of a lower order were given back
        std::uint64_t end =
            0;   // of what is certain: order × segment size + tail (log::log_position); 0: nothing is needed
    };
    std::vector<Log> logs;   // by member
};

// What two statements about so many logs take, from a multiple of kStatementAlignment on.
inline constexpr std::uint64_t kStatementAlignment = 512;
[[nodiscard]] std::uint64_t statements_bytes(std::uint64_t logs) noexcept;

// `begin`: where the two places are in the board. Does not sync.
[[nodiscard]] Status write_statement(io::File& board, std::uint64_t begin, const Statement& statement);
// Returns the last whole statement. Nullopt: there never was one, or both are damaged. Checks all that it reads; errors
// are those of reading.
[[nodiscard]] Result<std::optional<Statement>> read_last_statement(io::File& board, std::uint64_t begin,
                                                                   std::uint64_t logs);

}   // namespace forebay::group
