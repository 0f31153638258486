// Threads of forebay never take a signal of the program they live in.
#include "base/background_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>
#include <system_error>

namespace forebay {
namespace {

const std::set<int> kRaisedByInstructions{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

std::set<int> blocked_here() {
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    std::set<int> blocked;
    for (int signal = 1; signal <= SIGRTMAX; ++signal)
        if (sigismember(&mask, signal) == 1) blocked.insert(signal);
    return blocked;
}

std::set<int> blocked_in_a_background_thread() {
    std::set<int> blocked;
    start_background_thread([&] { blocked = blocked_here(); }).join();
    return blocked;
}

TEST(BackgroundThread, blocks_every_signal_that_can_be_blocked_but_faults) {
    const std::set<int> blocked = blocked_in_a_background_thread();
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
        const bool of_the_c_library = signal >= 32 && signal < SIGRTMIN;
        if (signal == SIGKILL || signal == SIGSTOP || of_the_c_library) continue;
        EXPECT_EQ(blocked.contains(signal), !kRaisedByInstructions.contains(signal)) << signal;
    }
}

TEST(BackgroundThread, takes_faults_even_if_its_program_blocks_them) {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const std::set<int> blocked = blocked_in_a_background_thread();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    for (const int signal : kRaisedByInstructions) EXPECT_FALSE(blocked.contains(signal)) << signal;
    EXPECT_TRUE(blocked.contains(SIGUSR1));
}

TEST(BackgroundThread, leaves_the_mask_of_who_starts_it_as_it_was) {
    const std::set<int> before = blocked_here();
    start_background_thread([] {}).join();
    EXPECT_EQ(blocked_here(), before);
    struct NoThread {};
    EXPECT_THROW(
        {
            const SignalsBlocked blocked;
            throw NoThread();
        },
        NoThread);
    EXPECT_EQ(blocked_here(), before);
}

TEST(BackgroundThread, is_stopped_by_its_token) {
    std::jthread thread = start_background_thread([](const std::stop_token& stop) {
        while (!stop.stop_requested()) std::this_thread::yield();
    });
    thread.request_stop();
    thread.join();
}

// A signal of the process that its only other thread blocks stays pending; its default action would end the process.
TEST(BackgroundThread, leaves_a_signal_that_the_program_blocks_pending) {
    sigset_t one, before, pending;
    ::sigemptyset(&one);
    ::sigaddset(&one, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &one, &before);
    std::jthread thread = start_background_thread([](const std::stop_token& stop) {
        while (!stop.stop_requested()) std::this_thread::yield();
    });
    ::kill(::getpid(), SIGUSR1);
    ::sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGUSR1), 1);
    int taken = 0;
    ::sigwait(&one, &taken);
    EXPECT_EQ(taken, SIGUSR1);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(BackgroundThread, outlives_what_its_own_writes_raise) {
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    std::FILE* const file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    int too_long = 0, nobody_reads = 0;
    start_background_thread([&] {
        const rlimit small{1, before.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &small);
        if (::pwrite(::fileno(file), "x", 1, 4096) < 0) too_long = errno;
        ::setrlimit(RLIMIT_FSIZE, &before);
        int ends[2];
        if (::pipe(ends) != 0) return;
        ::close(ends[0]);
        if (::write(ends[1], "x", 1) < 0) nobody_reads = errno;
        ::close(ends[1]);
    }).join();
    std::fclose(file);
    EXPECT_EQ(too_long, EFBIG);
    EXPECT_EQ(nobody_reads, EPIPE);
}

// In the thread of the program, whose default actions would end it.
TEST(OwnWrite, takes_back_what_it_raised_and_nothing_else) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::close(ends[0]);
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    std::FILE* const file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    const std::set<int> blocked = blocked_here();
    {
        const OwnWrite own;
        EXPECT_EQ(::write(ends[1], "x", 1), -1);
        EXPECT_EQ(errno, EPIPE);
        const rlimit small{1, before.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &small);
        EXPECT_EQ(::pwrite(::fileno(file), "x", 1, 4096), -1);
        ::setrlimit(RLIMIT_FSIZE, &before);
    }
    EXPECT_EQ(blocked_here(), blocked);
    // One that was pending before stays so.
    sigset_t one, mask, pending;
    ::sigemptyset(&one);
    ::sigaddset(&one, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &one, &mask);
    ::raise(SIGPIPE);
    {
        const OwnWrite own;
        EXPECT_EQ(::write(ends[1], "x", 1), -1);
    }
    ::sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGPIPE), 1);
    int taken = 0;
    ::sigwait(&one, &taken);
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    ::close(ends[1]);
    std::fclose(file);
}

}   // namespace
}   // namespace forebay
