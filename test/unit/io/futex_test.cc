#include "io/futex.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <latch>
#include <new>
#include <thread>
#include <vector>

namespace forebay::io {
namespace {

TEST(SharedWordTest, waiting_for_a_value_that_has_passed_returns_at_once) {
    const SharedWord word{5};
    wait_while(word, 4);
    EXPECT_EQ(word.load(), 5u);
}

TEST(SharedWordTest, raising_counts_up_and_wraps) {
    SharedWord word{0xFFFFFFFF};
    raise_and_wake(word);
    EXPECT_EQ(word.load(), 0u);
    raise_and_wake(word);
    EXPECT_EQ(word.load(), 1u);
}

TEST(SharedWordTest, waiting_ends_when_the_time_is_over) {
    const SharedWord word{1};
    wait_while(word, 1, std::chrono::milliseconds(1));
    wait_while(word, 1, std::chrono::milliseconds(0));
    EXPECT_EQ(word.load(), 1u);
}

TEST(SharedWordTest, waiting_for_two_ends_when_either_has_passed_or_the_time_is_over) {
    const SharedWord one{5}, other{7};
    wait_while({one, 4}, {other, 7});
    wait_while({one, 5}, {other, 6});
    wait_while({one, 5}, {other, 7}, std::chrono::milliseconds(1));
    EXPECT_EQ(one.load() + other.load(), 12u);
}

TEST(SharedWordTest, raising_either_of_two_wakes) {
    for (const std::size_t which : {0u, 1u}) {
        SharedWord words[2]{};
        std::jthread waiter([&] {
            while (words[0].load() == 0 && words[1].load() == 0) wait_while({words[0], 0}, {words[1], 0});
        });
        raise_and_wake(words[which]);
    }
}

TEST(SharedWordTest, everybody_who_waits_is_woken_and_no_call_is_lost) {
    SharedWord word{0};
    constexpr int kThreads = 4;
    constexpr std::uint32_t kRounds = 200;
    std::atomic<int> seen{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&] {
            for (std::uint32_t round = 0; round < kRounds; ++round) {
                while (word.load() == round) wait_while(word, round);
                ++seen;
                // The next round begins once all have seen this one.
                while (seen.load() < kThreads * static_cast<int>(round + 1)) std::this_thread::yield();
            }
        });
    for (std::uint32_t round = 0; round < kRounds; ++round) {
        raise_and_wake(word);
        while (seen.load() < kThreads * static_cast<int>(round + 1)) std::this_thread::yield();
    }
    threads.clear();
    EXPECT_EQ(word.load(), kRounds);
}

TEST(SharedWordTest, a_word_in_shared_memory_wakes_another_process) {
    void* const memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* const words = new (memory) SharedWord[2]{};
    const pid_t child = ::fork();
    if (child == 0) {
        while (words[0].load() == 0) wait_while(words[0], 0);
        raise_and_wake(words[1]);
        ::_exit(0);
    }
    ASSERT_GT(child, 0);
    raise_and_wake(words[0]);
    while (words[1].load() == 0) wait_while(words[1], 0);
    int end = -1;
    EXPECT_EQ(::waitpid(child, &end, 0), child);
    EXPECT_EQ(end, 0);
    ::munmap(memory, 4096);
}

}   // namespace
}   // namespace forebay::io
