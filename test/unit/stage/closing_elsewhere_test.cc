// The use of a file of which another process has not ended its deferred close.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>

#include "base/background_thread.h"
#include "support/forked_team.h"
#include "support/real_files.h"

namespace forebay {
namespace {

using stage::Engine;

constexpr std::uint64_t kPatience = 2;   // seconds
constexpr int kChildMaxMs = 30'000;      // the child's close ends then, whatever the test does

// Another process that has closed a file, and has not ended its close.
class ClosingProcess {
  public:
    enum class Does : std::uint8_t { kNothing, kWrites };

    ClosingProcess(const LoadedOptions& loaded, const std::string& path, Does what) {
        EXPECT_EQ(::pipe2(end_.data(), O_CLOEXEC), 0);
        EXPECT_EQ(::pipe2(ready_.data(), O_CLOEXEC), 0);
        pid_ = ::fork();
        if (pid_ == 0) live(loaded, path, what);
        char byte = 0;
        EXPECT_EQ(::read(ready_[0], &byte, 1), 1);
    }
    ~ClosingProcess() {
        (void)::kill(pid_, SIGKILL);
        (void)::waitpid(pid_, nullptr, 0);
        for (const int each : {end_[0], end_[1], ready_[0], ready_[1]}) ::close(each);
    }
    ClosingProcess(const ClosingProcess&) = delete;
    ClosingProcess& operator=(const ClosingProcess&) = delete;

    [[nodiscard]] pid_t number() const { return pid_; }
    void end_the_close() { EXPECT_EQ(::write(end_[1], "x", 1), 1); }

  private:
    [[nodiscard]] bool told_to_end(int at_most_ms) const {
        pollfd told{end_[0], POLLIN, 0};
        return ::poll(&told, 1, at_most_ms) == 1;
    }
    [[noreturn]] void live(const LoadedOptions& loaded, const std::string& path, Does what) {
        const auto engine = Engine::create(loaded);
        const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        const auto attached = engine->attach({io::adopt_posix_file(descriptor, path), true});
        if (!attached) ::_exit(1);
        const auto file = attached.value().file;
        if (!file->write(0, test::bytes_of(1000, 1), stage::ByteClass::kRaw)) ::_exit(1);
        stage::DeferredCloses::SharedClose close;
        close.claims = true;
        close.afterwards = [](stage::Ended) { return Status::ok(); };
        close.finish = [&] {
            const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kChildMaxMs);
            while (what == Does::kWrites && !told_to_end(10) && std::chrono::steady_clock::now() < end) {
                if (!file->write(0, test::bytes_of(1000, 2), stage::ByteClass::kRaw) || !file->drain()) ::_exit(1);
            }
            (void)told_to_end(kChildMaxMs);
            return file->lifecycle().finish();
        };
        engine->closes().finish_later(file, std::move(close));
        if (::write(ready_[1], "x", 1) != 1) ::_exit(1);
        (void)engine->closes().await_all();   // this thread ends the close
        ::_exit(0);
    }

    std::array<int, 2> end_{-1, -1}, ready_{-1, -1};
    pid_t pid_ = 0;
};

class ClosingElsewhere : public test::RealFiles {
  protected:
    void SetUp() override {
        if (!test::kForkedTeams) GTEST_SKIP() << "this sanitizer does not allow threads after a fork";
        RealFiles::SetUp();
        target_ = (root_ / "target.h5").string();
        loaded_.options.close = OnClose::kDeferred;
        loaded_.options.patience = kPatience;
    }
    Status await() {
        const auto engine = Engine::create(loaded_);
        return engine->closes().await(io::identify(target_).value());
    }
    std::string target_;
};

TEST_F(ClosingElsewhere, is_refused_if_that_process_writes_nothing_for_the_time_in_patience) {
    const ClosingProcess other(loaded_, target_, ClosingProcess::Does::kNothing);
    const auto begin = std::chrono::steady_clock::now();
    const Status refused = await();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(kPatience));
    EXPECT_EQ(refused.sys_errno(), stage::Leftovers::kUnsettled) << refused.message();
    EXPECT_THAT(refused.message(), testing::HasSubstr(fmt::format("process {} has closed the file", other.number())));
}

TEST_F(ClosingElsewhere, is_refused_if_that_process_is_stopped) {
    const ClosingProcess other(loaded_, target_, ClosingProcess::Does::kWrites);
    ASSERT_EQ(::kill(other.number(), SIGSTOP), 0);
    EXPECT_EQ(await().sys_errno(), stage::Leftovers::kUnsettled);
}

TEST_F(ClosingElsewhere, waits_longer_than_patience_while_that_process_writes) {
    ClosingProcess other(loaded_, target_, ClosingProcess::Does::kWrites);
    const std::jthread ends = start_background_thread([&] {
        std::this_thread::sleep_for(std::chrono::seconds(2 * kPatience + 1));
        other.end_the_close();
    });
    const auto begin = std::chrono::steady_clock::now();
    const Status waited = await();
    EXPECT_TRUE(waited) << waited.message();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2 * kPatience));
}

}   // namespace
}   // namespace forebay
