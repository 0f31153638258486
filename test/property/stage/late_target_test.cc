// Random operations on a target that loses bytes after it has taken them, and reports that at a later call. A file that
// was closed without an error has every byte; after a death recovery gives the last commit that had returned, or one
// that failed.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/late_target.h"
#include "support/seeds.h"

namespace forebay {
namespace {

using stage::ByteClass;
using Content = std::vector<std::byte>;

struct Flavour {
    const char* name;
    std::uint64_t size, segment, write_size_max;
    OnFlush flush = OnFlush::kCommit;
    OnError on_error = OnError::kFail;
    Durability durability = Durability::kProcess;
    bool in_threads = true;   // drain threads make all calls of the target; otherwise the caller makes some
};
std::ostream& operator<<(std::ostream& out, const Flavour& flavour) { return out << flavour.name; }

class LateTargetProperty : public testing::TestWithParam<Flavour> {};

// One program: its file, what it wrote, and what it was promised.
class Program {
  public:
    Program(const Flavour& flavour, std::uint64_t seed) : flavour_(flavour), random_(seed) {
        LoadedOptions loaded = test::small_options();
        loaded.options.size = flavour.size;
        loaded.options.segment = flavour.segment;
        loaded.options.flush = flavour.flush;
        loaded.options.on_error = flavour.on_error;
        loaded.options.durability = flavour.durability;
        engine_ = stage::Engine::create(loaded, area_.opener());
        auto target = std::make_unique<test::LateFile>(target_.open(), client_);
        if (flavour.in_threads) target->may_hang();
        auto attached = engine_->attach({std::move(target), true});
        EXPECT_TRUE(attached) << attached.status().message();
        file_ = attached.value().file;
    }
    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
    [[nodiscard]] bool spoiled() const noexcept { return spoiled_; }
    [[nodiscard]] std::uint64_t losses() const { return client_->losses(); }

    void act() {
        switch (below(14)) {
            case 0: commit(); break;
            case 1:
                if (below(3) == 0) truncate();
                break;
            case 2:
                if (below(2) == 0) client_->lose();
                break;
            default: write();
        }
        const auto counters = file_->counters();
        bypassed_ = bypassed_ || counters.guarantee_given_up + counters.through > 0;
    }
    void close() {
        failed_commits_.push_back(now_);
        const Status closed = engine_->detach(file_, true);
        if (!closed) return die();
        const auto counters = file_->counters();
        ASSERT_TRUE(test::same(target_.contents(), now_))
            << counters.through << " bytes bypassed the log, " << counters.guarantee_given_up
            << " came before a commit, " << client_->losses() << " losses";
    }
    void die() {
        if (bypassed_) return;
        // The log is copied before the loss: a process that has died confirms nothing after it.
        test::Crash crash(
            *area_.shared_open(),
            [&] {
                client_->lose(true);
                return target_.contents();
            },
            target_.identity());
        const auto report = crash.recover();
        ASSERT_TRUE(report) << report.status().message();
        ASSERT_TRUE(report.value().all_well());
        const Content found = crash.contents();
        for (const Content& failed : failed_commits_)
            if (test::identical(found, failed)) return;
        ASSERT_TRUE(test::same(found, promised_)) << failed_commits_.size() << " commits had failed";
    }

  private:
    void commit() {
        failed_commits_.push_back(now_);
        if (!file_->commit()) return;
        promised_ = now_;
        failed_commits_.clear();
    }
    void truncate() {
        const std::uint64_t to = below(kSpace);
        if (!file_->truncate(to)) {
            spoiled_ = true;   // the program does not know which size the file has
            return;
        }
        now_.resize(to);
    }
    void write() {
        const std::uint64_t offset = below(4) == 0 ? now_.size() : below(kSpace);
        const Content bytes = test::bytes_of(1 + below(below(3) == 0 ? flavour_.write_size_max : 1500), random_());
        if (!file_->write(offset, bytes, below(3) == 0 ? ByteClass::kMetadata : ByteClass::kRaw)) {
            spoiled_ = true;   // a part of it may be there
            return;
        }
        if (now_.size() < offset + bytes.size()) now_.resize(offset + bytes.size());
        std::copy(bytes.begin(), bytes.end(), now_.begin() + static_cast<std::ptrdiff_t>(offset));
    }

    static constexpr std::uint64_t kSpace = 300 << 10;
    const Flavour& flavour_;
    std::mt19937_64 random_;
    test::Area area_;
    test::Target target_;
    const std::shared_ptr<test::LateClient> client_ = std::make_shared<test::LateClient>();
    std::unique_ptr<stage::Engine> engine_;
    std::shared_ptr<stage::StagedFile> file_;
    Content now_, promised_;
    std::vector<Content> failed_commits_;   // since the last one that returned: the log may have them
    bool spoiled_ = false;                  // a call failed in part
    bool bypassed_ = false;                 // bytes went to the target before their commit
};

TEST_P(LateTargetProperty, loses_no_byte_untold) {
    std::uint64_t losses = 0, judged = 0;
    for (const std::uint64_t seed : test::seeds("loses_no_byte_untold", 60, {1, 2, 3})) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Program program(GetParam(), seed);
        for (std::uint64_t left = 1 + program.below(150); left > 0 && !program.spoiled(); --left) program.act();
        losses += program.losses();
        if (program.spoiled()) continue;
        ++judged;
        if (program.below(2) == 0) program.close();
        else program.die();
        ASSERT_FALSE(testing::Test::HasFatalFailure());
    }
    EXPECT_GT(judged, 0u);
    EXPECT_GT(losses, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Flavours, LateTargetProperty,
    testing::Values(
        Flavour{"roomy", 4 << 20, 64 << 10, 30000},
        Flavour{"called", 4 << 20, 64 << 10, 30000, OnFlush::kCommit, OnError::kFail, Durability::kProcess, false},
        Flavour{"drained", 4 << 20, 64 << 10, 30000, OnFlush::kDrain},
        Flavour{"retried", 4 << 20, 64 << 10, 30000, OnFlush::kDrain, OnError::kRetry},
        Flavour{"tight", 512 << 10, 32 << 10, 20000},
        Flavour{"tight_retried", 512 << 10, 32 << 10, 20000, OnFlush::kCommit, OnError::kRetry},
        Flavour{"durable", 512 << 10, 32 << 10, 20000, OnFlush::kDrain, OnError::kFail, Durability::kNode},
        Flavour{"durable_retried", 512 << 10, 32 << 10, 20000, OnFlush::kDrain, OnError::kRetry, Durability::kNode}),
    [](const auto& flavour) { return std::string(flavour.param.name); });

}   // namespace
}   // namespace forebay
