// A lock that lives exactly as long as one image of one process does, whatever that process does meanwhile.
#include "io/process_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "io/posix_file.h"

namespace forebay::io {
namespace {

// What the two processes of a test tell each other.
class Signal {
  public:
    Signal() { EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0); }
    ~Signal() {
        for (const int end : ends_) ::close(end);
    }
    Signal(const Signal&) = delete;
    Signal& operator=(const Signal&) = delete;
    void give() const { (void)!::write(ends_[1], "\n", 1); }
    void await() const {
        char byte = 0;
        (void)!::read(ends_[0], &byte, 1);
    }
    // Of a child: it is told also by the death of all who could.
    [[nodiscard]] int to_await() const noexcept { return ends_[0]; }
    [[nodiscard]] int to_give() const noexcept { return ends_[1]; }

  private:
    int ends_[2] = {-1, -1};
};

class ProcessLockTest : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        std::string made = std::string(GetParam()) + "/forebay_lock_XXXXXX";
        ASSERT_NE(::mkdtemp(made.data()), nullptr);
        directory_ = made;
        folder_ = ::open(made.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    void TearDown() override {
        ::close(folder_);
        std::filesystem::remove_all(directory_);
    }
    [[nodiscard]] Result<std::unique_ptr<ProcessLock>> take() const {
        return ProcessLock::take(folder_, "alive", directory_ + "/alive");
    }
    [[nodiscard]] static Holder holder_in(const std::string& directory) {
        Holder holder = Holder::kUntold;
        (void)ProcessLock::look_at(directory, "alive", holder);
        return holder;
    }
    [[nodiscard]] Holder holder() const { return holder_in(directory_); }
    [[nodiscard]] bool is_held() const { return holder() == Holder::kSomebody; }
    // A child that has the lock when this returns, and then does `act`.
    pid_t child_with_lock(const std::function<void()>& act) {
        const pid_t child = ::fork();
        if (child == 0) {
            auto lock = take();
            if (!lock) ::_exit(9);
            (void)lock.value().release();
            ready_.give();
            act();
            ::_exit(0);
        }
        ready_.await();
        return child;
    }
    static void await_zombie(pid_t child) {
        siginfo_t ended{};
        ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
    }
    static void kill_and_wait(pid_t child) {
        (void)::kill(child, SIGKILL);
        (void)::waitpid(child, nullptr, 0);
    }
    // Ends when `go_` is given: a program that knows nothing of locks.
    void exec_until_go() const {
        (void)::dup2(go_.to_await(), 0);
        ::execl("/bin/sh", "sh", "-c", "read x", static_cast<char*>(nullptr));
        ::_exit(8);
    }

    std::string directory_;
    int folder_ = -1;
    Signal ready_, go_;
};

INSTANTIATE_TEST_SUITE_P(On, ProcessLockTest, testing::Values("/tmp", "/dev/shm"),
                         [](const auto& where) { return std::string(where.param).substr(1, 3); });

TEST_P(ProcessLockTest, is_seen_by_others_and_by_whoever_has_it_and_asking_does_not_end_it) {
    EXPECT_EQ(holder(), Holder::kUntold);
    auto lock = take();
    ASSERT_TRUE(lock) << lock.status().message();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_held());
    const auto second = take();
    EXPECT_EQ(second.status().sys_errno(), EBUSY);
    EXPECT_EQ(second.status().message(), "process " + std::to_string(::getpid()));
    EXPECT_EQ(ProcessLock::keep_free(folder_, "alive", "alive").status().sys_errno(), EBUSY);
    lock.value().reset();
    EXPECT_EQ(holder(), Holder::kNobody);
    EXPECT_TRUE(take());
}

TEST_P(ProcessLockTest, leaves_no_file_if_there_is_no_memory_for_it) {
    const pid_t child = ::fork();
    if (child == 0) {
        (void)ProcessLock::take(-1, "alive", directory_ + "/alive");   // its message has its memory now
        const rlimit none{1, RLIM_INFINITY};
        if (::setrlimit(RLIMIT_AS, &none) != 0) ::_exit(7);
        const auto lock = take();
        ::_exit(lock.status().sys_errno() == ENOMEM ? 0 : 6);
    }
    int ended = -1;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0);
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/alive")) << "it would tell nothing for ever";
    EXPECT_TRUE(take());
}

TEST_P(ProcessLockTest, outlives_the_closing_of_all_descriptors) {
    const pid_t child = child_with_lock([&] {
        for (int each = 3; each < 1024; ++each)
            if (each != go_.to_await() && each != ready_.to_give()) ::close(each);
        ready_.give();
        go_.await();
    });
    ready_.await();
    EXPECT_TRUE(is_held());
    kill_and_wait(child);
    EXPECT_EQ(holder(), Holder::kNobody);
}

TEST_P(ProcessLockTest, ends_with_a_process_that_nobody_has_waited_for) {
    const pid_t child = child_with_lock([&] { go_.await(); });
    EXPECT_TRUE(is_held());
    EXPECT_FALSE(ProcessLock::await_end(directory_, "alive", std::chrono::milliseconds(1)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    EXPECT_TRUE(ProcessLock::await_end(directory_, "alive", std::chrono::minutes(1)));
    await_zombie(child);
    EXPECT_EQ(holder(), Holder::kNobody);
    (void)::waitpid(child, nullptr, 0);
}

TEST_P(ProcessLockTest, lasts_as_long_as_any_thread_also_when_the_first_has_ended) {
    const pid_t child = child_with_lock([&] {
        std::thread([&] {
            ready_.give();
            go_.await();
        }).detach();
        ::syscall(SYS_exit, 0);   // this thread only; pthread_exit would unwind into the test
    });
    ready_.await();
    const std::string stat = "/proc/" + std::to_string(child) + "/stat";
    for (std::string text; text.find(") Z ") == std::string::npos;) {   // the first thread has ended
        FILE* const file = ::fopen(stat.c_str(), "r");
        ASSERT_NE(file, nullptr);
        char buffer[512] = {};
        (void)!::fread(buffer, 1, sizeof buffer - 1, file);
        ::fclose(file);
        text = buffer;
    }
    EXPECT_TRUE(is_held());
    kill_and_wait(child);
    EXPECT_EQ(holder(), Holder::kNobody);
}

TEST_P(ProcessLockTest, ends_with_exec_though_the_process_goes_on) {
    const pid_t child = child_with_lock([&] { exec_until_go(); });
    EXPECT_TRUE(ProcessLock::await_end(directory_, "alive", std::chrono::minutes(1)));
    EXPECT_EQ(::kill(child, 0), 0);
    EXPECT_TRUE(take()) << "another image may have it";
    kill_and_wait(child);
}

TEST_P(ProcessLockTest, ends_with_exec_from_a_thread) {
    const pid_t child = child_with_lock([&] { std::thread([&] { exec_until_go(); }).join(); });
    EXPECT_TRUE(ProcessLock::await_end(directory_, "alive", std::chrono::minutes(1)));
    EXPECT_EQ(::kill(child, 0), 0);
    kill_and_wait(child);
}

TEST_P(ProcessLockTest, is_not_a_forked_childs_which_neither_keeps_nor_ends_it) {
    const pid_t child = child_with_lock([&] {
        if (::fork() == 0) {
            ready_.give();
            go_.await();
            ::_exit(0);
        }
        ready_.await();
        ready_.give();
        go_.await();
    });
    ready_.await();
    EXPECT_TRUE(is_held());
    kill_and_wait(child);
    EXPECT_EQ(holder(), Holder::kNobody) << "its child lives on";
    go_.give();

    auto lock = take();
    ASSERT_TRUE(lock);
    const pid_t other = ::fork();
    if (other == 0) {
        const bool own = lock.value()->is_of_this_process();
        lock.value().reset();
        ::_exit(own ? 1 : 0);
    }
    int end = -1;
    ASSERT_EQ(::waitpid(other, &end, 0), other);
    EXPECT_EQ(end, 0);
    EXPECT_TRUE(lock.value()->is_of_this_process());
    EXPECT_TRUE(is_held());
}

TEST_P(ProcessLockTest, is_neither_kept_nor_ended_by_a_child_that_is_made_to_run_another_program) {
    const pid_t child = child_with_lock([&] {
        const pid_t program = ::vfork();
        if (program == 0) {
            (void)::dup2(go_.to_await(), 0);
            ::execl("/bin/sh", "sh", "-c", "read x", static_cast<char*>(nullptr));
            ::_exit(8);
        }
        ready_.give();
        for (;;) ::pause();
    });
    ready_.await();
    EXPECT_TRUE(is_held()) << "a child has run exec";
    kill_and_wait(child);
    EXPECT_EQ(holder(), Holder::kNobody) << "its child lives on";
    go_.give();
}

// Of the descriptor, before it is closed, and of the mapping, before it is told not to be inherited.
TEST_P(ProcessLockTest, is_not_inherited_by_a_child_that_is_forked_while_it_is_taken) {
    std::atomic<bool> over{false};
    std::thread taker([&] {
        while (!over) (void)take();
    });
    for (int i = 0; i < 200; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
                std::error_code error;
                if (std::filesystem::read_symlink(each.path(), error).string().ends_with("/alive")) ::_exit(1);
            }
            ::_exit(0);
        }
        int end = -1;
        ASSERT_EQ(::waitpid(child, &end, 0), child);
        ASSERT_EQ(end, 0) << "a child has the lock's descriptor";
    }
    over = true;
    taker.join();
}

TEST_P(ProcessLockTest, can_be_taken_while_many_look) {
    std::atomic<bool> over{false};
    std::vector<std::thread> lookers;
    for (int i = 0; i < 3; ++i)
        lookers.emplace_back([&] {
            while (!over) (void)holder();
        });
    for (int i = 0; i < 200; ++i) {
        auto lock = take();
        while (lock.status().sys_errno() == EAGAIN) lock = take();   // one that looked does not get a processor
        EXPECT_TRUE(lock) << lock.status().message();
        EXPECT_TRUE(is_held());
    }
    over = true;
    for (auto& looker : lookers) looker.join();
}

TEST_P(ProcessLockTest, cannot_be_taken_while_its_file_is_being_removed) {
    auto kept = ProcessLock::keep_free(folder_, "alive", "alive");
    ASSERT_TRUE(kept) << kept.status().message();
    EXPECT_TRUE(ProcessLock::keep_free(folder_, "alive", "alive")) << "any number may";
    EXPECT_NE(holder(), Holder::kSomebody);
    std::atomic<bool> has{false};
    std::thread taker([&] {
        auto lock = take();
        while (lock.status().sys_errno() == EAGAIN) lock = take();
        has = lock.is_ok();
        EXPECT_TRUE(std::filesystem::exists(directory_ + "/alive")) << "it is not of the file that was removed";
    });
    ASSERT_EQ(::unlink((directory_ + "/alive").c_str()), 0);
    kept.value().reset();
    taker.join();
    EXPECT_TRUE(has);
}

TEST_P(ProcessLockTest, of_an_older_forebay_is_still_seen_and_its_file_alone_tells_nothing) {
    const pid_t child = ::fork();
    if (child == 0) {
        const int file = ::openat(folder_, "alive", O_RDWR | O_CREAT, 0600);
        struct flock whole{};
        whole.l_type = F_WRLCK;
        whole.l_whence = SEEK_SET;
        if (::fcntl(file, F_SETLK, &whole) != 0) ::_exit(1);
        ready_.give();
        go_.await();
        ::_exit(0);
    }
    ready_.await();
    EXPECT_TRUE(is_held());
    EXPECT_EQ(take().status().sys_errno(), EBUSY);
    EXPECT_EQ(ProcessLock::keep_free(folder_, "alive", "alive").status().sys_errno(), EBUSY);
    go_.give();
    (void)::waitpid(child, nullptr, 0);
    EXPECT_EQ(holder(), Holder::kUntold);
}

TEST_P(ProcessLockTest, is_looked_for_in_a_directory_that_is_gone_or_no_directory) {
    EXPECT_EQ(holder_in(directory_ + "/gone"), Holder::kNobody);
    ASSERT_EQ(::symlink("/", (directory_ + "/link").c_str()), 0);
    EXPECT_EQ(holder_in(directory_ + "/link"), Holder::kUntold);
    ASSERT_EQ(::symlink("elsewhere", (directory_ + "/alive").c_str()), 0);
    EXPECT_EQ(holder(), Holder::kUntold);
    EXPECT_FALSE(take());
}

}   // namespace
}   // namespace forebay::io
