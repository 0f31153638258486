// The log of a process that died, damaged at every boundary of every record: cut off there, and with a bit turned.
// Whatever is damaged, the file ends as it was at one of its commits, or recovery refuses it, changes nothing and keeps
// the log.
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "log/scan.h"
#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/seeds.h"

namespace forebay::recover {
namespace {

using stage::ByteClass;
using test::Crash;
using test::same;
using Content = std::vector<std::byte>;

// An engine that writes, and a target that takes nothing: so all that it wrote is in the log.
class TornLog : public testing::Test {
  protected:
    TornLog() {
        LoadedOptions options = test::small_options();
        options.options.segment = 16 << 10;
        options.options.patience = 0;
        engine_ = stage::Engine::create(options, area_.opener());
        plan_->hang(io::Operation::kWrite);
        auto attached = engine_->attach({target_.open(plan_), true});
        EXPECT_TRUE(attached);
        file_ = attached.value().file;
        states_.push_back({});   // as it was opened
        for (std::uint64_t i = 0; i < 6; ++i) {
            write(0, 96, i, ByteClass::kMetadata);
            write(3000 * i, 5000, 100 + i, ByteClass::kRaw);
            write(1000 * i + 17, 700, 200 + i, ByteClass::kMetadata);
            write(20'000 + 64 * i, 64, 300 + i, ByteClass::kRaw);
            if (i == 2) truncate(9000);
            if (i == 4) truncate(40'000);
            EXPECT_TRUE(file_->commit());
            states_.push_back(now_);
        }
        write(0, 2000, 9, ByteClass::kMetadata);   // not committed
        auto shared = area_.opener()();
        base_ = std::make_unique<Crash>(*shared.value(), [&] { return target_.contents(); }, target_.identity());
    }
    ~TornLog() override {
        plan_->let_go();
        EXPECT_TRUE(engine_->detach(file_, true));
    }
    void write(std::uint64_t offset, std::size_t size, std::uint64_t seed, ByteClass byte_class) {
        const Content bytes = test::bytes_of(size, seed);
        ASSERT_TRUE(file_->write(offset, bytes, byte_class));
        if (now_.size() < offset + size) now_.resize(offset + size);
        std::copy(bytes.begin(), bytes.end(), now_.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    void truncate(std::uint64_t size) {
        ASSERT_TRUE(file_->truncate(size));
        now_.resize(size);
    }
    Content log() {
        const auto file = base_->file("log");
        Content bytes(file->size().value());
        EXPECT_TRUE(file->read_at(0, bytes));
        return bytes;
    }

    // Where segments, records and their parts begin and end.
    struct Places {
        std::vector<std::uint64_t> segments, tails;   // tails: ends, in the file
        std::vector<std::uint64_t> boundaries;        // of headers, tables, payloads, records
    };
    Places places(const Content& bytes) {
        Places places;
        for (std::uint64_t begin = 0; begin < bytes.size(); begin += 16 << 10) {
            const auto header = log::decode_segment_header(std::span(bytes).subspan(begin, 16 << 10));
            if (!header) continue;
            places.segments.push_back(begin);
            places.tails.push_back(begin + header.value().tail);
            for (std::uint64_t at = begin + log::kSegmentHeaderBytes; at < places.tails.back();) {
                const auto record = log::decode_record(std::span(bytes).subspan(at, places.tails.back() - at),
                                                       header.value().use);
                EXPECT_TRUE(record);
                if (!record) break;
                const std::uint64_t payload = at + log::payload_offset(record.value().extents.size());
                for (const std::uint64_t place :
                     {at, at + log::kRecordHeaderBytes, payload, payload + record.value().header.payload_bytes})
                    places.boundaries.push_back(place);
                at += record.value().bytes;
            }
            places.boundaries.push_back(places.tails.back());
        }
        return places;
    }

    template <class Damage>
    void try_damage(Damage&& damage) {
        Crash crash(*base_);
        damage(*crash.file("log"));
        const Content before = crash.contents();
        const auto report = crash.recover();
        ASSERT_TRUE(report) << report.status().message();
        const Content after = crash.contents();
        ++tried_;
        if (report.value().all_well()) {
            ++used_;
            std::size_t state = states_.size();
            for (std::size_t i = 0; i < states_.size(); ++i)
                if (states_[i] == after) state = i;
            ASSERT_LT(state, states_.size()) << "a mixture of " << after.size() << " bytes";
            whole_ += state + 1 == states_.size() ? 1 : 0;
            return;
        }
        ++refused_;
        ASSERT_TRUE(same(after, before)) << "what is refused is left alone";
        ASSERT_FALSE(crash.left().empty());
    }

    test::Area area_;
    test::Target target_;
    std::shared_ptr<io::FaultPlan> plan_ = std::make_shared<io::FaultPlan>();
    std::unique_ptr<stage::Engine> engine_;
    std::shared_ptr<stage::StagedFile> file_;
    std::unique_ptr<Crash> base_;
    Content now_;
    std::vector<Content> states_;
    int tried_ = 0, used_ = 0, refused_ = 0, whole_ = 0;
};

void flip(io::File& file, std::uint64_t at, int bit) {
    std::byte byte{};
    ASSERT_EQ(file.read_at(at, std::span(&byte, 1)).value(), 1u);
    byte ^= std::byte{1} << bit;
    ASSERT_TRUE(file.write_at(at, std::span(&byte, 1)));
}

TEST_F(TornLog, undamaged_gives_the_last_commit) {
    ASSERT_GT(places(log()).segments.size(), 2u);
    try_damage([](io::File&) {});
    EXPECT_EQ(whole_, 1);
}

TEST_F(TornLog, cut_off_anywhere) {
    const Places all = places(log());
    for (const std::uint64_t at : all.boundaries)
        for (const int off : {-1, 0, 1}) {
            SCOPED_TRACE(testing::Message() << "cut at " << at << " + " << off);
            try_damage([&](io::File& file) {
                ASSERT_TRUE(file.resize(static_cast<std::uint64_t>(static_cast<std::int64_t>(at) + off)));
            });
            if (HasFatalFailure()) return;
        }
    EXPECT_GT(used_, 10);
    EXPECT_GT(tried_, 300);
}

TEST_F(TornLog, with_a_bit_turned_at_each_boundary) {
    const Places all = places(log());
    std::vector<std::uint64_t> at;
    for (const std::uint64_t begin : all.segments)
        for (std::uint64_t byte = 0; byte < log::kSegmentHeaderBytes; ++byte) at.push_back(begin + byte);
    for (const std::uint64_t place : all.boundaries)
        for (const std::uint64_t byte : {place - 1, place, place + 8, place + 17, place + 33}) at.push_back(byte);
    int place_and_bit = 0;
    for (const std::uint64_t place : at)
        for (const int bit : {0, 5, 7}) {
            if (place_and_bit++ % test::kEachNth != 0) continue;
            SCOPED_TRACE(testing::Message()
                         << "bit " << bit << " of byte " << place << " (" << place % (16 << 10) << " of its segment)");
            try_damage([&](io::File& file) { flip(file, place, bit); });
            if (HasFatalFailure()) return;
        }
    EXPECT_GT(refused_, 300 / test::kEachNth);
    EXPECT_GT(used_, 30 / test::kEachNth);
    EXPECT_GT(tried_, 1000 / test::kEachNth);
}

// A tail is not under a checksum.
TEST_F(TornLog, with_a_tail_at_each_other_boundary) {
    const Places all = places(log());
    for (std::size_t i = 0; i < all.segments.size(); ++i)
        for (const std::uint64_t place : all.boundaries) {
            if (place < all.segments[i] || place >= all.segments[i] + (16 << 10)) continue;
            SCOPED_TRACE(testing::Message() << "tail of segment " << i << " at " << place - all.segments[i]);
            try_damage([&](io::File& file) {
                std::array<std::byte, 8> tail;
                store_le(tail.data(), place - all.segments[i]);
                ASSERT_TRUE(file.write_at(all.segments[i] + log::kTailOffset, tail));
            });
            if (HasFatalFailure()) return;
        }
    EXPECT_GT(tried_, 100);
    EXPECT_GT(refused_, 50);
}

}   // namespace
}   // namespace forebay::recover
