// No memory: the Nth allocation of a write, a read, a commit, a drain or a close fails, for N = 1, 2, ... until none
// does. What was said to be done is done, what was not is not, and nobody waits for ever.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <limits>
#include <thread>

#include "base/mutex.h"
#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/failing_allocations.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::Area;
using test::Target;
using Content = std::vector<std::byte>;
constexpr auto kNever = std::numeric_limits<long>::max();

// An engine with one file that has everything: committed bytes that are drained, committed ones that are not, held
// ones, and zeros.
struct Ground {
    Ground(const LoadedOptions& options)
        : engine(stage::Engine::create(options, area.opener())), file(test::attach(*engine, target)) {
        put(0, 40'000, 1, ByteClass::kRaw);
        EXPECT_TRUE(file->commit());
        EXPECT_TRUE(file->drain());
        for (std::uint64_t i = 0; i < 40; ++i)
            put(1000 * i, 300, i, i % 2 == 0 ? ByteClass::kMetadata : ByteClass::kRaw);
        EXPECT_TRUE(file->truncate(38'000));
        now.resize(38'000);
        put(50'000, 9'000, 3, ByteClass::kRaw);
    }
    void put(std::uint64_t offset, std::size_t size, std::uint64_t seed, ByteClass byte_class) {
        const Content bytes = test::bytes_of(size, seed);
        ASSERT_TRUE(file->write(offset, bytes, byte_class));
        note(offset, bytes);
    }
    void note(std::uint64_t offset, const Content& bytes) {
        if (now.size() < offset + bytes.size()) now.resize(offset + bytes.size());
        std::copy(bytes.begin(), bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    // The file closes, tells if it did not, and what it holds is what was written; `unsure` may be old or new.
    void expect_all_well(ByteRange unsure, const Content& before) {
        Content end = now;
        // A drain thread may have been the one that got no memory: a commit tells that, and close tries all of it
        // again.
        const Status committed = file->commit(), closed = engine->detach(file, true);
        EXPECT_TRUE(committed || committed.sys_errno() == ENOMEM) << committed.message();
        EXPECT_TRUE(closed || closed.sys_errno() == ENOMEM) << closed.message();
        EXPECT_FALSE(file->lifecycle().leaves_log());
        Content home = target.contents();
        if (home.size() != end.size()) {
            // A part of the write, from its beginning.
            ASSERT_FALSE(unsure.empty());
            ASSERT_GE(home.size(), std::min(before.size(), end.size()));
            ASSERT_LT(home.size(), end.size());
            home.resize(end.size());
        }
        for (std::uint64_t i = unsure.begin; i < std::min<std::uint64_t>(unsure.end, home.size()); ++i) {
            const bool old = i < before.size() ? home[i] == before[i] : home[i] == std::byte{0};
            ASSERT_TRUE(old || (i < end.size() && home[i] == end[i])) << "byte " << i;
            if (i < end.size()) home[i] = end[i];
        }
        home.resize(end.size());
        EXPECT_TRUE(test::same(home, end));
    }

    Area area;
    Target target;
    std::unique_ptr<stage::Engine> engine;
    std::shared_ptr<stage::StagedFile> file;
    Content now;
};

// The call's status, an exception for want of memory being one. A drain thread may be hit instead of it.
template <class Call>
Status without_allocation(long nth, bool& hit, Call&& call) {
    Status status;
    test::allocations_until_failure = nth;
    try {
        status = call();
    } catch (const std::bad_alloc&) {
        test::allocations_until_failure = kNever;
        hit = true;
        return {Code::kUnavailable, "out of memory"};
    }
    hit = test::allocations_until_failure.exchange(kNever) <= 0;
    return status;
}

struct Shortage {
    Durability durability;
    bool for_ever;   // to the end of the call
};
class MemoryFault : public testing::TestWithParam<Shortage> {
  protected:
    LoadedOptions options() const {
        LoadedOptions loaded = options_;
        loaded.options.durability = GetParam().durability;
        loaded.options.segment = 16 << 10;
        return loaded;
    }
    // `act` with each of its allocations failing in turn; `then` looks at what came of it.
    template <class Act, class Then>
    void each(Act&& act, Then&& then) {
        bool hit = true;
        long nth = 1;
        for (; hit && nth < 2000; ++nth) {
            SCOPED_TRACE(testing::Message() << "allocation " << nth);
            Ground ground(options());
            const Content before = ground.now;
            test::failing_for_ever = GetParam().for_ever;
            const Status status = without_allocation(nth, hit, [&] { return act(ground); });
            test::failing_for_ever = false;
            then(ground, status, before);
            if (testing::Test::HasFatalFailure()) return;
        }
        EXPECT_FALSE(hit);
        failed_ += nth - 2;
    }
    ~MemoryFault() override { EXPECT_TRUE(failed_ > 0 || may_allocate_nothing_); }

    LoadedOptions options_ = test::small_options();
    long failed_ = 0;
    bool may_allocate_nothing_ = false;
};

TEST_P(MemoryFault, of_a_write) {
    for (const auto byte_class : {ByteClass::kRaw, ByteClass::kMetadata})
        for (const std::size_t size : {100u, 60'000u}) {
            const Content bytes = test::bytes_of(size, 77);
            each([&](Ground& ground) { return ground.file->write(20'150, bytes, byte_class); },
                 [&](Ground& ground, const Status& status, const Content& before) {
                     ground.note(20'150, bytes);
                     if (status) {
                         EXPECT_TRUE(test::same(test::read(*ground.file, 0, ground.now.size()), ground.now));
                     }
                     ground.expect_all_well(status ? ByteRange{} : ByteRange{20'150, 20'150 + size}, before);
                 });
        }
}

TEST_P(MemoryFault, of_a_write_of_many_parts) {
    const Content bytes = test::bytes_of(100, 77);
    std::vector<stage::StagedFile::Part> parts;
    for (std::uint64_t i = 0; i < 50; ++i) parts.push_back({i * 700, bytes});
    each([&](Ground& ground) { return ground.file->write(parts, ByteClass::kMetadata); },
         [&](Ground& ground, const Status& status, const Content& before) {
             for (std::uint64_t i = 0; i < 50; ++i) ground.note(i * 700, bytes);
             if (status) {
                 EXPECT_TRUE(test::same(test::read(*ground.file, 0, ground.now.size()), ground.now));
             }
             ground.expect_all_well(status ? ByteRange{} : ByteRange{0, 50 * 700}, before);
         });
}

// Calls `prepare` while all allocations succeed.
template <class Prepare>
void with_memory(Prepare&& prepare) {
    const long nth = test::allocations_until_failure.exchange(kNever);
    prepare();
    test::allocations_until_failure = nth;
}

struct OldestSegment {
    std::uint64_t order, live_bytes;
};
OldestSegment oldest_segment(stage::StagedFile& file) {
    const LockGuard lock(file.state().mutex());   // the drain removes segments
    const log::SegmentList& segments = file.state().log->segments();
    return {segments.oldest_order(), segments.oldest()->live_bytes};
}

// A close would wait for ever for a segment that stays pinned.
TEST_P(MemoryFault, of_a_write_that_moves_held_bytes_to_the_newest_segment) {
    const Content bytes = test::bytes_of(30'000, 77);
    std::uint64_t moved = 0;
    each(
        [&](Ground& ground) {
            std::uint64_t before = 0;
            with_memory([&] {
                EXPECT_TRUE(ground.file->commit());
                EXPECT_TRUE(ground.file->drain());
                ground.file->log().pause_drain();   // else these writes could find the oldest segment drained
                ground.put(10'000, 100, 5, ByteClass::kMetadata);
                ground.put(100'000, 90'000, 6, ByteClass::kRaw);
                ground.file->log().resume_drain();
                for (int i = 0; i < 5000 && ground.file->counters().pending > 100; ++i) {
                    (void)ground.file->log().drain_for_room();
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                }
                EXPECT_EQ(ground.file->counters().held, 100u);
                before = oldest_segment(*ground.file).order;
            });
            const Status status = ground.file->write(200'000, bytes, ByteClass::kRaw);
            const OldestSegment after = oldest_segment(*ground.file);
            moved += after.order != before || after.live_bytes == 0 ? 1 : 0;
            return status;
        },
        [&](Ground& ground, const Status& status, const Content&) {
            const Content before = ground.now;
            ground.note(200'000, bytes);
            ground.expect_all_well(status ? ByteRange{} : ByteRange{before.size(), 200'000 + bytes.size()}, before);
        });
    EXPECT_GT(moved, 0u);
}

// A close would wait for ever for a range that stays in flight.
TEST_P(MemoryFault, of_a_write_that_bypasses_a_full_log) {
    options_.options.full = WhenFull::kThrough;
    options_.options.size = 128 << 10;
    const Content bytes = test::bytes_of(30'000, 77);
    std::uint64_t through = 0;
    each(
        [&](Ground& ground) {
            std::uint64_t before = 0;
            with_memory([&] {
                for (std::uint64_t i = 0; i < 10; ++i)
                    ground.put(100'000 + 20'000 * i, 20'000, i, ByteClass::kMetadata);
                before = ground.file->counters().through;
            });
            const Status status = ground.file->write(400'000, bytes, ByteClass::kMetadata);
            through += ground.file->counters().through - before;
            return status;
        },
        [&](Ground& ground, const Status& status, const Content&) {
            const Content before = ground.now;
            ground.note(400'000, bytes);
            ground.expect_all_well(status ? ByteRange{} : ByteRange{before.size(), 400'000 + bytes.size()}, before);
        });
    EXPECT_GT(through, 0u);
}

// With the staging area, which the first file to be written opens.
TEST_P(MemoryFault, of_opening_the_first_file) {
    bool hit = true;
    long nth = 1, staged = 0;
    const Content bytes = test::bytes_of(30'000, 77);
    for (; hit && nth < 5000; ++nth) {
        SCOPED_TRACE(testing::Message() << "allocation " << nth);
        Area area;
        Target target;
        auto engine = stage::Engine::create(options(), area.opener());
        auto to_open = target.open();
        const std::string path = "/scratch/run.h5";
        std::shared_ptr<stage::StagedFile> file;
        test::failing_for_ever = GetParam().for_ever;
        const Status status = without_allocation(nth, hit, [&] {
            auto attached = engine->attach({std::move(to_open), true});
            if (attached) file = attached.value().file;
            return attached.status();
        });
        test::failing_for_ever = false;
        ASSERT_EQ(status.is_ok(), file != nullptr);
        // A second time there is memory.
        if (file == nullptr) file = test::attach(*engine, target);
        ASSERT_TRUE(file->write(0, bytes, ByteClass::kMetadata));
        staged += file->counters().staged > 0 ? 1 : 0;
        ASSERT_TRUE(engine->detach(file, true));
        EXPECT_EQ(engine->files().find({7, 1}), nullptr) << "no handle is left over";
        EXPECT_TRUE(test::same(target.contents(), bytes));
        file.reset();
        engine.reset();
    }
    EXPECT_FALSE(hit);
    EXPECT_GT(staged, 5) << "not only written past the staging area";
    failed_ += nth - 2;
}

TEST_P(MemoryFault, of_a_read) {
    each(
        [](Ground& ground) {
            test::allocations_until_failure.fetch_add(1);   // that of the buffer is the caller's
            Content into(ground.now.size());
            const Status status = ground.file->read(0, into);
            if (status) {
                EXPECT_TRUE(test::same(into, ground.now));
            }
            return status;
        },
        [](Ground& ground, const Status&, const Content& before) {
            EXPECT_TRUE(test::same(test::read(*ground.file, 0, ground.now.size()), ground.now));
            ground.expect_all_well({}, before);
        });
}

TEST_P(MemoryFault, of_a_truncation) {
    for (const std::uint64_t size : {10'000u, 80'000u})
        each(
            [&](Ground& ground) {
                // A commit leaves the maps without memory in reserve.
                with_memory([&] { EXPECT_TRUE(ground.file->commit()); });
                return ground.file->truncate(size);
            },
            [&](Ground& ground, const Status& status, const Content& before) {
                if (status) {
                    ground.now.resize(size);
                    EXPECT_TRUE(test::same(test::read(*ground.file, 0, ground.now.size()), ground.now));
                    ground.expect_all_well({}, before);
                } else {
                    // Made again it is made.
                    ASSERT_TRUE(ground.file->truncate(size));
                    ground.now.resize(size);
                    ground.expect_all_well({}, before);
                }
            });
}

TEST_P(MemoryFault, of_a_commit) {
    may_allocate_nothing_ = true;
    each([](Ground& ground) { return ground.file->commit(); },
         [](Ground& ground, const Status&, const Content& before) {
             EXPECT_TRUE(test::same(test::read(*ground.file, 0, ground.now.size()), ground.now));
             ground.expect_all_well({}, before);
         });
}

TEST_P(MemoryFault, of_a_drain) {
    each([](Ground& ground) { return ground.file->drain(); },
         [](Ground& ground, const Status&, const Content&) {
             EXPECT_TRUE(test::same(test::read(*ground.file, 0, ground.now.size()), ground.now));
             const Status closed = ground.engine->detach(ground.file, true);
             // Kept like a failed write; close tries all of it again.
             EXPECT_TRUE(closed || closed.sys_errno() == ENOMEM) << closed.message();
             EXPECT_TRUE(test::same(ground.target.contents(), ground.now))
                 << closed.message() << ground.file->lifecycle().leaves_log();
         });
}

TEST_P(MemoryFault, of_a_close) {
    each([](Ground& ground) { return ground.engine->detach(ground.file, true); },
         [](Ground& ground, const Status& status, const Content&) {
             if (status) {
                 EXPECT_TRUE(test::same(ground.target.contents(), ground.now));
                 return;
             }
             EXPECT_FALSE(status.message().empty());
             if (ground.file->lifecycle().leaves_log()) {
                 EXPECT_TRUE(test::same(test::read(*ground.file, 0, ground.now.size()), ground.now));
                 test::Crash crash(
                     *ground.area.shared_open(), [&] { return ground.target.contents(); }, ground.target.identity());
                 ASSERT_TRUE(crash.recover());
                 EXPECT_TRUE(test::same(crash.contents(), ground.now));
             } else {
                 EXPECT_TRUE(test::same(ground.target.contents(), ground.now));
             }
         });
}

INSTANTIATE_TEST_SUITE_P(Every, MemoryFault,
                         testing::Values(Shortage{Durability::kProcess, false}, Shortage{Durability::kProcess, true},
                                         Shortage{Durability::kNode, false}, Shortage{Durability::kNode, true}),
                         [](const auto& given) {
                             return std::string(given.param.durability == Durability::kNode ? "node" : "process") +
                                    (given.param.for_ever ? "_for_ever" : "_once");
                         });

}   // namespace
}   // namespace forebay
