#include "group/board_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/numbered_name.h"

namespace forebay::group {

namespace {

constexpr std::string_view kBoardPrefix = "board-";
constexpr std::uint64_t kParticipantsMax = std::uint64_t{1} << 20;

template <class T>
Status read_at(io::File& file, std::uint64_t offset, T& into) {
    const auto got = file.read_at(offset, std::as_writable_bytes(std::span(&into, 1)));
    if (!got) return got.status();
    if (got.value() != sizeof into) return {Code::kCorrupt, file.name() + ": too short for a board"};
    return Status::ok();
}

}   // namespace

std::uint64_t statements_begin(std::uint64_t participants) noexcept {
    const std::uint64_t rows_end = sizeof(BoardHeader) + participants * sizeof(BoardRow);
    return (rows_end + kStatementAlignment - 1) / kStatementAlignment * kStatementAlignment;
}

std::uint64_t rings_begin(std::uint64_t participants) noexcept {
    return statements_begin(participants) + statements_bytes(participants);
}

std::uint64_t board_bytes(std::uint64_t participants, std::uint64_t ring) noexcept {
    return rings_begin(participants) + participants * ring * sizeof(std::atomic<std::uint64_t>);
}

std::string board_name(std::uint64_t log) { return fmt::format("{}{}", kBoardPrefix, log); }

std::optional<std::uint64_t> log_of_board(std::string_view name) noexcept { return number_in_name(name, kBoardPrefix); }

Result<BoardView> read_board(io::File& file) {
    const auto bytes = file.size();
    if (!bytes) return bytes.status();
    std::uint64_t magic = 0, version = 0, participants = 0;
    if (bytes.value() < sizeof(BoardHeader)) return Status(Code::kNotFound, file.name() + ": an unfinished board");
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, magic), magic));
    if (magic == 0) return Status(Code::kNotFound, file.name() + ": an unfinished board");
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, version), version));
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, participants), participants));
    if (magic != kBoardMagic) return Status(Code::kCorrupt, file.name() + ": no board");
    if (version != kBoardVersion)
        return Status(Code::kUnsupported,
                      fmt::format("{}: a board of version {}, not {}", file.name(), version, kBoardVersion));
    if (participants == 0 || participants > kParticipantsMax ||
        sizeof(BoardHeader) + participants * sizeof(BoardRow) > bytes.value())
        return Status(Code::kCorrupt, file.name() + ": too short for its participants");

    BoardView view;
    area::BootId boot_id{};
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, group), view.group));
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, team), view.team));
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, nodes), view.nodes));
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, boot_id), boot_id));
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, dead_raw), view.frontier.raw));
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, dead_metadata), view.frontier.metadata));
    std::uint64_t appended = 0, followed = 0;   // in this order, so that the result is never too low
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, arrivals.followed), followed));
    FOREBAY_TRY(read_at(file, offsetof(BoardHeader, arrivals.appended), appended));
    view.unfollowed_bytes = appended - std::min(followed, appended);
    auto statement = read_last_statement(file, statements_begin(participants), participants);
    if (!statement) return statement.status();
    view.statement = std::move(statement).value();
    for (std::uint64_t i = 0; i < participants; ++i) {
        const std::uint64_t row = sizeof(BoardHeader) + i * sizeof(BoardRow);
        area::ProcessIdentity process{0, 0, boot_id};
        FOREBAY_TRY(read_at(file, row + offsetof(BoardRow, pid), process.pid));
        FOREBAY_TRY(read_at(file, row + offsetof(BoardRow, start_ticks), process.start_ticks));
        std::uint64_t adopted = 0, released = 0;
        FOREBAY_TRY(read_at(file, row + offsetof(BoardRow, adopted), adopted));
        FOREBAY_TRY(read_at(file, row + offsetof(BoardRow, released), released));
        if (adopted > released) view.writers.push_back(process);
        if (i == 0) view.begun = adopted > 0;
        if (process.pid != 0) view.participants.push_back(process);
    }
    return view;
}

Status retire_board(io::File& file) {
    static_assert(offsetof(BoardHeader, dead_metadata) == offsetof(BoardHeader, dead_raw) + sizeof(std::uint64_t));
    const std::array<std::uint64_t, 2> beyond{log::Frontier::kNothing, log::Frontier::kNothing};
    return file.write_at(offsetof(BoardHeader, dead_raw), std::as_bytes(std::span(beyond)));
}

}   // namespace forebay::group
