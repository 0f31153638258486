// No memory in a process that writes a file together with others: the Nth allocation of a write, a read, a commit, a
// drain or the close fails, once or to the end of the call, for N = 1, 2, ... until none does. What was said to be done
// is done, what was not done is said, and nobody waits for ever.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <limits>
#include <new>
#include <optional>
#include <thread>

#include "file/local_file.h"
#include "support/failing_allocations.h"
#include "support/team_files.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::bytes_of;
using test::Participants;
using test::same;
using Content = std::vector<std::byte>;

constexpr std::size_t kCount = 3;

LoadedOptions options() {
    LoadedOptions loaded = test::small_options();
    loaded.options.segment = 16 << 10;
    loaded.options.size = 512 << 10;
    return loaded;
}

// Participants with a file of which a part is committed and drained, a part is held, and some is beyond the committed
// end.
struct Ground {
    Ground() : node(kCount, options()) {
        put(0, 0, 40'000, 1, ByteClass::kRaw);
        EXPECT_TRUE(node.commit());
        EXPECT_TRUE(node.drain());
        for (std::uint64_t i = 0; i < 40; ++i)
            put(i % kCount, 1000 * i, 300, i, i % 2 == 0 ? ByteClass::kMetadata : ByteClass::kRaw);
        put(1, 50'000, 9'000, 3, ByteClass::kRaw);
    }
    void put(std::size_t who, std::uint64_t offset, std::size_t size, std::uint64_t seed, ByteClass byte_class) {
        const Content bytes = bytes_of(size, seed);
        ASSERT_TRUE(node.write(who, offset, bytes, byte_class));
        now.write(offset, bytes);
    }

    Participants node;
    test::PlainBytes now;
};

// But for `unsure`, which may hold old bytes or new ones, also some of each.
void expect_same(Content found, const Content& before, const Content& after, ByteRange unsure) {
    ASSERT_EQ(found.size(), after.size());
    for (std::uint64_t i = unsure.begin; i < unsure.end; ++i) {
        const bool old = i < before.size() ? found[i] == before[i] : found[i] == std::byte{0};
        ASSERT_TRUE(old || found[i] == after[i]) << "byte " << i;
        found[i] = after[i];
    }
    EXPECT_TRUE(same(found, after));
}

class MemoryFaultOfParticipants : public testing::TestWithParam<bool> {
  protected:
    // `act` with each of its allocations failing in turn, then all of the rest. `unsure`: what it writes.
    template <class Act>
    void each(Act&& act, ByteRange unsure = {}) {
        bool hit = true;
        long nth = 1;
        for (; hit && nth < 2000 && !HasFatalFailure(); ++nth) {
            SCOPED_TRACE(testing::Message() << "allocation " << nth);
            Ground ground;
            const Content before = ground.now.content;
            Status status(Code::kUnavailable, "out of memory");
            test::failing_for_ever = GetParam();
            test::allocations_until_failure = nth;
            try {
                status = act(ground);
            } catch (const std::bad_alloc&) {
                EXPECT_LE(test::allocations_until_failure, 0);
            }
            hit = test::allocations_until_failure.exchange(std::numeric_limits<long>::max()) <= 0;
            test::failing_for_ever = false;
            if (!hit) {
                EXPECT_TRUE(status) << status.message();
            }
            const ByteRange open = status ? ByteRange{} : unsure;
            for (std::size_t who = 0; who < kCount; ++who)
                expect_same(ground.node.read(who, 0, ground.now.content.size()), before, ground.now.content, open);
            const Status committed = ground.node.commit(), closed = ground.node.close();
            // A background write that got no memory is kept, and told.
            for (const Status& told : {committed, closed}) {
                EXPECT_TRUE(told || told.sys_errno() == ENOMEM) << told.message();
            }
            if (closed) expect_same(ground.node.target().contents(), before, ground.now.content, open);
            else if (committed) expect_same(ground.node.recovered(), before, ground.now.content, open);
        }
        EXPECT_FALSE(hit);
        failed_ += nth - 2;
    }
    long failed_ = 0;
};

TEST_P(MemoryFaultOfParticipants, of_a_write) {
    for (const std::size_t who : {0, 1})   // who drains, and who does not
        for (const std::size_t size : {100u, 30'000u}) {
            const Content bytes = bytes_of(size, 77);
            each(
                [&](Ground& ground) {
                    ground.now.write(20'150, bytes);
                    return ground.node.write(who, 20'150, bytes);
                },
                {20'150, 20'150 + size});
        }
    EXPECT_GT(failed_, 0);
}

TEST_P(MemoryFaultOfParticipants, of_a_read) {
    for (const std::size_t who : {0, 1}) {
        Content found(59'000);
        each([&](Ground& ground) { return ground.node.file(who).read(0, found); });
    }
    EXPECT_GT(failed_, 0);
}

TEST_P(MemoryFaultOfParticipants, of_a_commit) {
    each([](Ground& ground) { return ground.node.commit(); });
}

TEST_P(MemoryFaultOfParticipants, of_a_drain) {
    each([](Ground& ground) { return ground.node.drain(); });
    EXPECT_GT(failed_, 0);
}

INSTANTIATE_TEST_SUITE_P(Every, MemoryFaultOfParticipants, testing::Bool(),
                         [](const auto& given) { return std::string(given.param ? "for_ever" : "once"); });

// Returns once another node need not wait for staged bytes any more: they are in the target, or the drainer has failed.
// Returns false if that takes much too long. Allocates no memory.
bool await_clean(Participants& node) {
    const std::atomic<std::uint64_t>& clean = node.group(0).exposed().clean;
    for (int i = 0; i < 20'000 && clean == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return clean != 0;
}

// The memory fails once, in the listener or in the drain thread that it wakes. No later event wakes one of them.
TEST(MemoryFaultOfNodes, keeps_no_other_node_waiting) {
    bool hit = true;
    long nth = 1;
    for (; hit && nth < 200 && !testing::Test::HasFailure(); ++nth) {
        SCOPED_TRACE(testing::Message() << "allocation " << nth);
        Participants node(2, options(), nullptr, {}, true);
        const Content bytes = bytes_of(9'000, 1);
        std::atomic<bool> armed{false};
        ASSERT_TRUE(node.group(0).listen([&, nth](bool room_wanted) {
            if (!armed.exchange(true)) test::allocations_until_failure = nth;
            return node.file(0).membership().poll(room_wanted);
        }));
        ASSERT_TRUE(node.write(1, 0, bytes));
        const bool in_time = await_clean(node);
        hit = test::allocations_until_failure.exchange(std::numeric_limits<long>::max()) <= 0;
        EXPECT_TRUE(in_time);
        const Status closed = node.close();
        EXPECT_TRUE(closed || closed.sys_errno() == ENOMEM) << closed.message();
        EXPECT_TRUE(same(node.target().contents(), bytes));
    }
    EXPECT_FALSE(hit);
    EXPECT_GT(nth, 5);
}

// No event tells that there is memory again, so the listener has to call again by itself, but not at once.
TEST(MemoryFaultOfNodes, has_the_listener_call_again_later) {
    for (const bool several_nodes : {false, true}) {
        Participants node(2, options(), nullptr, {}, several_nodes);
        const Content bytes = bytes_of(9'000, 1);
        ASSERT_TRUE(node.write(1, 0, bytes));
        test::failing_for_ever = true;
        test::allocations_until_failure = 1;
        const auto next = node.file(0).membership().poll(false);
        test::failing_for_ever = false;
        test::allocations_until_failure = std::numeric_limits<long>::max();
        ASSERT_TRUE(next);
        EXPECT_GT(next->count(), 0);
        EXPECT_FALSE(node.file(0).membership().poll(false));
        ASSERT_TRUE(node.close());
        EXPECT_TRUE(same(node.target().contents(), bytes));
    }
}

TEST(MemoryFaultOfALocalFile, an_open_that_fails_leaves_no_handle) {
    const test::Scratch scratch(bytes_of(5000, 1));
    const std::shared_ptr<stage::Engine> engine = stage::Engine::create(options(), scratch.opener());
    const auto identity = io::identify(scratch.target()).value();
    std::optional<stage::OpenTarget> target;
    const long failures = test::fail_each_allocation(
        [&] {
            const int descriptor = ::open(scratch.target().c_str(), O_RDONLY | O_CLOEXEC);
            target = stage::OpenTarget{io::adopt_posix_file(descriptor, scratch.target()), false};
        },
        [&] {
            auto file = std::make_shared<file::LocalFile>(engine);
            const auto attached = file->attach(std::move(*target));
            if (!attached) throw std::bad_alloc();
        },
        [&] { EXPECT_EQ(engine->files().find(identity), nullptr); });
    EXPECT_GT(failures, 2);
    EXPECT_EQ(engine->files().find(identity), nullptr);
}

}   // namespace
}   // namespace forebay
