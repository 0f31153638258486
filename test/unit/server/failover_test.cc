// A client whose server is lost for good, and which writes the file itself from then on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "io/fault_file.h"
#include "server/last_writers.h"
#include "support/jumping_clock.h"
#include "support/server_fixture.h"

namespace forebay::server {
namespace {

using io::Operation;

class WithoutServer : public StagingServer {
  protected:
    // Has committed `model_`, and written more of it since then. Its server has ended, and the file is as committed.
    std::unique_ptr<wire::RemoteFile> lose_server(const std::string& path) {
        start();
        const auto opened = io::open_existing(path);
        wire::RemoteFile::Setup setup{{address_, 1},
                                      io::make_fault_file(io::make_posix_file(opened.value().descriptor, path), plan_),
                                      false,
                                      false};
        setup.server.sees = [](const std::string&) { return true; };
        setup.server.recover_file = [](const std::string&, std::uint64_t, const Status&) {
            return Status::ok();   // the server did
        };
        auto file = wire::RemoteFile::open(setup);
        EXPECT_TRUE(file) << file.status().message();
        std::unique_ptr<wire::RemoteFile> client = std::move(file).value();
        write(*client, 0, 300'000);
        EXPECT_TRUE(client->commit());
        committed_ = model_;
        for (const std::size_t at : {0, 100'000, 200'000, 400'000}) write(*client, at, 90'000);
        EXPECT_TRUE(client->resize(450'000));
        model_.resize(450'000);
        for (std::size_t at = 10; at < 450'000; at += 9'000) write(*client, at, 100);
        end_at_once();
        EXPECT_TRUE(content(path) == committed_);
        return client;
    }
    void write(wire::RemoteFile& client, std::size_t offset, std::size_t size) {
        const Content bytes = random_bytes(random_, size);
        EXPECT_TRUE(client.write_at(offset, bytes));
        put(model_, offset, bytes);
    }
    static void expect_told(const Status& told) {
        EXPECT_EQ(told.sys_errno(), ENOSPC) << told.message();
        EXPECT_THAT(told.message(),
                    testing::HasSubstr("The writes since the last flush are incomplete; the next call repeats them"));
        EXPECT_THAT(told.message(), testing::Not(testing::HasSubstr("forebay recover")));
    }
    void expect_all(wire::RemoteFile& client) {
        Content got(model_.size());
        const auto read = client.read_at(0, got);
        ASSERT_TRUE(read) << read.status().message();
        EXPECT_TRUE(got == model_);
        EXPECT_EQ(client.size().value(), model_.size());
    }

    const std::shared_ptr<io::FaultPlan> plan_ = std::make_shared<io::FaultPlan>();
    std::mt19937_64 random_{1};
    Content model_, committed_;
    std::uint64_t cases_ = 0;
};

using Call = std::function<Status(wire::RemoteFile&)>;
struct Failing {
    Call call;   // the first one after the server's loss
    Operation operation;
    std::uint64_t nth;
};

TEST_F(WithoutServer, a_repeated_write_that_fails_is_told_and_the_next_call_repeats_it_first) {
    const Call commit = [](wire::RemoteFile& file) { return file.commit(); };
    const Call drain = [](wire::RemoteFile& file) { return file.drain(); };
    const Call sync = [](wire::RemoteFile& file) { return file.sync(); };
    const Call close = [](wire::RemoteFile& file) { return file.close(); };
    const Call truncate = [](wire::RemoteFile& file) { return file.resize(450'000); };
    const Call read = [](wire::RemoteFile& file) {
        Content got(1);
        return file.read_at(5, got).status();
    };
    for (const auto& [call, operation, nth] :
         {Failing{commit, Operation::kWrite, 1}, Failing{drain, Operation::kWrite, 3},
          Failing{sync, Operation::kResize, 1}, Failing{close, Operation::kWrite, 6},
          Failing{truncate, Operation::kResize, 1}, Failing{read, Operation::kWrite, 40}}) {
        model_.clear();
        const std::string path = make_file("file");
        const auto client = lose_server(path);
        plan_->fail(operation, nth, 2, ENOSPC, operation == Operation::kWrite ? 50 : 0);
        expect_told(call(*client));
        EXPECT_FALSE(content(path) == model_);
        expect_told(client->write_at(20, Content(5000)));   // older writes would follow it
        write(*client, 20, 5000);
        EXPECT_EQ(plan_->fired(), 2u * ++cases_);
        expect_all(*client);
        EXPECT_TRUE(client->commit());
        EXPECT_TRUE(client->close());
        EXPECT_TRUE(content(path) == model_);
    }
    EXPECT_EQ(cases_, 6u);
}

// Clients that see no log, as on another machine, and have written more since their flush.
class Continuing : public StagingServer {
  protected:
    std::unique_ptr<wire::RemoteFile> write_and_flush(const std::string& path) {
        const auto opened = io::open_existing(path);
        wire::RemoteFile::Setup setup{
            {address_, 1}, io::make_posix_file(opened.value().descriptor, path), false, false};
        auto file = wire::RemoteFile::open(setup);
        EXPECT_TRUE(file) << file.status().message();
        write(*file.value(), 0, 300'000);
        EXPECT_TRUE(file.value()->commit());
        committed_ = model_;
        write(*file.value(), 1000, 50'000);
        return std::move(file).value();
    }
    void write(wire::RemoteFile& client, std::size_t offset, std::size_t size) {
        const Content bytes = random_bytes(random_, size);
        EXPECT_TRUE(client.write_at(offset, bytes));
        put(model_, offset, bytes);
    }
    static void expect_refused(wire::RemoteFile& client, const char* why) {
        const Status committed = client.commit();
        EXPECT_EQ(committed.code(), Code::kUnavailable);
        EXPECT_THAT(committed.message(), testing::HasSubstr(why));
        EXPECT_FALSE(client.close());
    }
    [[nodiscard]] std::string area() const {
        return std::filesystem::directory_iterator(folder_ + "/nls")->path().string();
    }

    std::mt19937_64 random_{2};
    Content model_, committed_;
};

TEST_F(Continuing, a_client_goes_on_with_each_later_server_of_the_staging_area) {
    start();
    const std::string path = make_file("file");
    const auto client = write_and_flush(path);
    for (int servers = 0; servers < 3; ++servers) {
        end_at_once();
        start();
    }
    EXPECT_TRUE(content(path) == committed_);
    EXPECT_TRUE(client->commit());
    write(*client, 200'000, 200'000);
    EXPECT_TRUE(client->commit());
    end_at_once();
    start();
    EXPECT_TRUE(client->close());
    EXPECT_TRUE(content(path) == model_);
}

TEST_F(Continuing, a_server_with_another_or_an_emptied_staging_area_is_not_taken_for_the_lost_one) {
    start();
    const std::string one = make_file("one"), two = make_file("two");
    const auto with_another = write_and_flush(one);
    model_.clear();
    const auto with_emptied = write_and_flush(two);
    end_at_once();
    std::filesystem::rename(folder_ + "/nls", folder_ + "/lost");
    std::filesystem::create_directory(folder_ + "/nls");
    start();
    expect_refused(*with_another, "may be elsewhere");
    end_at_once();
    std::filesystem::remove_all(area());
    start();
    expect_refused(*with_emptied, "may be elsewhere");
    EXPECT_TRUE(content(two) == committed_);
}

TEST_F(Continuing, a_client_does_not_go_on_after_another_one_has_opened_the_file) {
    start();
    for (const bool closes : {true, false}) {
        model_.clear();
        const std::string path = make_file(closes ? "closed" : "left");
        const auto client = write_and_flush(path);
        end_at_once();
        start();
        const Content bytes(400'000, std::byte{7});
        {
            auto other = open(path);
            ASSERT_TRUE(other) << other.status().message();
            ASSERT_TRUE(other.value()->write_at(0, bytes) && other.value()->commit());
            if (closes) {
                ASSERT_TRUE(other.value()->close());
            }
        }
        if (!closes) {   // the end of the other session
            end_at_once();
            start();
        }
        expect_refused(*client, "another program has opened it for writing at this server since");
        EXPECT_TRUE(content(path) == bytes);
    }
}

// It may have what the client has flushed.
TEST_F(Continuing, a_client_does_not_go_on_while_a_directory_of_a_dead_process_cannot_be_read) {
    start();
    const std::string path = make_file("file"), new_path = make_file("new");
    const auto client = write_and_flush(path);
    end_at_once();
    std::filesystem::create_directory_symlink(folder_, area() + "/4000000-1-1");
    start();
    expect_refused(*client, "cannot read which files");
    EXPECT_TRUE(content(path) == committed_);
    auto other = open(new_path);
    ASSERT_TRUE(other) << other.status().message();
    EXPECT_TRUE(other.value()->close());
}

TEST_F(Continuing, notes_of_the_longest_closed_files_are_removed) {
    LoadedOptions loaded;
    loaded.options.nls = folder_ + "/nls";
    loaded.options.size = 64 << 20;
    const auto request = [](std::uint64_t inode, bool continues) {
        return wire::Open{false, false, {1, inode}, "/a", wire::Purpose::kWrite, {}, {}, 100 + inode, continues};
    };
    for (std::uint64_t server = 0; server < 2; ++server) {
        test::JumpingClock clock;
        LastWriters writers(loaded, clock, 3);
        ASSERT_TRUE(writers.opens(request(50 + server, false)));   // stays open
        if (server > 0) {
            for (std::uint64_t inode = 1; inode < 10; ++inode) {
                ASSERT_TRUE(writers.opens(request(20 + inode, false)));
                writers.ended({1, 20 + inode}, 120 + inode);
            }
            for (const std::uint64_t inode : {8, 12, 13, 14, 50})
                EXPECT_TRUE(writers.may_continue(request(inode, true)))
                    << "a client may wait for this server: " << inode;
            clock.advance(std::chrono::seconds(loaded.options.patience));
        }
        for (std::uint64_t inode = 1; inode < 10; ++inode) {
            ASSERT_TRUE(writers.opens(request(inode, false)));
            writers.ended({1, inode}, 100 + inode);
        }
        ASSERT_TRUE(writers.may_continue(request(8, true)));
        ASSERT_TRUE(writers.opens(request(8, true)));   // does not age now
        for (std::uint64_t inode = 11; inode < 15; ++inode) {
            ASSERT_TRUE(writers.opens(request(inode, false)));
            writers.ended({1, inode}, 100 + inode);
        }
        std::vector<std::uint64_t> may;
        for (std::uint64_t inode = 1; inode < 100; ++inode)
            if (writers.may_continue(request(inode, true))) may.push_back(inode);
        EXPECT_THAT(may, testing::ElementsAre(8, 12, 13, 14, 50 + server));
    }
}

}   // namespace
}   // namespace forebay::server
