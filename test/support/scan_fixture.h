// Logs in a pool in memory, and the result of a scan of the pool.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/memory_file.h"
#include "log/file_log.h"
#include "log/scan.h"
#include "support/engine_fixture.h"

namespace forebay::test {

class ScanTest : public ::testing::Test {
  protected:
    static constexpr std::uint64_t kSegment = 64 << 10;

    ScanTest()
        : directory_(io::make_memory_directory("/area")),
          pool_(std::move(directory_->open_file("log", io::OpenMode::kCreateNew)).value(),
                log::PoolLimits{16 * kSegment, kSegment, 0}, process_) {}

    log::FileLog& add_log(std::uint64_t number, const std::string& path) {
        logs_.push_back(std::make_unique<log::FileLog>(pool_, number, log::LogTarget{1, number, path}, false));
        return *logs_.back();
    }
    log::Segment& adopt(log::FileLog& log, const log::FileLog::LastCommit& commit = {}) {
        log.adopt(log.acquire().value(), commit, next_++);
        return *log.segments().newest();
    }
    void write(log::FileLog& log, std::uint64_t offset, std::size_t size = 100) {
        log.append_data(offset, bytes_of(size, next_), log::DataClass::kRaw, next_, 0);
        ++next_;
    }
    void commit(log::FileLog& log, std::uint64_t size) { log.append_marker(log::RecordKind::kCommit, size, next_++); }

    std::unique_ptr<io::File> file() {
        return std::move(directory_->open_file("log", io::OpenMode::kReadWrite)).value();
    }
    std::vector<log::ScannedLog> scan_file() {
        auto logs = log::scan(*file());
        EXPECT_TRUE(logs) << logs.status().message();
        return logs ? std::move(logs).value() : std::vector<log::ScannedLog>{};
    }
    std::vector<std::byte> payload(const log::ScannedRecord& record) {
        std::vector<std::byte> bytes(record.header.payload_bytes);
        EXPECT_EQ(file()->read_at(record.payload_at, bytes).value(), bytes.size());
        return bytes;
    }
    std::vector<std::byte> stored() {
        std::vector<std::byte> bytes(file()->size().value());
        EXPECT_TRUE(file()->read_at(0, bytes));
        return bytes;
    }
    void flip(std::uint64_t at) {
        std::array<std::byte, 1> byte;
        ASSERT_TRUE(file()->read_at(at, byte));
        byte[0] ^= std::byte{1};
        ASSERT_TRUE(file()->write_at(at, byte));
    }
    static std::vector<std::uint64_t> sequences(const log::ScannedLog& log) {
        std::vector<std::uint64_t> sequences;
        for (const log::ScannedRecord& record : log.records) sequences.push_back(record.header.sequence);
        return sequences;
    }

    const area::ProcessIdentity process_{42, 4711, {std::byte{0x1f}}};
    std::unique_ptr<io::Directory> directory_;
    log::SegmentPool pool_;
    std::vector<std::unique_ptr<log::FileLog>> logs_;
    std::uint64_t next_ = 1;
};

}   // namespace forebay::test
