// A staging area as dead processes leave it, made record by record.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "area/process.h"
#include "group/board_format.h"
#include "io/memory_file.h"
#include "ledger/ledger_writer.h"
#include "log/file_log.h"
#include "support/engine_fixture.h"

namespace forebay::test {

inline constexpr std::uint64_t kLeftoverSegment = 64 << 10;

// A dead process: its directory, and the logs in it.
class LeftBehind {
  public:
    LeftBehind(io::Directory& area, std::uint64_t pid, const area::BootId& boot_id)
        : name(std::to_string(pid) + "-5-0"),
          process{pid, 5, boot_id},
          directory_(std::move(area.create_directory(name)).value()),
          pool_(std::move(directory_->open_file("log", io::OpenMode::kCreateNew)).value(),
                log::PoolLimits{64 * kLeftoverSegment, kLeftoverSegment, 0}, process) {
        EXPECT_TRUE(ledger_.publish(std::move(directory_->open_file("ledger", io::OpenMode::kCreateNew)).value(),
                                    process, 1 << 20, kLeftoverSegment));
    }
    // The destructor releases no segment.
    ~LeftBehind() {
        for (auto& log : logs_) log->segments().abandon();
    }
    LeftBehind(const LeftBehind&) = delete;
    LeftBehind& operator=(const LeftBehind&) = delete;

    // Opens a log with its first segment for the file with this inode. The ledger lists it as open, too.
    log::FileLog& open(std::uint64_t inode = 1, std::uint64_t size = 0, const log::Sharing& sharing = {}) {
        return open({7, inode}, "/scratch/run.h5", size, sharing);
    }
    log::FileLog& open(const io::Identity& identity, const std::string& path, std::uint64_t size,
                       const log::Sharing& sharing = {}, const log::Birth& born = {}, bool durable = false) {
        logs_.push_back(std::make_unique<log::FileLog>(
            pool_, logs_.size() + 1, log::LogTarget{identity.device, identity.inode, path, sharing, durable, born},
            false));
        (void)ledger_.take_slot(path, identity.device, identity.inode);
        adopt(*logs_.back(), {0, size});
        return *logs_.back();
    }
    void adopt(log::FileLog& log, const log::FileLog::LastCommit& commit = {}) {
        log.adopt(log.acquire().value(), commit, next());
    }
    std::uint64_t write(log::FileLog& log, std::uint64_t offset, const std::vector<std::byte>& bytes,
                        log::DataClass data_class = log::DataClass::kRaw) {
        const std::uint64_t sequence = next();
        log.append_data(offset, bytes, data_class, sequence, 1000 * sequence);
        return sequence;
    }
    std::uint64_t mark(log::FileLog& log, log::RecordKind kind, std::uint64_t size) {
        const std::uint64_t sequence = next();
        log.append_marker(kind, size, sequence);
        return sequence;
    }
    std::uint64_t commit(log::FileLog& log, std::uint64_t size) { return mark(log, log::RecordKind::kCommit, size); }
    std::uint64_t through(log::FileLog& log, ByteRange range) {
        const std::uint64_t sequence = next();
        log.append_through(range, sequence);
        return sequence;
    }
    // Writes the board of the first log, with all participants.
    void board(std::uint64_t group, const std::vector<area::ProcessIdentity>& participants,
               const log::Frontier& frontier = {0, 0}, std::uint64_t team = 0, std::uint64_t nodes = 1) {
        auto file = std::move(directory_->open_file(group::board_name(1), io::OpenMode::kCreateNew)).value();
        std::vector<std::byte> bytes(sizeof(group::BoardHeader) + participants.size() * sizeof(group::BoardRow));
        auto* const header = new (bytes.data()) group::BoardHeader;
        header->magic = group::kBoardMagic;
        header->version = group::kBoardVersion;
        header->participants = participants.size();
        header->group = group;
        header->team = team;
        header->nodes = nodes;
        header->boot_id = process.boot_id;
        header->dead_raw = frontier.raw;
        header->dead_metadata = frontier.metadata;
        for (std::size_t i = 0; i < participants.size(); ++i) {
            auto* const row = new (bytes.data() + sizeof(group::BoardHeader) + i * sizeof(group::BoardRow))
                group::BoardRow;
            row->pid = participants[i].pid;
            row->start_ticks = participants[i].start_ticks;
            row->adopted = 1;
        }
        EXPECT_TRUE(file->write_at(0, bytes));
    }

    // The participants of one file share sequence numbers.
    static std::uint64_t next() { return ++counter(); }

    const std::string name;
    const area::ProcessIdentity process;

  private:
    static std::uint64_t& counter() {
        static std::uint64_t count = 0;
        return count;
    }
    std::unique_ptr<io::Directory> directory_;
    ledger::LedgerWriter ledger_;
    log::SegmentPool pool_;
    std::vector<std::unique_ptr<log::FileLog>> logs_;
};

}   // namespace forebay::test
