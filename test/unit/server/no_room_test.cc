// A server without room in its staging area: here the log of one file may take more than the device has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <random>
#include <string>

#include "io/fault_file.h"
#include "server/last_writers.h"
#include "support/server_fixture.h"

namespace forebay::server {
namespace {

constexpr std::uint64_t kMoreThanTheDevice = std::uint64_t{1} << 60;

class NoRoom : public StagingServer {
  protected:
    NoRoom() {
        reach_ = [plan = plan_](std::unique_ptr<io::File> file) { return io::make_fault_file(std::move(file), plan); };
    }
    ~NoRoom() override { stop(); }
    // A client has flushed `flushed_`, and the log of that is left, as another process had the file locked at the end.
    void leave_log(const std::string& path) {
        start();
        auto writer = open(path);
        ASSERT_TRUE(writer) << writer.status().message();
        plan_->fail(io::Operation::kWrite, 1, 1'000'000, EIO);
        ASSERT_TRUE(writer.value()->write_at(0, flushed_));
        (void)writer.value()->commit();
        const auto other = io::open_existing(path).value().descriptor;
        ASSERT_TRUE(other->lock(LOCK_EX | LOCK_NB));
        end_at_once();
        plan_->clear();
        ASSERT_EQ(left().size(), 1u);
    }
    void expect_left_to_client(const std::string& path, bool empties) {
        const auto refused = open(path, empties);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.status().code(), Code::kUnsupported) << refused.status().message();
        EXPECT_EQ(refused.status().sys_errno(), EUSERS);
    }

    const std::shared_ptr<io::FaultPlan> plan_ = std::make_shared<io::FaultPlan>();
    std::mt19937_64 random_{1};
    const Content flushed_ = random_bytes(random_, 300'000);
};

TEST_F(NoRoom, a_file_is_recovered_and_left_to_its_program) {
    for (const bool empties : {false, true}) {
        SCOPED_TRACE(empties);
        const std::string path = make_file(empties ? "emptied" : "kept");
        leave_log(path);
        start(kMoreThanTheDevice);
        expect_left_to_client(path, empties);
        EXPECT_TRUE(content(path) == flushed_) << "the client empties it, if at all";
        EXPECT_THAT(left(), testing::IsEmpty());
        end_at_once();
    }
}

TEST_F(NoRoom, a_file_is_not_left_to_a_program_while_it_cannot_be_recovered) {
    const std::string path = make_file("file");
    leave_log(path);
    start(kMoreThanTheDevice);
    const auto other = io::open_existing(path).value().descriptor;
    ASSERT_TRUE(other->lock(LOCK_EX | LOCK_NB));
    const auto refused = open(path);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.status().code(), Code::kUnavailable) << refused.status().message();
    EXPECT_EQ(left().size(), 1u);
}

TEST_F(NoRoom, an_earlier_client_of_a_file_that_was_left_to_a_program_may_not_continue) {
    const std::string path = make_file("file");
    start();
    const auto opened = io::open_existing(path);
    wire::RemoteFile::Setup setup{{address_, 1}, io::make_posix_file(opened.value().descriptor, path), false, false};
    auto earlier = wire::RemoteFile::open(setup);
    ASSERT_TRUE(earlier) << earlier.status().message();
    ASSERT_TRUE(earlier.value()->write_at(0, flushed_) && earlier.value()->commit());
    end_at_once();
    start(kMoreThanTheDevice);
    expect_left_to_client(path, false);
    end_at_once();
    start();
    EXPECT_THAT(earlier.value()->commit().message(),
                testing::HasSubstr("another program has opened it for writing at this server since"));
    EXPECT_TRUE(content(path) == flushed_);
}

// As on a full device: this process may write no byte to any file.
class NoByte {
  public:
    NoByte() {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit none{0, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &none);
    }
    ~NoByte() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handled_);
    }
    NoByte(const NoByte&) = delete;
    NoByte& operator=(const NoByte&) = delete;

  private:
    void (*const handled_)(int) = std::signal(SIGXFSZ, SIG_IGN);
    rlimit before_{};
};

TEST_F(NoRoom, a_note_that_cannot_be_written_is_removed) {
    LoadedOptions loaded;
    loaded.options.nls = folder_ + "/nls";
    loaded.options.size = kMoreThanTheDevice;
    LastWriters writers(loaded, *clock_);
    const auto request = [](std::uint64_t inode, std::uint64_t writer, bool continues = false) {
        return wire::Open{false, false, {1, inode}, "/a", wire::Purpose::kWrite, {}, {}, writer, continues};
    };
    ASSERT_TRUE(writers.opens(request(1, 5)));
    ASSERT_TRUE(writers.may_continue(request(1, 5, true)));
    {
        const NoByte full;
        EXPECT_FALSE(writers.opens(request(1, 6)));
        EXPECT_TRUE(writers.leaves(request(1, 6)));
        EXPECT_TRUE(writers.leaves(request(2, 7))) << "it has no note";
    }
    EXPECT_EQ(writers.may_continue(request(1, 5, true)).code(), Code::kUnsupported);
    EXPECT_TRUE(writers.leaves(request(1, 8)));
    EXPECT_EQ(writers.may_continue(request(1, 5, true)).sys_errno(), ESTALE);
}

}   // namespace
}   // namespace forebay::server
