// The end of a session while a write of its file is in flight: to a target that answers late, or never.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/fault_file.h"
#include "support/scripted_file.h"
#include "support/server_fixture.h"

namespace forebay::server {
namespace {

using namespace std::chrono_literals;
using io::Operation;

// A program's descriptor of a file, locked as HDF5 locks it.
class Locked {
  public:
    explicit Locked(const std::string& path) : descriptor(io::open_existing(path).value().descriptor) {
        EXPECT_TRUE(descriptor->lock(LOCK_EX | LOCK_NB));
    }
    std::shared_ptr<io::Descriptor> descriptor;
};

bool is_locked(const std::string& path) {
    const auto other = io::open_existing(path).value().descriptor;
    return !other->lock(LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
}

class Ending : public StagingServer {
  protected:
    Ending() {
        reach_ = [plan = plan_](std::unique_ptr<io::File> file) {
            // Of a server that may not answer: the drain threads write it, and no session's.
            const auto distant = std::make_shared<test::Script>();
            distant->traits = io::FileTraits{};
            return std::make_unique<test::ScriptedFile>(io::make_fault_file(std::move(file), plan), distant);
        };
    }
    ~Ending() override {
        plan_->let_go();
        stop();
    }
    // A client of the file that has committed `committed`, of which a write hangs, and has written more.
    std::unique_ptr<wire::RemoteFile> write_and_hang(const std::string& path, Locked* locked = nullptr) {
        auto opened = io::open_existing(path);
        wire::RemoteFile::Setup setup{
            {address_, 60}, io::make_posix_file(opened.value().descriptor, path), false, false};
        if (locked != nullptr) setup.server.lock = locked->descriptor;
        auto file = wire::RemoteFile::open(setup);
        EXPECT_TRUE(file) << file.status().message();
        plan_->hang(Operation::kWrite);
        EXPECT_TRUE(file.value()->write_at(0, committed_));
        EXPECT_TRUE(file.value()->commit());
        EXPECT_TRUE(plan_->await_hanging());
        const Content more(1000, std::byte{9});
        EXPECT_TRUE(file.value()->write_metadata_at(0, more));
        Content got(1);
        EXPECT_TRUE(file.value()->read_at(0, got));   // the server has it
        EXPECT_EQ(got[0], std::byte{9});
        return std::move(file).value();
    }
    Status open_refused(const std::string& path) {
        const auto file = open(path);
        EXPECT_FALSE(file);
        return file ? Status::ok() : file.status();
    }

    std::shared_ptr<io::FaultPlan> plan_ = std::make_shared<io::FaultPlan>();
    std::mt19937_64 random_{1};
    Content committed_ = random_bytes(random_, 300'000);
};

// However long: past what an engine waits for its threads, past a second, past the server's patience.
TEST_F(Ending, a_client_that_dies_leaves_its_last_flush_once_no_write_is_in_flight) {
    start();
    for (const auto hangs : {100ms, 1000ms}) {
        SCOPED_TRACE(hangs.count());
        const std::string path = make_file("file" + std::to_string(hangs.count()));
        write_and_hang(path).reset();
        Status outcome;
        std::jthread next = start_background_thread([&] {
            auto file = open(path);
            outcome = file.status();
            if (!file) return;
            Content got(committed_.size());
            EXPECT_TRUE(file.value()->read_at(0, got));
            EXPECT_TRUE(got == committed_);
            EXPECT_TRUE(file.value()->close());
        });
        std::this_thread::sleep_for(hangs);
        plan_->let_go();
        next.join();
        EXPECT_TRUE(outcome) << outcome.message();
        EXPECT_TRUE(content(path) == committed_);
    }
    stop();
    EXPECT_THAT(left(), testing::IsEmpty());
}

TEST_F(Ending, a_file_is_not_opened_while_a_write_of_an_earlier_session_may_still_come) {
    start();
    const std::string path = make_file("file");
    write_and_hang(path).reset();
    impatient_ = true;
    const Status refused = open_refused(path);
    EXPECT_EQ(refused.sys_errno(), EBUSY) << refused.message();
    EXPECT_NE(refused.message().find("its bytes did not drain"), std::string::npos) << refused.message();
    const auto reader = open_to_read(path);
    ASSERT_FALSE(reader);
    EXPECT_EQ(reader.status().code(), Code::kUnavailable) << reader.status().message();
    EXPECT_EQ(left().size(), 1u) << "the log of a server that lives";
    impatient_ = false;
    plan_->let_go();
    auto next = open(path);
    ASSERT_TRUE(next) << next.status().message();
    EXPECT_TRUE(content(path) == committed_);
    ASSERT_TRUE(next.value()->close());
}

// It may write the file by itself once it is told that there is no room.
TEST_F(Ending, a_client_for_whom_there_is_no_room_is_told_so_once_no_write_is_in_flight) {
    start(64 << 20, 1);
    const std::string path = make_file("file");
    write_and_hang(path).reset();
    Status outcome;
    std::jthread next = start_background_thread([&] {
        outcome = open(path, false, {77, 2}).status();   // more clients than it may have
        EXPECT_TRUE(content(path) == committed_);
    });
    std::this_thread::sleep_for(300ms);
    plan_->let_go();
    next.join();
    EXPECT_EQ(outcome.code(), Code::kUnsupported) << outcome.message();
}

TEST_F(Ending, the_file_stays_locked_while_the_server_writes_on_for_a_client_that_died) {
    for (const bool by_tcp : {false, true}) {
        SCOPED_TRACE(by_tcp ? "TCP" : "Unix socket");
        if (by_tcp) address_ = io::parse_address("127.0.0.1:0").value();
        start();
        const std::string path = make_file(by_tcp ? "tcp" : "unix");
        auto locked = std::make_unique<Locked>(path);
        auto file = write_and_hang(path, locked.get());
        EXPECT_TRUE(is_locked(path));
        // By TCP nothing is passed, and the server takes the lock once it sees that the client is gone.
        locked.reset();
        EXPECT_EQ(is_locked(path), !by_tcp);
        file.reset();
        for (int i = 0; by_tcp && i < 6000 && !is_locked(path); ++i) std::this_thread::sleep_for(10ms);
        EXPECT_TRUE(is_locked(path));
        plan_->let_go();
        {
            auto next = open(path);   // waits for the end of recovery
            ASSERT_TRUE(next) << next.status().message();
            EXPECT_FALSE(is_locked(path));
            EXPECT_TRUE(content(path) == committed_);
            ASSERT_TRUE(next.value()->close());
        }
        end_at_once();
    }
}

// The written files are closed. A read of one of them hangs, and its client is cut off.
TEST_F(Ending, a_server_that_ends_leaves_a_reader_whose_read_hangs_for_longer_than_its_patience) {
    start();
    const std::string path = make_file("file");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    ASSERT_TRUE(file.value()->write_at(0, committed_) && file.value()->commit() && file.value()->drain());
    auto reader = open_to_read(path);
    ASSERT_TRUE(reader) << reader.status().message();
    ASSERT_TRUE(file.value()->close());
    plan_->hang(Operation::kRead);
    Content got(1000);
    Status read;
    std::jthread reading = start_background_thread([&] { read = reader.value()->read_at(0, got).status(); });
    ASSERT_TRUE(plan_->await_hanging());
    EXPECT_EQ(::write(wake_[1], "", 1), 1);
    thread_.join();
    impatient_ = true;
    EXPECT_FALSE(server_->await_sessions());
    reading.join();
    EXPECT_FALSE(read);
    plan_->let_go();
    EXPECT_TRUE(server_->await_sessions()) << "the read has returned";
    server_.reset();
}

// Its descriptor and that of the server are one open file, with one lock.
TEST_F(Ending, a_close_ends_the_lock_before_anybody_is_told_that_nobody_writes_the_file) {
    start();
    const std::string path = make_file("file");
    Locked locked(path);
    auto opened = io::open_existing(path);
    wire::RemoteFile::Setup setup{{address_, 60}, io::make_posix_file(opened.value().descriptor, path), false, true};
    setup.server.lock = locked.descriptor;
    auto file = wire::RemoteFile::open(setup);
    ASSERT_TRUE(file) << file.status().message();
    ASSERT_TRUE(file.value()->write_at(0, committed_));
    EXPECT_TRUE(is_locked(path));
    plan_->hang(Operation::kWrite);
    Status closed;
    std::jthread closing = start_background_thread([&] { closed = file.value()->close(); });
    EXPECT_TRUE(plan_->await_hanging());
    EXPECT_TRUE(is_locked(path));
    plan_->let_go();
    closing.join();
    EXPECT_TRUE(closed) << closed.message();
    EXPECT_FALSE(is_locked(path));
}

TEST_F(Ending, another_process_that_has_locked_the_file_is_not_written_over) {
    address_ = io::parse_address("127.0.0.1:0").value();
    start();
    const std::string path = make_file("file");
    auto file = write_and_hang(path);
    Locked other(path);   // the client has none, and nothing was passed
    file.reset();
    plan_->let_go();
    // Who reads through the server is not told that the file is whole.
    EXPECT_EQ(open_to_read(path).status().code(), Code::kUnavailable);
    EXPECT_EQ(left().size(), 1u) << "the log stays";
    EXPECT_TRUE(other.descriptor->lock(LOCK_UN));
    EXPECT_EQ(open_to_read(path).status().code(), Code::kUnsupported) << "now it is, and read as it is";
    EXPECT_TRUE(content(path) == committed_);
    auto next = open(path);
    ASSERT_TRUE(next) << next.status().message();
    EXPECT_TRUE(content(path) == committed_);
    ASSERT_TRUE(next.value()->close());
}

// Neither at the clients' end nor at the next open: a team, and a program without locks, have nothing locked.
TEST_F(Ending, a_file_that_another_process_has_locked_is_recovered_only_after_that) {
    start();
    for (const std::uint32_t members : {1u, 3u}) {
        SCOPED_TRACE(members);
        const std::string path = make_file("file" + std::to_string(members));
        std::vector<std::unique_ptr<wire::RemoteFile>> files;
        for (std::uint32_t i = 0; i < members; ++i) {
            auto file = open(path, false, members == 1 ? wire::Open::Team{} : wire::Open::Team{77, members, i > 0});
            ASSERT_TRUE(file) << file.status().message();
            files.push_back(std::move(file).value());
        }
        plan_->fail(Operation::kWrite, 1, 1'000'000, EIO);
        ASSERT_TRUE(files.back()->write_at(0, committed_) && files.back()->end_call());
        (void)files.front()->commit();
        ASSERT_TRUE(files.back()->write_at(0, Content(1000, std::byte{9})) && files.back()->end_call());
        Locked other(path);
        files.clear();
        EXPECT_FALSE(open_refused(path)) << "it waits for the end of all sessions before";
        EXPECT_EQ(open_to_read(path).status().code(), Code::kUnavailable) << "it is not complete";
        const Content now = content(path);   // the drain may have set its size before
        EXPECT_EQ(std::ranges::count(now, std::byte{}), std::ssize(now)) << "written beneath another process";
        EXPECT_EQ(left().size(), 1u) << "the log stays";
        EXPECT_TRUE(other.descriptor->lock(LOCK_UN));
        EXPECT_EQ(open_to_read(path).status().code(), Code::kUnsupported) << "now it is, and read as it is";
        EXPECT_TRUE(content(path) == committed_);
        plan_->clear();
    }
    stop();
    EXPECT_THAT(left(), testing::IsEmpty());
}

TEST_F(Ending, a_server_that_ends_names_the_files_that_it_could_not_recover) {
    start();
    const std::string path = make_file("file"), whole = make_file("whole");
    auto file = open(path), other = open(whole);
    ASSERT_TRUE(file && other);
    plan_->fail(Operation::kWrite, 1, 1'000'000, EIO);
    for (auto* const each : {&file, &other}) {
        ASSERT_TRUE(each->value()->write_at(0, committed_));
        (void)each->value()->commit();
    }
    const Locked locked(path);
    file.value().reset();
    other.value().reset();
    EXPECT_EQ(::write(wake_[1], "", 1), 1);
    thread_.join();
    EXPECT_TRUE(server_->await_sessions());
    EXPECT_THAT(server_->unrecovered(), testing::ElementsAre(io::identify(path).value()));
    server_.reset();
    EXPECT_TRUE(content(whole) == committed_);
    EXPECT_EQ(left().size(), 1u);
}

// As a file that the program stages itself: what is staged is read, and a later attempt makes good.
TEST_F(Ending, one_failed_write_of_the_target_ends_neither_the_session_nor_its_reads) {
    start();
    const std::string path = make_file("file");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    plan_->fail(Operation::kWrite, 1, 1, EIO);
    ASSERT_TRUE(file.value()->write_at(0, committed_));
    (void)file.value()->commit();
    for (int i = 0; i < 6000 && plan_->fired() == 0; ++i) std::this_thread::sleep_for(10ms);
    const Content more = random_bytes(random_, 50'000);
    Content model = committed_;
    put(model, 280'000, more);
    EXPECT_TRUE(file.value()->write_at(280'000, more)) << "a write that comes later does not fail";
    (void)file.value()->commit();
    const auto expect_all = [&] {
        Content got(model.size());
        const auto read = file.value()->read_at(0, got);
        EXPECT_TRUE(read) << read.status().message();
        EXPECT_TRUE(got == model);
    };
    expect_all();
    (void)file.value()->close();
    EXPECT_TRUE(content(path) == model) << "written by a later attempt";
    expect_all();
    file.value().reset();
    stop();
    EXPECT_THAT(left(), testing::IsEmpty());
}

TEST_F(Ending, a_close_that_fails_leaves_what_is_staged_to_be_read_until_its_client_ends) {
    start();
    const std::string path = make_file("file");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    plan_->fail(Operation::kWrite, 1, 1'000'000, EIO);
    ASSERT_TRUE(file.value()->write_at(0, committed_));
    EXPECT_FALSE(file.value()->close());
    Content got(committed_.size());
    const auto read = file.value()->read_at(0, got);
    ASSERT_TRUE(read) << read.status().message();
    EXPECT_TRUE(got == committed_);
    EXPECT_FALSE(file.value()->write_at(0, got));
    plan_->clear();
    file.value().reset();
    auto next = open(path);
    ASSERT_TRUE(next) << next.status().message();
    EXPECT_TRUE(content(path) == committed_) << "the server has brought it home since";
    ASSERT_TRUE(next.value()->close());
}

// A server that ends does not wait for a client that has tried to close.
TEST_F(Ending, a_server_that_ends_brings_home_what_a_client_could_not_close) {
    start();
    const std::string path = make_file("file");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    plan_->fail(Operation::kWrite, 1, 1'000'000, EIO);
    ASSERT_TRUE(file.value()->write_at(0, committed_));
    EXPECT_FALSE(file.value()->close());
    plan_->clear();
    stop();
    EXPECT_TRUE(content(path) == committed_);
    EXPECT_THAT(left(), testing::IsEmpty());
}

// A close that all members wait for goes on after their death, and then under the server's lock.
TEST_F(Ending, the_writes_of_a_team_need_a_member_or_the_lock) {
    const std::string path = make_file("file");
    const auto connect = [](std::unique_ptr<io::Socket>& member) {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        member = std::make_unique<io::Socket>(ends[1]);
        return std::make_unique<wire::Connection>(std::make_unique<io::Socket>(ends[0]));
    };
    const auto own = io::open_existing(path).value();
    Writers writers(std::make_unique<io::HandedLock>(own.descriptor, own.identity, -1));
    std::unique_ptr<io::Socket> one, two;
    const auto first = connect(one), second = connect(two);
    const Writers::Client of_one(writers, *first);
    {
        const Writers::Client of_two(writers, *second);
        Locked other(path);
        one.reset();
        EXPECT_TRUE(writers.may_write()) << "the other member writes";
        two.reset();
        EXPECT_EQ(writers.may_write().sys_errno(), EBUSY);
    }
    EXPECT_FALSE(is_locked(path));
    EXPECT_TRUE(writers.may_write());
    EXPECT_TRUE(is_locked(path));
    writers.closed();
    EXPECT_FALSE(is_locked(path));
}

// The server closes the file however long that takes, as long as something arrives; the client hears of it.
TEST(Writers, tell_a_client_that_waits_that_its_request_is_being_worked_at) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    wire::Connection server(std::make_unique<io::Socket>(ends[0])), client(std::make_unique<io::Socket>(ends[1]));
    Writers writers(nullptr);
    const auto later_still = std::chrono::steady_clock::now() + 1h;
    {
        const Writers::Request request(writers, server, 7);
        const auto later = std::chrono::steady_clock::now() + 1100ms;
        writers.wrote(later - 1100ms);   // too early
        writers.wrote(later);
        writers.wrote(later + 900ms);   // too early again
    }
    writers.wrote(later_still);   // nobody waits
    const auto told = client.receive();
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_EQ(told.value().header.type, wire::Type::kWorking);
    EXPECT_EQ(told.value().header.request, 7u);
    client.pass_over_working();
    EXPECT_TRUE(server.send(wire::Type::kWorking, 8, {}) && server.send(wire::Type::kDone, 8, {}));
    const auto answer = client.receive();
    ASSERT_TRUE(answer) << answer.status().message();
    EXPECT_EQ(answer.value().header.type, wire::Type::kDone);
}

}   // namespace
}   // namespace forebay::server
