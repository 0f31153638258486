// Asynchronous reads of staged files: order, waiting, canceling, bounds.
#include "stage/async_requests.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "support/engine_fixture.h"
#include "support/scripted_file.h"

namespace forebay::stage {

namespace {

using test::bytes_of;
using test::same;
using State = AsyncRequest::State;

// Lets no read of the target pass while it is closed.
class Gate {
  public:
    void set(bool open) {
        const std::lock_guard lock(mutex_);
        open_ = open;
        changed_.notify_all();
    }
    void pass() {
        std::unique_lock lock(mutex_);
        ++waiting_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return open_; });
        --waiting_;
    }
    void await_waiting(int readers) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return waiting_ >= readers; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = true;
    int waiting_ = 0;
};

class AsyncRequestsTest : public testing::Test {
  protected:
    AsyncRequestsTest() {
        const auto plain = target.open();
        EXPECT_TRUE(plain->write_at(0, content));
        auto attached = engine->attach({gated(target), true});
        file = attached.value().file;
    }
    ~AsyncRequestsTest() override {
        gate.set(true);
        EXPECT_TRUE(engine->detach(file, true));
    }
    std::unique_ptr<io::File> gated(const test::Target& of) {
        return test::scripted(of.open(), [this](const test::FileCall& call) {
            if (call.operation == io::Operation::kRead) gate.pass();
            return Status::ok();
        });
    }
    std::shared_ptr<AsyncRequest> read(std::uint64_t offset, std::vector<std::byte>& into) {
        return engine->async_requests().read(file, {{offset, into}}).value();
    }

    const std::vector<std::byte> content = bytes_of(256 << 10, 1);
    test::Area area;
    test::Target target;
    Gate gate;
    std::unique_ptr<Engine> engine = Engine::create(test::small_options(), area.opener());
    std::shared_ptr<StagedFile> file;
};

TEST_F(AsyncRequestsTest, a_read_gives_what_is_staged_and_what_the_target_has) {
    const auto staged = bytes_of(5000, 2);
    ASSERT_TRUE(file->write(1000, staged, ByteClass::kRaw));
    std::vector<std::byte> found(10000), expected(content.begin(), content.begin() + 10000);
    std::copy(staged.begin(), staged.end(), expected.begin() + 1000);
    const auto request = read(0, found);
    EXPECT_EQ(request->wait(AsyncRequest::kForever), State::kDone);
    EXPECT_TRUE(same(found, expected));
    EXPECT_TRUE(engine->async_requests().idle());
    EXPECT_GT(request->begin_ns(), 0U);
    EXPECT_EQ(engine->async_requests().counters().reads, 1U);
    EXPECT_EQ(engine->async_requests().counters().read_bytes, 10000U);
}

TEST_F(AsyncRequestsTest, a_wait_with_a_time_limit_leaves_the_read_alone) {
    gate.set(false);
    std::vector<std::byte> found(4096);
    const auto request = read(0, found);
    EXPECT_NE(request->wait(0), State::kDone);
    EXPECT_NE(request->wait(1'000'000), State::kDone);
    gate.set(true);
    EXPECT_EQ(request->wait(AsyncRequest::kForever), State::kDone);
    EXPECT_TRUE(same(found, {content.begin(), content.begin() + 4096}));
}

TEST_F(AsyncRequestsTest, whoever_changes_what_is_read_waits_and_whoever_changes_something_else_does_not) {
    gate.set(false);
    std::vector<std::byte> found(4096);
    const auto request = read(8192, found);
    AsyncRequests& requests = engine->async_requests();
    requests.await_reads(*file, {0, 8192});
    requests.await_reads(*file, {12288, kOffsetMax});
    EXPECT_EQ(requests.counters().waits, 0U);
    std::thread writer([&] {
        requests.await_reads(*file, {12287, 12288});
        EXPECT_EQ(request->wait(0), State::kDone);
        EXPECT_TRUE(file->write(8192, bytes_of(4096, 3), ByteClass::kRaw));
    });
    gate.await_waiting(1);
    gate.set(true);
    writer.join();
    EXPECT_TRUE(same(found, {content.begin() + 8192, content.begin() + 12288}));
}

TEST_F(AsyncRequestsTest, what_has_not_begun_can_be_canceled_and_what_has_cannot) {
    gate.set(false);
    std::vector<std::vector<std::byte>> found(8, std::vector<std::byte>(4096));
    std::vector<std::shared_ptr<AsyncRequest>> requests;
    for (std::size_t i = 0; i < found.size(); ++i) requests.push_back(read(i * 4096, found[i]));
    gate.await_waiting(3);   // as many as there are threads
    std::size_t canceled = 0;
    for (const auto& request : requests) canceled += request->cancel() == State::kCanceled ? 1 : 0;
    EXPECT_EQ(canceled, 5U);
    gate.set(true);
    for (std::size_t i = 0; i < found.size(); ++i) {
        const bool done = requests[i]->wait(AsyncRequest::kForever) == State::kDone;
        const auto at = content.begin() + static_cast<std::ptrdiff_t>(i * 4096);
        EXPECT_TRUE(same(found[i], done ? std::vector<std::byte>(at, at + 4096) : std::vector<std::byte>(4096)));
    }
    EXPECT_EQ(engine->async_requests().counters().canceled, 5U);
}

TEST_F(AsyncRequestsTest, the_most_there_may_be_are_made_and_the_next_one_waits_for_room) {
    gate.set(false);
    std::vector<std::byte> found(AsyncRequests::kRequestsMax + 1);
    std::vector<std::shared_ptr<AsyncRequest>> requests;
    const auto read_byte = [&](std::size_t at) {
        return engine->async_requests().read(file, {{at, io::MutableBytes(&found[at], 1)}}).value();
    };
    for (std::size_t i = 0; i + 1 < found.size(); ++i) requests.push_back(read_byte(i));
    std::thread one_more([&] { EXPECT_EQ(read_byte(found.size() - 1)->wait(AsyncRequest::kForever), State::kDone); });
    gate.set(true);
    one_more.join();
    for (const auto& request : requests) EXPECT_EQ(request->wait(AsyncRequest::kForever), State::kDone);
    EXPECT_TRUE(same(found, {content.begin(), content.begin() + static_cast<std::ptrdiff_t>(found.size())}));
}

TEST_F(AsyncRequestsTest, a_detach_waits_and_a_request_outlives_the_engine) {
    test::Target other(2, "/scratch/other.h5");
    ASSERT_TRUE(other.open()->write_at(0, content));
    auto own = Engine::create(test::small_options(), test::Area().opener());
    auto attached = own->attach({gated(other), false}).value().file;
    gate.set(false);
    std::vector<std::byte> found(4096);
    const auto request = own->async_requests().read(attached, {{4096, found}}).value();
    std::thread opener([&] {
        gate.await_waiting(1);
        gate.set(true);
    });
    EXPECT_TRUE(own->detach(attached, false));
    EXPECT_EQ(request->wait(0), State::kDone);
    attached.reset();
    own.reset();
    opener.join();
    EXPECT_EQ(request->wait(AsyncRequest::kForever), State::kDone);
    EXPECT_TRUE(same(found, {content.begin() + 4096, content.begin() + 8192}));
}

TEST(AsyncRequestsFaults, a_read_that_fails_says_which_file) {
    test::Area area;
    test::Target target;
    ASSERT_TRUE(target.open()->write_at(0, bytes_of(4096, 1)));
    const auto plan = std::make_shared<io::FaultPlan>();
    const auto engine = Engine::create(test::small_options(), area.opener());
    const auto file = test::attach(*engine, target, false, plan);
    plan->fail(io::Operation::kRead, 1, 100, EIO);
    std::vector<std::byte> found(4096);
    const auto request = engine->async_requests().read(file, {{0, found}}).value();
    EXPECT_EQ(request->wait(AsyncRequest::kForever), State::kFailed);
    EXPECT_EQ(request->failure().sys_errno(), EIO);
    EXPECT_NE(request->failure().message().find("/scratch/run.h5"), std::string::npos) << request->failure().message();
    EXPECT_EQ(engine->async_requests().counters().failed, 1U);
    EXPECT_TRUE(engine->detach(file, false));
}

}   // namespace

}   // namespace forebay::stage
