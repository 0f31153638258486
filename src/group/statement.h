// Statements on the board of a durable group: the parts of its logs that are on the device, and the last commit.
// docs/log-format.md, "Durable logs of several processes", is the specification. The drainer writes statements to two
// places in turns and syncs the board in between, so one of the two is always complete. Not thread-safe; there is one
// writer. Only `write_statement` and `read_last_statement` do I/O; they block on the file.
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
    bool certain = true;        // false: a sync failed, so it holds after process death only
    std::uint64_t commit_sequence = 0, committed_size = 0,
                  commit_time_ns = 0;   // sequence 0: no commit yet, and the size is the one at open
    log::Frontier frontier{0, 0};
    struct Log {
        std::uint64_t needed_from = 0;   // segments of a lower order were released
        std::uint64_t end =
            0;   // of the durable part: order × segment size + tail (log::log_position); 0: none is needed
    };
    std::vector<Log> logs;   // by participant
};

// The bytes of two statements about `logs` logs. They begin at a multiple of kStatementAlignment.
inline constexpr std::uint64_t kStatementAlignment = 512;
[[nodiscard]] std::uint64_t statements_bytes(std::uint64_t logs) noexcept;

// Writes the statement. `begin` is the offset of the two places in the board. Does not sync.
[[nodiscard]] Status write_statement(io::File& board, std::uint64_t begin, const Statement& statement);
// Returns the last complete statement, or nullopt if none, or both damaged. Checks all it reads. Errors: of reading.
[[nodiscard]] Result<std::optional<Statement>> read_last_statement(io::File& board, std::uint64_t begin,
                                                                   std::uint64_t logs);

}   // namespace forebay::group
