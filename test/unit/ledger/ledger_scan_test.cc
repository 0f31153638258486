#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "area/process.h"
#include "area/staging_area.h"
#include "io/posix_file.h"
#include "ledger/ledger.h"
#include "support/stale_listing.h"

namespace forebay::ledger {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LedgerScanTest : public ::testing::Test {
  protected:
    LedgerScanTest() {
        EXPECT_NE(::mkdtemp(nls_), nullptr);
        root_ = fs::path(nls_) / area::staging_folder();
    }
    ~LedgerScanTest() override { fs::remove_all(nls_); }

    // A ledger of this very process, with one open file.
    static std::vector<std::byte> ledger_of_this_process() {
        const auto self = area::identify_this_process();
        EXPECT_TRUE(self);
        LedgerHeader header{};
        header.version = kLedgerVersion;
        header.pid = self.value().pid;
        header.process_start_ticks = self.value().start_ticks;
        std::strncpy(header.boot_id, area::to_text(self.value().boot_id).c_str(), sizeof header.boot_id - 1);
        header.slots = 2;
        header.size = 1 << 20;
        header.segments_allocated = 5;
        header.files_opened = 3;
        header.aside[static_cast<std::size_t>(AsideReason::kSwmr)] = 2;
        header.magic = kLedgerMagic;
        std::array<LedgerSlot, 2> slots{};
        slots[1].in_use = 1;
        slots[1].staged = 4096;
        slots[1].pending = 1024;
        slots[1].path_bytes = 7;
        std::memcpy(slots[1].path, "/a/b.h5", 7);
        std::vector<std::byte> bytes(sizeof header + sizeof slots);
        std::memcpy(bytes.data(), static_cast<const void*>(&header), sizeof header);
        std::memcpy(bytes.data() + sizeof header, static_cast<const void*>(slots.data()), sizeof slots);
        return bytes;
    }

    void put(const std::string& directory, std::span<const std::byte> bytes) const {
        fs::create_directories(root_ / directory);
        std::ofstream(root_ / directory / "ledger", std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }

    LedgerScan scan() const {
        auto result = scan_ledgers(nls_);
        EXPECT_TRUE(result) << result.status().message();
        return result ? std::move(result).value() : LedgerScan{};
    }

    char nls_[64] = "/tmp/forebay_ledger_scan_XXXXXX";
    fs::path root_;
};

TEST_F(LedgerScanTest, a_node_on_which_nothing_was_staged_has_no_ledgers) {
    const LedgerScan found = scan();
    EXPECT_THAT(found.processes, IsEmpty());
    EXPECT_THAT(found.skipped, IsEmpty());
}

TEST_F(LedgerScanTest, a_missing_staging_area_is_an_error) { EXPECT_FALSE(scan_ledgers(std::string(nls_) + "/none")); }

TEST_F(LedgerScanTest, an_open_file_of_a_living_process_is_seen) {
    put("1-2-0", ledger_of_this_process());
    const LedgerScan found = scan();
    EXPECT_THAT(found.skipped, IsEmpty());
    ASSERT_EQ(found.processes.size(), 1u);
    const ProcessView& process = found.processes.front();
    EXPECT_TRUE(process.alive);
    EXPECT_EQ(process.pid, static_cast<std::uint64_t>(::getpid()));
    EXPECT_EQ(process.directory, root_ / "1-2-0");
    EXPECT_EQ(process.segments_allocated, 5u);
    EXPECT_EQ(process.files_opened, 3u);
    EXPECT_EQ(process.aside[static_cast<std::size_t>(AsideReason::kSwmr)], 2u);
    ASSERT_EQ(process.files.size(), 1u);
    EXPECT_EQ(process.files.front().path, "/a/b.h5");
    EXPECT_EQ(process.files.front().pending, 1024u);
}

TEST_F(LedgerScanTest, a_process_number_that_was_given_out_again_is_not_alive) {
    auto bytes = ledger_of_this_process();
    bytes[offsetof(LedgerHeader, process_start_ticks)] ^= std::byte{1};
    put("1-2-0", bytes);
    EXPECT_FALSE(scan().processes.at(0).alive);
}

TEST_F(LedgerScanTest, a_process_of_an_earlier_boot_is_not_alive) {
    auto bytes = ledger_of_this_process();
    auto& digit = bytes[offsetof(LedgerHeader, boot_id)];
    digit = digit == std::byte{'0'} ? std::byte{'1'} : std::byte{'0'};
    put("1-2-0", bytes);
    EXPECT_FALSE(scan().processes.at(0).alive);
    EXPECT_TRUE(scan().processes.at(0).restarted);
}

TEST_F(LedgerScanTest, a_journal_that_a_recovery_has_just_removed_leaves_no_gap) {
    auto bytes = ledger_of_this_process();
    bytes[offsetof(LedgerHeader, process_start_ticks)] ^= std::byte{1};
    put("1-2-0", bytes);
    const auto area = std::move(io::open_posix_directory(root_.string())).value();
    test::StaleArea seen(*area, {"undo-5"});
    const LedgerScan found = scan_ledgers(seen);
    EXPECT_THAT(found.skipped, IsEmpty());
    ASSERT_EQ(found.processes.size(), 1u);
    EXPECT_FALSE(found.processes.front().alive);
    EXPECT_FALSE(found.processes.front().restarted);
}

TEST_F(LedgerScanTest, what_is_no_ledger_is_left_out_and_named) {
    auto bytes = ledger_of_this_process();
    put("1-1-0", std::span(bytes).first(100));
    put("1-2-0", std::span(bytes).first(bytes.size() - 1));
    auto other = bytes;
    other[offsetof(LedgerHeader, version)] = std::byte{99};
    put("1-3-0", other);
    other = bytes;
    other[0] = std::byte{0};
    put("1-4-0", other);
    fs::create_directories(root_ / "1-5-0");
    fs::create_directory_symlink(root_ / "1-1-0", root_ / "1-6-0");
    fs::create_directories(root_ / "something else");
    const LedgerScan found = scan();
    EXPECT_THAT(found.processes, IsEmpty());
    EXPECT_THAT(found.skipped,
                ElementsAre(HasSubstr("1-1-0/ledger: shorter"), HasSubstr("1-2-0/ledger: shorter"),
                            HasSubstr("1-3-0/ledger: ledger of version 99"), HasSubstr("1-4-0/ledger: not a ledger"),
                            HasSubstr("1-5-0/ledger: No such file"), HasSubstr("1-6-0")));
}

TEST_F(LedgerScanTest, counts_in_a_damaged_header_are_bounded) {
    auto bytes = ledger_of_this_process();
    const std::uint64_t many = ~std::uint64_t{0};
    std::memcpy(bytes.data() + offsetof(LedgerHeader, slots), &many, sizeof many);
    put("1-2-0", bytes);
    EXPECT_THAT(scan().skipped, ElementsAre(HasSubstr("shorter")));
}

TEST(Ledger, a_damaged_path_length_is_bounded) {
    const auto slot = std::make_unique<LedgerSlot>();
    slot->path_bytes = ~std::uint64_t{0};
    EXPECT_EQ(snapshot(*slot).path.size(), kLedgerPathMax);
}

TEST(Ledger, every_reason_has_a_name_of_its_own) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kReasonCount; ++i) names.emplace_back(reason_name(static_cast<AsideReason>(i)));
    EXPECT_THAT(names, ::testing::Each(::testing::Not(::testing::AnyOf("", "unknown"))));
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
    EXPECT_EQ(reason_name(AsideReason::kSecondLibrary), "second_library");
    EXPECT_EQ(reason_name(AsideReason::kCount), "unknown");
}

TEST(Ledger, counters_are_one_line_of_json) {
    FileCounters counters;
    counters.path = "/a \"b\"\n\xff.h5";
    counters.staged = ~std::uint64_t{0};
    counters.aside = 1u << static_cast<unsigned>(AsideReason::kSwmr) |
                     1u << static_cast<unsigned>(AsideReason::kHandleTaken);
    const std::string line = to_json(counters);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const auto parsed = nlohmann::json::parse(line);
    EXPECT_EQ(parsed.at("path"), "/a \"b\"\n\xEF\xBF\xBD.h5");
    EXPECT_EQ(parsed.at("staged"), ~std::uint64_t{0});
    EXPECT_EQ(parsed.at("reasons"), nlohmann::json({"swmr", "handle_taken"}));
    EXPECT_EQ(parsed.size(), 23u);
}

}   // namespace
}   // namespace forebay::ledger
