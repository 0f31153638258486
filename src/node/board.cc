#include "node/board.h"

#include <new>

namespace forebay::node {

using log::board_bytes;

Board::Board(std::unique_ptr<io::File> file, std::unique_ptr<io::Mapping> mapping, std::uint64_t participants)
    : file_(std::move(file)),
      mapping_(std::move(mapping)),
      header_(reinterpret_cast<BoardHeader*>(mapping_->bytes().data())),
      rows_(reinterpret_cast<BoardRow*>(header_ + 1)),
      rings_(reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_->bytes().data() + log::rings_begin(participants))) {}

Result<Board> Board::create(std::unique_ptr<io::File> file, std::uint64_t participants, std::uint64_t ring,
                            std::uint64_t group) {
    const std::uint64_t bytes = board_bytes(participants, ring);
    FOREBAY_TRY(file->allocate(0, bytes));
    auto mapping = file->map(0, bytes);
    if (!mapping) return mapping.status();
    std::byte* const at = mapping.value()->bytes().data();
    auto* const header = new (at) BoardHeader;
    header->participants = participants;
    header->ring = ring;
    header->group = group;
    header->version = log::kBoardVersion;
    header->sequence.store(1, std::memory_order_relaxed);
    auto* const rows = reinterpret_cast<BoardRow*>(header + 1);
    for (std::uint64_t i = 0; i < participants; ++i) new (rows + i) BoardRow;
    std::atomic_signal_fence(std::memory_order_release);   // last: until then it is none, whenever this process dies
    header->magic = log::kBoardMagic;
    return Board(std::move(file), std::move(mapping).value(), participants);
}

Status Board::state(const log::Statement& statement) {
    FOREBAY_TRY(log::write_statement(*file_, log::statements_begin(header_->participants), statement));
    return file_->sync();
}

Result<Board> Board::open(std::unique_ptr<io::File> file, std::uint64_t participants) {
    const auto bytes = file->size();
    if (!bytes) return bytes.status();
    const auto foreign = [&](const char* what) { return Status(Code::kCorrupt, file->name() + ": " + what); };
    if (bytes.value() < sizeof(BoardHeader)) return foreign("too short for a board");
    auto mapping = file->map(0, bytes.value());
    if (!mapping) return mapping.status();
    const auto* const header = reinterpret_cast<const BoardHeader*>(mapping.value()->bytes().data());
    if (header->magic != log::kBoardMagic || header->version != log::kBoardVersion) return foreign("no board of this version");
    if (header->participants != participants || header->ring == 0 ||
        header->ring > bytes.value() || board_bytes(participants, header->ring) > bytes.value())
        return foreign("a board for other participants");
    return Board(std::move(file), std::move(mapping).value(), participants);
}

}   // namespace forebay::node
