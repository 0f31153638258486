// A client whose server is lost for good, and which writes the file itself from then on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "io/fault_file.h"
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
        setup.server.recover_file = [](const std::string&, const Status&) { return Status::ok(); };   // the server did
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

}   // namespace
}   // namespace forebay::server
