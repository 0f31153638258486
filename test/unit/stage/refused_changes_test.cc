// Which later changes make a file whole again after it refused some, against a byte array that notes each refused byte.
#include "stage/refused_changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "support/seeds.h"

namespace {

using forebay::ByteRange;
using forebay::Code;
using forebay::Status;
using forebay::stage::RefusedChanges;

const Status kSick{Code::kUnavailable, "the device is sick", 5};

TEST(RefusedChangesTest, a_refused_write_counts_until_later_writes_replaced_all_its_bytes) {
    RefusedChanges changes;
    EXPECT_TRUE(changes.whole());
    changes.refuse_write({100, 300}, kSick);
    EXPECT_EQ(changes.why().sys_errno(), 5);
    changes.replace({0, 100});
    changes.replace({300, 400});
    changes.replace({150, 250});
    EXPECT_FALSE(changes.whole());
    changes.replace({90, 150});
    EXPECT_FALSE(changes.whole());
    changes.replace({250, 300});
    EXPECT_TRUE(changes.whole());
}

TEST(RefusedChangesTest, a_refused_size_counts_until_a_size_is_accepted) {
    RefusedChanges changes;
    changes.refuse_size(kSick);
    changes.replace({0, 1000});
    EXPECT_FALSE(changes.whole());
    EXPECT_TRUE(changes.lacks_size());
    changes.resize(10);
    EXPECT_TRUE(changes.whole());
    EXPECT_FALSE(changes.lacks_size());
}

TEST(RefusedChangesTest, a_cut_removes_the_refused_bytes_beyond_it) {
    RefusedChanges changes;
    changes.refuse_write({100, 300}, kSick);
    changes.resize(200);
    EXPECT_FALSE(changes.whole());
    changes.replace({100, 200});
    EXPECT_TRUE(changes.whole());
}

TEST(RefusedChangesTest, the_file_is_whole_when_no_refused_byte_is_left) {
    constexpr std::size_t kBytes = 64;
    for (const std::uint64_t seed : forebay::test::seeds("stage.refused_changes", 20)) {
        std::mt19937_64 random(seed);
        RefusedChanges changes;
        std::array<bool, kBytes> refused{};
        bool size_refused = false;
        for (int step = 0; step < 300; ++step) {
            const std::size_t begin = random() % kBytes, end = begin + random() % (kBytes - begin + 1);
            switch (random() % 8) {
                case 0:
                    if (begin < end) {
                        changes.refuse_write({begin, end}, kSick);
                        std::fill(refused.begin() + begin, refused.begin() + end, true);
                    }
                    break;
                case 1:
                    changes.resize(begin);
                    std::fill(refused.begin() + begin, refused.end(), false);
                    size_refused = false;
                    break;
                case 2:
                    if (random() % 4 == 0) {
                        changes.refuse_size(kSick);
                        size_refused = true;
                    }
                    break;
                default:
                    changes.replace({begin, end});
                    std::fill(refused.begin() + begin, refused.begin() + end, false);
            }
            ASSERT_EQ(changes.whole(), !size_refused && std::ranges::count(refused, true) == 0) << "step " << step;
        }
    }
}

}   // namespace
