#include "caller.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace forebay::slowfs {
namespace {

TEST(Callers, a_thread_belongs_to_its_process_also_after_its_end) {
    Callers callers;
    pid_t thread = 0;
    std::jthread([&] {
        thread = ::gettid();
        EXPECT_EQ(callers.process_of(thread, 1), ::getpid());
    }).join();
    ASSERT_NE(thread, ::getpid());
    EXPECT_EQ(callers.process_of(thread, 2), ::getpid());
    EXPECT_EQ(callers.process_of(thread, 2 + Callers::kBelievedNs), ::getpid()) << "nobody else has its number";
}

TEST(Callers, one_that_cannot_be_found_is_a_process_of_its_own) {
    Callers callers;
    EXPECT_EQ(callers.process_of(0, 1), 0);
}

}   // namespace
}   // namespace forebay::slowfs
