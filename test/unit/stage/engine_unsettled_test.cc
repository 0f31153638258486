// What the engine does when a file is opened that a process which is not known to be dead may still write to.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "area/process.h"
#include "area/staging_area.h"
#include "io/fault_file.h"
#include "io/posix_file.h"
#include "ledger/ledger.h"
#include "support/engine_fixture.h"
#include "support/jumping_clock.h"
#include "support/left_threads.h"
#include "support/leftover.h"
#include "support/real_files.h"
#include "support/scripted_file.h"

namespace forebay {
namespace {

using stage::Engine;

std::uint64_t start_ticks_of(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text;
    std::getline(file, text);
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string field;
    for (int number = 3; number <= 21; ++number) fields >> field;
    std::uint64_t ticks = 0;
    fields >> ticks;
    return ticks;
}

// Another process, which holds the lock that says that it lives.
class OtherProcess {
  public:
    explicit OtherProcess(std::string area) : area_(std::move(area)) {
        EXPECT_EQ(::pipe2(tell_, O_CLOEXEC), 0);
        EXPECT_EQ(::pipe2(told_, O_CLOEXEC), 0);
        pid_ = ::fork();
        if (pid_ == 0) live();
    }
    ~OtherProcess() {
        end();
        for (const int each : {tell_[0], tell_[1], told_[0], told_[1]}) ::close(each);
    }
    OtherProcess(const OtherProcess&) = delete;
    OtherProcess& operator=(const OtherProcess&) = delete;

    [[nodiscard]] pid_t number() const { return pid_; }
    // Its directory has this name. From now on it lives there.
    void move_in(const std::string& name) {
        EXPECT_EQ(::write(tell_[1], name.data(), name.size()), static_cast<ssize_t>(name.size()));
        char byte = 0;
        EXPECT_EQ(::read(told_[0], &byte, 1), 1);
    }
    // It takes a signal that ends it, and does not come to its end: as if a call of it did not return.
    void begin_to_end() {
        ASSERT_EQ(::ptrace(PTRACE_SEIZE, pid_, nullptr, PTRACE_O_TRACEEXIT), 0);
        ASSERT_EQ(::kill(pid_, SIGTERM), 0);
        for (int status = 0;;) {
            ASSERT_EQ(::waitpid(pid_, &status, 0), pid_);
            ASSERT_TRUE(WIFSTOPPED(status));
            if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) return;
            ASSERT_EQ(::ptrace(PTRACE_CONT, pid_, nullptr, WSTOPSIG(status)), 0);
        }
    }
    // By the thread that has made it begin.
    void end() {
        if (pid_ == 0) return;
        (void)::kill(pid_, SIGKILL);
        (void)::ptrace(PTRACE_DETACH, pid_, nullptr, nullptr);
        (void)::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }

  private:
    [[noreturn]] void live() {
        char name[256];
        const ssize_t length = ::read(tell_[0], name, sizeof name);
        if (length <= 0) ::_exit(1);
        const auto area = io::open_posix_directory(area_);
        const auto directory = area.value()->open_directory(std::string(name, static_cast<std::size_t>(length)));
        const auto alive = directory.value()->hold(std::string(area::kAliveFile));
        if (!alive || ::write(told_[1], "x", 1) != 1) ::_exit(1);
        for (;;) ::pause();
    }

    const std::string area_;
    int tell_[2] = {-1, -1}, told_[2] = {-1, -1};
    pid_t pid_ = 0;
};

class Unsettled : public test::RealFiles {
  protected:
    void SetUp() override {
        RealFiles::SetUp();
        target_ = (root_ / "target.h5").string();
        std::ofstream(target_) << "old";
        area_path_ = (root_ / "nls" / area::staging_folder()).string();
        std::filesystem::create_directory(area_path_);
        std::filesystem::permissions(area_path_, std::filesystem::perms::owner_all);
        area_ = std::move(io::open_posix_directory(area_path_)).value();
    }
    // A process that has flushed 1,000 bytes of the target.
    std::unique_ptr<OtherProcess> writer(ledger::FileUse use = ledger::FileUse::kOpen) {
        auto other = std::make_unique<OtherProcess>(area_path_);
        const auto pid = static_cast<std::uint64_t>(other->number());
        {
            test::LeftBehind log(*area_, pid, area::identify_this_process().value().boot_id);
            auto& file = log.open(io::identify(target_).value(), target_, 3);
            log.write(file, 0, test::bytes_of(1000, 1));
            log.commit(file, 1000);
        }
        const std::string name = fmt::format("{}-{}-0", pid, start_ticks_of(other->number()));
        std::filesystem::rename(area_path_ + fmt::format("/{}-5-0", pid), area_path_ + "/" + name);
        std::fstream ledger(area_path_ + "/" + name + "/ledger", std::ios::in | std::ios::out | std::ios::binary);
        ledger.seekp(sizeof(ledger::LedgerHeader) + offsetof(ledger::LedgerSlot, in_use));
        ledger.write(reinterpret_cast<const char*>(&use), sizeof use);
        ledger.close();
        other->move_in(name);
        return other;
    }
    stage::Leftovers::OpenedFile opened(bool writable, bool locked) const {
        return {io::identify(target_).value(), target_, writable, locked};
    }
    std::vector<std::byte> content() const {
        auto file = std::move(io::open_existing_file(target_)).value().file;
        std::vector<std::byte> bytes(file->size().value());
        EXPECT_TRUE(file->read_at(0, bytes));
        return bytes;
    }
    void expect_refused(const Status& status, const OtherProcess& other) const {
        EXPECT_EQ(status.sys_errno(), stage::Leftovers::kUnsettled) << status.message();
        EXPECT_FALSE(status.retryable());
        EXPECT_THAT(status.message(), testing::HasSubstr(fmt::format("process {}", other.number())));
        EXPECT_EQ(content().size(), 3u);
    }

    std::string target_, area_path_;
    std::unique_ptr<io::Directory> area_;
};

TEST_F(Unsettled, a_file_of_a_process_that_does_not_come_to_its_end_is_refused_after_patience_and_recovered_later) {
    const auto other = writer();
    ASSERT_NO_FATAL_FAILURE(other->begin_to_end());
    const auto clock = std::make_shared<test::JumpingClock>();
    auto engine = Engine::create(loaded_, clock);
    for (const bool writable : {true, false})
        for (const bool locked : {true, false}) {
            const auto begin = clock->passed();
            expect_refused(engine->leftovers().recover_opened(opened(writable, locked)).status(), *other);
            EXPECT_GE(clock->passed() - begin, std::chrono::seconds(loaded_.options.patience));
        }
    expect_refused(engine->recover_before_open(target_, false).status(), *other);
    expect_refused(engine->leftovers().admit_emptying(target_), *other);
    expect_refused(engine->leftovers().may_forget(io::identify(target_).value(), target_), *other);
    other->end();
    ASSERT_TRUE(engine->leftovers().recover_opened(opened(false, false)));
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
    EXPECT_TRUE(left_in_area().empty());
}

TEST_F(Unsettled, a_file_of_a_process_that_ends_meanwhile_is_at_its_last_flush_when_it_is_opened) {
    const auto other = writer();
    ASSERT_NO_FATAL_FAILURE(other->begin_to_end());
    const auto clock = std::make_shared<test::JumpingClock>([] { return false; });
    auto engine = Engine::create(loaded_, clock);
    Result<std::string> told{std::string()};
    const std::uint64_t looks = clock->looks();
    std::jthread opens([&] { told = engine->leftovers().recover_opened(opened(true, false)); });
    EXPECT_TRUE(clock->await_look(looks + 2)) << "it waits for the other process";
    other->end();
    opens.join();
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_THAT(told.value(), testing::HasSubstr("it is at its last flush now"));
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
}

TEST_F(Unsettled, a_file_that_a_process_at_work_has_open_is_neither_refused_nor_waited_for) {
    const auto other = writer();
    auto engine = Engine::create(loaded_);
    for (const bool writable : {true, false})
        for (const bool locked : {true, false}) {
            const auto told = engine->leftovers().recover_opened(opened(writable, locked));
            ASSERT_TRUE(told) << told.status().message();
            EXPECT_EQ(told.value(), "");
        }
    EXPECT_TRUE(engine->leftovers().admit_emptying(target_));
    EXPECT_EQ(content().size(), 3u);
}

TEST_F(Unsettled, a_file_that_a_process_at_work_could_not_close_is_refused_at_once) {
    const auto other = writer(ledger::FileUse::kLeft);
    auto engine = Engine::create(loaded_);
    for (const bool writable : {true, false})
        expect_refused(engine->leftovers().recover_opened(opened(writable, false)).status(), *other);
    expect_refused(engine->leftovers().admit_emptying(target_), *other);
    other->end();
    ASSERT_TRUE(engine->leftovers().recover_opened(opened(true, false)));
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
}

TEST_F(Unsettled, other_files_of_such_a_process_are_opened) {
    std::ofstream(root_ / "other.h5") << "other";
    const auto other = writer();
    ASSERT_NO_FATAL_FAILURE(other->begin_to_end());
    auto engine = Engine::create(loaded_);
    EXPECT_EQ(engine->recover_before_open((root_ / "other.h5").string(), true).value(), "");
}

// A target whose writes hang until they are let go, under the name of the test's file.
class Hanging {
  public:
    explicit Hanging(const std::string& path) : path_(path) { test::left_on_purpose = true; }
    ~Hanging() { plan->let_go(); }
    [[nodiscard]] stage::OpenTarget open() const {
        const auto descriptor = std::make_shared<io::Descriptor>(::open(path_.c_str(), O_RDWR | O_CLOEXEC), path_,
                                                                 O_RDWR);
        // A local one is drained by the program's thread, which would hang.
        const auto of_server = std::make_shared<test::Script>();
        of_server->traits = io::FileTraits{};
        auto file = io::make_fault_file(io::make_posix_file(descriptor, path_), plan);
        return {std::make_unique<test::ScriptedFile>(std::move(file), of_server), true};
    }
    const std::shared_ptr<io::FaultPlan> plan = std::make_shared<io::FaultPlan>();

  private:
    const std::string path_;
};

TEST_F(Unsettled, a_file_that_another_engine_of_this_process_gave_up_is_refused_by_name) {
    const Hanging target(target_);
    auto engine = Engine::create(loaded_, std::make_shared<test::JumpingClock>());
    {
        auto given_up = Engine::create(loaded_, std::make_shared<test::JumpingClock>([plan = target.plan] {
                                           return plan->hanging();
                                       }));
        auto attached = given_up->attach(target.open());
        ASSERT_TRUE(attached) << attached.status().message();
        const auto file = std::move(attached.value().file);
        target.plan->hang(io::Operation::kWrite);
        ASSERT_TRUE(file->write(0, test::bytes_of(200'000, 1), stage::ByteClass::kMetadata));
        EXPECT_EQ(engine->leftovers().recover_opened(opened(true, false)).value(), "")
            << "it is at work, as another library's may be";
        EXPECT_EQ(given_up->detach(file, true).sys_errno(), ETIMEDOUT);
        for (const bool writable : {true, false}) {
            const auto refused = engine->leftovers().recover_opened(opened(writable, false));
            EXPECT_EQ(refused.status().sys_errno(), stage::Leftovers::kUnsettled) << refused.status().message();
            EXPECT_THAT(refused.status().message(), testing::HasSubstr(fmt::format("process {}", ::getpid())));
        }
    }
    // Its end has left the thread alone, and the log is not that of a dead process.
    EXPECT_EQ(engine->leftovers().recover_opened(opened(true, true)).status().sys_errno(),
              stage::Leftovers::kUnsettled);
    EXPECT_EQ(content().size(), 3u);
}

TEST_F(Unsettled, a_staging_area_that_cannot_be_looked_into_for_want_of_descriptors_is_not_taken_for_empty) {
    const auto other = writer();
    other->end();   // it has left a log
    auto engine = Engine::create(loaded_);
    const stage::Leftovers::OpenedFile file = opened(true, false);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto refused = engine->leftovers().recover_opened(file);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(refused.status().sys_errno(), EMFILE) << refused.status().message();
    const auto told = engine->leftovers().recover_opened(file);
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
}

}   // namespace
}   // namespace forebay
