// How a process is seen: at work, or ending although it has not come to its end.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "area/process.h"

namespace forebay::area {
namespace {

ProcessIdentity process_of(pid_t pid) {
    ProcessIdentity process = identify_this_process().value();
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string field;
    for (int number = 3; number <= 21; ++number) fields >> field;
    fields >> process.start_ticks;
    process.pid = static_cast<std::uint64_t>(pid);
    return process;
}

// A child that does this, and has said so with a byte.
template <class Act>
pid_t child(Act act) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t pid = ::fork();
    if (pid == 0)
        act([&] {
            if (::write(ready[1], "x", 1) != 1) ::_exit(1);
        });
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return pid;
}

void stop_at_exit(pid_t pid, int signal) {
    ASSERT_EQ(::ptrace(PTRACE_SEIZE, pid, nullptr, PTRACE_O_TRACEEXIT), 0);
    ASSERT_EQ(::kill(pid, signal), 0);
    for (int status = 0;;) {
        ASSERT_EQ(::waitpid(pid, &status, 0), pid);
        ASSERT_TRUE(WIFSTOPPED(status));
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) return;
        ASSERT_EQ(::ptrace(PTRACE_CONT, pid, nullptr, WSTOPSIG(status)), 0);
    }
}

void reap(pid_t pid) {
    (void)::kill(pid, SIGKILL);
    (void)::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
    (void)::waitpid(pid, nullptr, 0);
}

TEST(Sight, of_a_process_at_work_is_that_it_stays) {
    EXPECT_EQ(sight_of(identify_this_process().value()), Sight::kStaying);
    const pid_t pid = child([](auto ready) {
        ready();
        for (;;) ::pause();
    });
    EXPECT_EQ(sight_of(process_of(pid)), Sight::kStaying);
    ::kill(pid, SIGSTOP);
    EXPECT_EQ(sight_of(process_of(pid)), Sight::kStaying);
    reap(pid);
}

TEST(Sight, of_a_process_whose_first_thread_has_ended_is_that_it_stays) {
    const pid_t pid = child([](auto ready) {
        std::thread([ready] {
            while (process_of(::getpid()).pid != 0) {   // until the first thread has ended
                std::ifstream file("/proc/self/stat");
                std::string text;
                std::getline(file, text);
                if (text.find(") Z ") != std::string::npos) break;
            }
            ready();
            for (;;) ::pause();
        }).detach();
        (void)::syscall(SYS_exit, 0);   // of this thread alone
    });
    EXPECT_EQ(sight_of(process_of(pid)), Sight::kStaying);
    reap(pid);
}

TEST(Sight, of_a_process_that_has_taken_a_signal_and_is_held_up_is_that_it_ends) {
    const pid_t pid = child([](auto ready) {
        ready();
        for (;;) ::pause();
    });
    stop_at_exit(pid, SIGTERM);
    EXPECT_EQ(sight_of(process_of(pid)), Sight::kEnding);
    reap(pid);
}

TEST(Sight, of_a_process_that_was_waited_for_is_none) {
    const pid_t pid = child([](auto ready) {
        ready();
        for (;;) ::pause();
    });
    const ProcessIdentity process = process_of(pid);
    reap(pid);
    EXPECT_EQ(sight_of(process), Sight::kNone);
}

}   // namespace
}   // namespace forebay::area
