// A program may close descriptors that it does not know, and open files of its own under their numbers.
#include "io/descriptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <thread>

#include "io/posix_file.h"

namespace forebay::io {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class DescriptorTest : public ::testing::Test {
  protected:
    DescriptorTest() {
        path_ = (fs::temp_directory_path() / "forebay_descriptor_XXXXXX").string();
        EXPECT_NE(::mkdtemp(path_.data()), nullptr);
    }
    ~DescriptorTest() override { fs::remove_all(path_); }

    std::string in(const char* name) const { return path_ + "/" + name; }
    // Opens a file of forebay's; `number_` is what it got.
    std::unique_ptr<File> open(const char* name) {
        number_ = ::open(in(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        EXPECT_GE(number_, 0);
        return adopt_posix_file(number_, in(name));
    }
    // What the program does: closes forebay's number, and opens a file of its own, which gets it.
    void take_over(const char* name, int flags = O_RDWR) const {
        ASSERT_EQ(::close(number_), 0);
        std::ofstream(in(name)) << "the program's";
        const int mine = ::open(in(name).c_str(), flags | O_CLOEXEC);
        ASSERT_EQ(mine, number_);
    }
    std::string content(const char* name) const {
        std::ostringstream text;
        text << std::ifstream(in(name)).rdbuf();
        return text.str();
    }
    static std::vector<std::byte> bytes(const char* text) {
        std::vector<std::byte> made;
        for (; *text != '\0'; ++text) made.push_back(static_cast<std::byte>(*text));
        return made;
    }
    static int open_numbers() {
        return static_cast<int>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
    }

    std::string path_;
    int number_ = -1;
};

TEST_F(DescriptorTest, a_number_that_the_program_took_over_is_neither_written_read_nor_closed) {
    {
        auto file = open("forebay's");
        ASSERT_TRUE(file->write_at(0, bytes("staged")));
        take_over("program's");
        ASSERT_TRUE(file->write_at(6, bytes(" bytes")));
        ASSERT_TRUE(file->resize(11));
        EXPECT_EQ(file->size().value(), 11u);
        std::vector<std::byte> read(6);
        ASSERT_TRUE(file->read_at(0, read));
        EXPECT_EQ(read, bytes("staged"));
        ASSERT_TRUE(file->allocate(0, 100));
        EXPECT_TRUE(file->sync());
        EXPECT_TRUE(file->map(0, 4096));
    }
    EXPECT_EQ(content("forebay's").substr(0, 11), "staged byte");
    EXPECT_EQ(content("program's"), "the program's");
    EXPECT_GE(::fcntl(number_, F_GETFD), 0) << "the program's descriptor was closed";
    ::close(number_);
}

TEST_F(DescriptorTest, a_pipe_or_socket_under_its_number_gets_nothing) {
    auto file = open("forebay's");
    ASSERT_EQ(::close(number_), 0);
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    ASSERT_TRUE(ends[0] == number_ || ends[1] == number_);
    ASSERT_TRUE(file->write_at(0, bytes("staged")));
    char got[16];
    EXPECT_EQ(::read(ends[0], got, sizeof got), -1);
    EXPECT_EQ(::read(ends[1], got, sizeof got), -1);
    ::close(ends[0]);
    ::close(ends[1]);
    EXPECT_EQ(content("forebay's"), "staged");
}

TEST_F(DescriptorTest, a_number_that_is_closed_and_free_is_opened_anew_once) {
    auto file = open("forebay's");
    ASSERT_EQ(::close(number_), 0);
    ASSERT_TRUE(file->write_at(0, bytes("a")));
    const int opened = open_numbers();
    ASSERT_TRUE(file->write_at(1, bytes("b")));
    EXPECT_EQ(open_numbers(), opened);
    EXPECT_EQ(content("forebay's"), "ab");
}

TEST_F(DescriptorTest, the_same_file_opened_by_the_program_is_the_program_s_all_the_same) {
    {
        auto file = open("forebay's");
        ASSERT_EQ(::close(number_), 0);
        ASSERT_EQ(::open(in("forebay's").c_str(), O_RDWR | O_APPEND | O_CLOEXEC), number_);
        ASSERT_TRUE(file->write_at(3, bytes("at its place")));   // not appended
    }
    EXPECT_EQ(content("forebay's").substr(3), "at its place");
    EXPECT_EQ(::write(number_, "!", 1), 1);   // neither closed nor moved
    ::close(number_);
}

TEST_F(DescriptorTest, another_file_that_has_taken_its_name_is_not_taken_for_it) {
    auto file = open("forebay's");
    ASSERT_TRUE(file->write_at(0, bytes("staged")));
    fs::rename(in("forebay's"), in("moved"));
    std::ofstream(in("forebay's")) << "another";
    ASSERT_TRUE(file->write_at(6, bytes("!")));   // as long as the number is there its name does not matter
    take_over("program's");
    const Status refused = file->write_at(0, bytes("lost"));
    EXPECT_EQ(refused.sys_errno(), ESTALE);
    EXPECT_THAT(refused.message(), HasSubstr("the program has closed"));
    EXPECT_THAT(refused.message(), HasSubstr(in("forebay's")));
    fs::remove(in("forebay's"));
    EXPECT_EQ(file->write_at(0, bytes("lost")).sys_errno(), ENOENT);
    fs::rename(in("moved"), in("forebay's"));
    EXPECT_TRUE(file->write_at(0, bytes("S")));   // there it is again
    EXPECT_EQ(content("forebay's"), "Staged!");
    EXPECT_EQ(content("program's"), "the program's");
    file.reset();
    ::close(number_);
}

TEST_F(DescriptorTest, what_was_locked_is_locked_again_or_refused) {
    number_ = ::open(in("forebay's").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    Descriptor descriptor(number_, in("forebay's"), O_RDWR);
    ASSERT_TRUE(descriptor.lock(LOCK_EX | LOCK_NB));
    ASSERT_EQ(::close(number_), 0);
    ASSERT_TRUE(descriptor.use());
    const int other = ::open(in("forebay's").c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_NE(::flock(other, LOCK_EX | LOCK_NB), 0) << "the lock was not had again";
    ASSERT_EQ(::close(descriptor.number()), 0);
    ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
    const auto refused = descriptor.use();
    EXPECT_EQ(refused.status().sys_errno(), EWOULDBLOCK);
    EXPECT_THAT(refused.status().message(), HasSubstr("locked"));
    ::close(other);
    EXPECT_TRUE(descriptor.lock(LOCK_UN));
    EXPECT_TRUE(descriptor.use());
}

TEST_F(DescriptorTest, a_forked_child_leaves_its_parent_the_lock) {
    number_ = ::open(in("forebay's").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    Descriptor descriptor(number_, in("forebay's"), O_RDWR);
    ASSERT_TRUE(descriptor.lock(LOCK_EX | LOCK_NB));
    const pid_t child = ::fork();
    if (child == 0) ::_exit(descriptor.lock(LOCK_UN) ? 0 : 1);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    const int other = ::open(in("forebay's").c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_NE(::flock(other, LOCK_EX | LOCK_NB), 0) << "the child has ended the lock";
    EXPECT_TRUE(descriptor.lock(LOCK_UN));
    EXPECT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
    ::close(other);
}

// A forked child that lives as long as this object, and calls nothing of forebay.
class IdleChild {
  public:
    IdleChild() {
        EXPECT_EQ(::pipe2(ends_.data(), O_CLOEXEC), 0);
        child_ = ::fork();
        if (child_ != 0) return;
        ::close(ends_[1]);
        char nothing;
        (void)!::read(ends_[0], &nothing, 1);   // until the parent closes its end
        ::_exit(0);
    }
    ~IdleChild() {
        ::close(ends_[1]);
        ::close(ends_[0]);
        int status = -1;
        EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    }
    IdleChild(const IdleChild&) = delete;
    IdleChild& operator=(const IdleChild&) = delete;

  private:
    std::array<int, 2> ends_{};
    pid_t child_ = -1;
};

// Another thread forks while this one holds the lock; the child lives on and never ends the lock itself.
TEST_F(DescriptorTest, the_lock_of_a_directory_ends_although_a_forked_child_has_its_descriptor) {
    const auto directory = std::move(open_posix_directory(path_)).value();
    auto lock = directory->lock(Directory::Patience::kTry);
    ASSERT_TRUE(lock);
    const IdleChild child;
    EXPECT_FALSE(directory->lock(Directory::Patience::kTry));
    lock = Status(Code::kUnavailable, "");
    EXPECT_TRUE(directory->lock(Directory::Patience::kTry));
}

TEST_F(DescriptorTest, the_lock_of_a_file_to_recover_ends_although_a_forked_child_has_its_descriptor) {
    std::ofstream(in("target")) << "bytes";
    auto existing = open_existing_file(in("target"));
    ASSERT_TRUE(existing) << existing.status().message();
    const IdleChild child;
    EXPECT_EQ(open_existing_file(in("target")).status().code(), Code::kUnavailable);
    existing = Status(Code::kUnavailable, "");
    const auto again = open_existing_file(in("target"));
    EXPECT_TRUE(again) << again.status().message();
}

// The child's end of its copy leaves the parent the lock.
TEST_F(DescriptorTest, a_forked_child_that_gives_up_a_file_to_recover_leaves_its_parent_the_lock) {
    std::ofstream(in("target")) << "bytes";
    auto existing = open_existing_file(in("target"));
    ASSERT_TRUE(existing) << existing.status().message();
    const pid_t child = ::fork();
    if (child == 0) {
        existing = Status(Code::kUnavailable, "");
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(open_existing_file(in("target")).status().code(), Code::kUnavailable);
}

TEST_F(DescriptorTest, a_file_that_is_known_is_opened_by_its_first_use) {
    std::ofstream(in("forebay's")) << "staged";
    const auto known = identify(in("forebay's")).value();
    const int before = open_numbers();
    auto descriptor = std::make_shared<Descriptor>(known, born_ns(in("forebay's")), in("forebay's"));
    const auto file = make_posix_file(descriptor, in("forebay's"));
    EXPECT_EQ(file->identity().value(), known);
    EXPECT_FALSE(descriptor->is_ours());
    EXPECT_EQ(open_numbers(), before);
    char got[16];
    EXPECT_EQ(file->read_at(0, std::as_writable_bytes(std::span(got))).value(), content("forebay's").size());
    EXPECT_EQ(open_numbers(), before + 1) << "it stays open";
    EXPECT_TRUE(descriptor->is_ours());
    EXPECT_EQ(descriptor->close(), 0);
    EXPECT_EQ(open_numbers(), before);
}

TEST_F(DescriptorTest, another_file_that_has_the_name_of_one_that_is_known_is_not_opened_for_it) {
    std::ofstream(in("forebay's")) << "staged";
    Descriptor descriptor(identify(in("forebay's")).value(), 0, in("forebay's"));
    fs::rename(in("forebay's"), in("moved"));
    EXPECT_EQ(descriptor.use().status().sys_errno(), ENOENT);
    std::ofstream(in("forebay's")) << "another";
    const Status refused = descriptor.use().status();
    EXPECT_EQ(refused.sys_errno(), ESTALE);
    EXPECT_THAT(refused.message(), Not(HasSubstr("the program has closed")));
    EXPECT_EQ(descriptor.close(), 0) << "there is nothing to be closed";
}

TEST_F(DescriptorTest, a_symbolic_link_is_no_name_of_a_file) {
    std::ofstream(in("forebay's")) << "staged";
    const auto known = identify(in("forebay's")).value();
    fs::create_symlink(in("forebay's"), in("link"));
    EXPECT_TRUE(is_name_of(in("forebay's"), known));
    EXPECT_FALSE(is_name_of(in("link"), known));
    EXPECT_FALSE(is_name_of(in("none"), known));
}

TEST_F(DescriptorTest, at_rest_it_takes_no_number) {
    const int before = open_numbers();
    auto file = open("forebay's");
    auto directory = std::move(open_posix_directory(path_)).value();
    file->rest();
    directory->rest();
    EXPECT_EQ(open_numbers(), before);
    ASSERT_TRUE(file->write_at(0, bytes("staged")));
    EXPECT_EQ(directory->list().value().size(), 1u);
    ASSERT_TRUE(directory->create_directory("inner"));
    EXPECT_TRUE(directory->lock(Directory::Patience::kTry));
    const auto facts = directory->facts(".").value(), other = open_posix_directory(path_).value()->facts(".").value();
    EXPECT_EQ(facts.kind, Facts::Kind::kDirectory);
    EXPECT_EQ(facts.modified_ns, other.modified_ns);
    EXPECT_EQ(open_numbers(), before);
    EXPECT_EQ(content("forebay's"), "staged");
    // Still that file and that directory, not what has their names.
    fs::rename(path_, path_ + "-moved");
    fs::create_directory(path_);
    EXPECT_FALSE(directory->open_file("file", OpenMode::kCreateNew));
    EXPECT_FALSE(file->write_at(0, bytes("lost")));
    EXPECT_TRUE(fs::is_empty(path_));
    fs::remove_all(path_ + "-moved");
}

TEST_F(DescriptorTest, a_flush_tells_whether_it_could_ask) {
    const int number = ::open(in("forebay's").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    Descriptor descriptor(number, in("forebay's"), O_RDWR);
    EXPECT_EQ(descriptor.flush_as_close(), 0);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const std::optional<int> without_number = descriptor.flush_as_close();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(without_number, std::nullopt);
    EXPECT_EQ(descriptor.flush_as_close(), 0);
    ::close(number);
    EXPECT_EQ(descriptor.flush_as_close(), std::nullopt);
}

TEST_F(DescriptorTest, a_directory_whose_number_was_taken_over_makes_nothing_in_the_program_s) {
    fs::create_directory(in("program's"));
    fs::create_directory(in("forebay's"));
    number_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);   // the number that the next directory gets
    ::close(number_);
    auto directory = std::move(open_posix_directory(in("forebay's"))).value();
    ASSERT_EQ(::close(number_), 0);
    ASSERT_EQ(::open(in("program's").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), number_);
    ASSERT_TRUE(directory->open_file("file", OpenMode::kCreateNew));
    EXPECT_TRUE(fs::exists(in("forebay's/file")));
    directory.reset();
    EXPECT_TRUE(fs::is_empty(in("program's")));
    EXPECT_GE(::fcntl(number_, F_GETFD), 0);
    ::close(number_);
}

TEST_F(DescriptorTest, a_number_that_was_lent_to_the_program_begins_at_0_and_may_be_moved) {
    number_ = ::open(in("forebay's").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    Descriptor descriptor(number_, in("forebay's"), O_RDWR);
    const int lent = *descriptor.lend();
    EXPECT_EQ(lent, number_);
    EXPECT_EQ(::lseek(lent, 0, SEEK_CUR), 0);
    ::lseek(lent, 17, SEEK_SET);
    EXPECT_EQ(descriptor.use().value().number(), number_);
}

TEST_F(DescriptorTest, the_numbers_of_the_standard_streams_are_left_to_the_program) {
    auto file = open("forebay's");
    ASSERT_EQ(::close(number_), 0);
    const int input = ::dup(STDIN_FILENO);
    ::close(STDIN_FILENO);
    EXPECT_TRUE(file->write_at(0, bytes("staged")));
    EXPECT_EQ(::fcntl(STDIN_FILENO, F_GETFD), -1) << "taken";
    if (input >= 0) {
        ::dup2(input, STDIN_FILENO);
        ::close(input);
    }
}

TEST_F(DescriptorTest, threads_that_find_it_lost_open_it_once) {
    auto file = open("forebay's");
    for (int round = 0; round < 20; ++round) {
        const int before = open_numbers();
        ASSERT_EQ(::close(number_), 0);
        {
            std::vector<std::jthread> threads;
            for (std::uint64_t i = 0; i < 4; ++i)
                threads.emplace_back([&, i] { EXPECT_TRUE(file->write_at(i, bytes("x"))); });
        }
        EXPECT_EQ(open_numbers(), before);
        // It is the only number that was opened since.
        number_ = ::dup(STDERR_FILENO) - 1;
        ::close(number_ + 1);
    }
    EXPECT_EQ(content("forebay's"), "xxxx");
}

int begun[2] = {-1, -1}, forked[2] = {-1, -1};   // pipes

void await_fork(int) {
    char byte = 0;
    (void)!::write(begun[1], &byte, 1);
    (void)!::read(forked[0], &byte, 1);
}

// The break of a lease sends a signal to the thread that is opening the file. It waits for the fork in its handler.
TEST_F(DescriptorTest, a_child_that_was_forked_while_another_thread_opened_the_file_opens_it_itself) {
    std::ofstream(in("forebay's")) << "staged";
    const int lease = ::open(in("forebay's").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(lease, 0);
    if (::fcntl(lease, F_SETLEASE, F_RDLCK) != 0) GTEST_SKIP() << "no leases here";
    const int number = ::open(in("forebay's").c_str(), O_RDONLY | O_CLOEXEC);
    Descriptor descriptor(number, in("forebay's"), O_RDWR);   // as if it was opened for writing
    ::close(number);
    ASSERT_EQ(::pipe2(begun, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(forked, O_CLOEXEC), 0);
    struct sigaction before{}, action{};
    action.sa_handler = await_fork;
    ASSERT_EQ(::sigaction(SIGIO, &action, &before), 0);
    sigset_t only, mask;
    ::sigemptyset(&only);
    ::sigaddset(&only, SIGIO);
    ::pthread_sigmask(SIG_BLOCK, &only, &mask);
    pid_t child = -1;
    std::thread forking([&] {
        char byte = 0;
        if (::read(begun[0], &byte, 1) != 1) return;
        child = ::fork();
        if (child == 0) {
            ::alarm(60);   // ends a child that waits for ever
            (void)::fcntl(lease, F_SETLEASE, F_UNLCK);
            const bool used = descriptor.use() && descriptor.use();
            ::_exit(used && descriptor.close() == 0 && !descriptor.use() ? 0 : 1);
        }
        (void)!::write(forked[1], &byte, 1);
    });
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    EXPECT_EQ(descriptor.use().status().sys_errno(), EWOULDBLOCK);
    ::close(begun[1]);
    forking.join();
    ::sigaction(SIGIO, &before, nullptr);
    for (const int end : {begun[0], forked[0], forked[1], lease}) ::close(end);
    ASSERT_GT(child, 0);
    int ended = -1;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0);
    EXPECT_TRUE(descriptor.use());
}

TEST_F(DescriptorTest, a_file_of_the_staging_area_never_grows_beyond_what_the_process_may_write) {
    auto directory = std::move(open_posix_directory(path_)).value();
    auto file = std::move(directory->open_file("log", OpenMode::kCreateNew)).value();
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{8192, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    // The default action of SIGXFSZ would end this program.
    const Status allocated = file->allocate(4096, 8192), resized = file->resize(8193),
                 written = file->write_at(8190, bytes("xxx"));
    const Status within = file->allocate(4096, 4096), at_its_end = file->write_at(8189, bytes("xxx"));
    const rlimit smaller{4096, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &smaller);   // it may change while the file is open
    const Status later = file->write_at(8000, bytes("x"));
    ::setrlimit(RLIMIT_FSIZE, &before);
    for (const Status* const status : {&allocated, &resized, &written, &later}) {
        EXPECT_EQ(status->sys_errno(), EFBIG);
        EXPECT_EQ(status->code(), Code::kNoSpace);
        EXPECT_THAT(status->message(), HasSubstr("ulimit -f"));
    }
    EXPECT_TRUE(within);
    EXPECT_TRUE(at_its_end);
    EXPECT_TRUE(file->resize(1 << 20));
}

std::atomic<int> alarms{0};

// In memory an allocation that a signal interrupts begins anew, so one that takes longer than the timer would never
// end.
TEST_F(DescriptorTest, a_storm_of_signals_breaks_no_call) {
    auto directory = open_posix_directory("/dev/shm");
    if (!directory) GTEST_SKIP() << "no /dev/shm";
    const std::string name = fs::path(path_).filename();
    auto file = std::move(directory.value()->open_file(name, OpenMode::kCreateNew)).value();
    struct sigaction action{}, before{};
    action.sa_handler = [](int) { ++alarms; };   // without SA_RESTART
    ::sigaction(SIGALRM, &action, &before);
    const itimerval storm{{0, 200}, {0, 200}}, calm{};
    ::setitimer(ITIMER_REAL, &storm, nullptr);
    const std::vector<std::byte> block(16 << 20, std::byte{7});
    Status outcome = file->allocate(0, 64 << 20);
    if (outcome) outcome = file->write_at(0, block);
    auto mapping = file->map(0, 64 << 20);
    if (mapping) mapping.value()->touch();
    std::vector<std::byte> read(block.size());
    const auto got = file->read_at(0, read);
    ::setitimer(ITIMER_REAL, &calm, nullptr);
    ::sigaction(SIGALRM, &before, nullptr);
    (void)directory.value()->remove_file(name);
    EXPECT_TRUE(outcome) << outcome.message();
    EXPECT_TRUE(mapping);
    ASSERT_TRUE(got);
    EXPECT_EQ(read, block);
    EXPECT_GT(alarms.load(), 0);
}

}   // namespace
}   // namespace forebay::io
