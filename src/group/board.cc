#include "group/board.h"

#include <cerrno>
#include <new>

namespace forebay::group {

Board::Board(std::unique_ptr<io::File> file, std::unique_ptr<io::Mapping> mapping)
    : file_(std::move(file)),
      mapping_(std::move(mapping)),
      replaceable_(std::make_unique<io::Replaceable>(mapping_->bytes())),
      loss_(Status::from_errno(
          EIO, file_->name() + ", which the processes of this node share, is out of reach: its device has failed")),
      header_(reinterpret_cast<BoardHeader*>(mapping_->bytes().data())) {
    file_->rest();
}

void Board::lay_out(std::uint64_t participants, std::uint64_t ring) noexcept {
    ring_ = ring;
    rows_ = reinterpret_cast<BoardRow*>(header_ + 1);
    rings_ = reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_->bytes().data() + rings_begin(participants));
}

Result<Board> Board::create(std::unique_ptr<io::File> file, std::uint64_t participants, std::uint64_t ring,
                            std::uint64_t group) {
    const std::uint64_t bytes = board_bytes(participants, ring);
    FOREBAY_TRY(file->allocate(0, bytes));
    auto mapping = file->map(0, bytes);
    if (!mapping) return mapping.status();
    Board board(std::move(file), std::move(mapping).value());
    auto* const header = new (board.header_) BoardHeader;
    header->participants = participants;
    header->ring = ring;
    header->group = group;
    header->version = kBoardVersion;
    header->sequence.store(1, std::memory_order_relaxed);
    board.lay_out(participants, ring);
    for (std::uint64_t i = 0; i < participants; ++i) new (board.rows_ + i) BoardRow;
    std::atomic_signal_fence(std::memory_order_release);   // last: a board of a process that dies earlier has no magic
    header->magic = kBoardMagic;
    if (board.lost()) return board.loss();
    return board;
}

Status Board::state(const Statement& statement) {
    FOREBAY_TRY(write_statement(*file_, statements_begin(header_->participants), statement));
    return file_->sync();
}

Result<Board> Board::open(std::unique_ptr<io::File> file, std::uint64_t participants) {
    const auto bytes = file->size();
    if (!bytes) return bytes.status();
    const auto foreign = [&](const io::File& of, const char* what) {
        return Status(Code::kCorrupt, of.name() + ": " + what);
    };
    if (bytes.value() < sizeof(BoardHeader)) return foreign(*file, "too short for a board");
    auto mapping = file->map(0, bytes.value());
    if (!mapping) return mapping.status();
    Board board(std::move(file), std::move(mapping).value());
    const BoardHeader& header = board.header();
    const std::uint64_t magic = header.magic, version = header.version, made_for = header.participants,
                        ring = header.ring;
    if (board.lost()) return board.loss();
    if (magic != kBoardMagic || version != kBoardVersion) return foreign(*board.file_, "no board of this version");
    if (made_for != participants || ring == 0 || ring > bytes.value() ||
        board_bytes(participants, ring) > bytes.value())
        return foreign(*board.file_, "a board for other participants");
    board.lay_out(participants, ring);
    return board;
}

}   // namespace forebay::group
