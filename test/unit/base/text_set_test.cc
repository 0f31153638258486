#include "base/text_set.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

static thread_local void (*at_next_allocation)() = nullptr;   // this thread's; it runs in the midst of a call

[[gnu::noinline]] void* operator new(std::size_t size) {
    if (auto* const act = std::exchange(at_next_allocation, nullptr)) act();
    void* const memory = std::malloc(size > 0 ? size : 1);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

constexpr const char* kLong = "a text that is too long for the place that a string has in itself";

TEST(TextSet, a_text_is_new_once) {
    static constinit forebay::TextSet texts;
    EXPECT_TRUE(texts.add("one"));
    EXPECT_TRUE(texts.add(""));
    EXPECT_TRUE(texts.add(kLong));
    EXPECT_FALSE(texts.add("one"));
    EXPECT_FALSE(texts.add(""));
    EXPECT_FALSE(texts.add(kLong));
    EXPECT_TRUE(texts.add("ones"));
}

TEST(TextSet, a_text_of_several_threads_is_new_for_one_of_them) {
    static constinit forebay::TextSet texts;
    constexpr int kThreads = 4, kTexts = 200;
    std::atomic<int> added{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
        threads.emplace_back([&] {
            for (int text = 0; text < kTexts; ++text)
                if (texts.add(kLong + std::to_string(text))) ++added;
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(added, kTexts);
}

TEST(TextSet, without_memory_it_is_unchanged) {
    static constinit forebay::TextSet texts;
    at_next_allocation = [] { throw std::bad_alloc(); };
    EXPECT_THROW(texts.add(kLong), std::bad_alloc);
    EXPECT_TRUE(texts.add(kLong));
}

constinit forebay::TextSet forked_texts;
pid_t child = -1;

TEST(TextSet, a_child_that_is_forked_in_the_midst_of_a_call_adds_texts) {
    EXPECT_TRUE(forked_texts.add("before"));
    at_next_allocation = [] {
        child = ::fork();
        if (child != 0) return;
        ::alarm(60);   // ends a child that waits for ever
        ::_exit(!forked_texts.add("before") && forked_texts.add("in the child") && forked_texts.add(kLong) ? 0 : 1);
    };
    EXPECT_TRUE(forked_texts.add(kLong));
    ASSERT_GT(child, 0);
    int ended = -1;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0);
    EXPECT_TRUE(forked_texts.add("in the child"));
}

}   // namespace
