#include "group/statement.h"

#include <span>

#include "base/checksum.h"

namespace forebay::group {

namespace {

constexpr std::uint64_t kStatementMagic = 0x3145544154534246;   // "FBSTATE1" in memory
constexpr std::size_t kFixedWords = 9, kWordsPerLog = 2;
using Words = std::vector<std::uint64_t>;

std::size_t words_for(std::uint64_t logs) noexcept { return kFixedWords + kWordsPerLog * logs + 1; }

std::uint64_t place_bytes(std::uint64_t logs) noexcept {
    return (words_for(logs) * sizeof(std::uint64_t) + kStatementAlignment - 1) / kStatementAlignment *
           kStatementAlignment;
}

std::uint64_t checksum_of(const Words& words) noexcept {
    return checksum(std::as_bytes(std::span(words).first(words.size() - 1)));
}

}   // namespace

std::uint64_t statements_bytes(std::uint64_t logs) noexcept { return 2 * place_bytes(logs); }

Status write_statement(io::File& board, std::uint64_t begin, const Statement& statement) {
    Words words{kStatementMagic,
                statement.number,
                statement.certain ? std::uint64_t{1} : 0,
                statement.commit_sequence,
                statement.committed_size,
                statement.commit_time_ns,
                statement.frontier.raw,
                statement.frontier.metadata,
                statement.logs.size()};
    for (const Statement::Log& log : statement.logs) words.insert(words.end(), {log.needed_from, log.end});
    words.push_back(0);
    words.back() = checksum_of(words);
    return board.write_at(begin + statement.number % 2 * place_bytes(statement.logs.size()),
                          std::as_bytes(std::span(words)));
}

Result<std::optional<Statement>> read_last_statement(io::File& board, std::uint64_t begin, std::uint64_t logs) {
    std::optional<Statement> last;
    Words words(words_for(logs));
    for (std::uint64_t place = 0; place < 2; ++place) {
        const auto got = board.read_at(begin + place * place_bytes(logs), std::as_writable_bytes(std::span(words)));
        if (!got) return got.status();
        if (got.value() != words.size() * sizeof(std::uint64_t) || words[0] != kStatementMagic || words[8] != logs ||
            words.back() != checksum_of(words))
            continue;
        if (words[1] % 2 != place || (last && last->number >= words[1])) continue;
        last = Statement{words[1], words[2] == 1, words[3], words[4], words[5], {words[6], words[7]}, {}};
        for (std::uint64_t i = 0; i < logs; ++i)
            last->logs.push_back({words[kFixedWords + kWordsPerLog * i], words[kFixedWords + kWordsPerLog * i + 1]});
    }
    return last;
}

}   // namespace forebay::group
