// Reads of a file with nothing staged take no lock and allocate nothing; what is staged is seen at once all the same.
// Includes the operators that fail through memory_fault_test.cc of the same program.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "io/forwarding_file.h"
#include "support/engine_fixture.h"

namespace forebay::test {
extern std::atomic<long> allocations_until_failure;
extern std::atomic<bool> failing_for_ever;
}   // namespace forebay::test

namespace forebay {
namespace {

using stage::ByteClass;
using test::Area;
using test::bytes_of;
using test::same;
using test::Target;
using Content = std::vector<std::byte>;

// Without the file's lock, and without memory.
Status read_bare(stage::StagedFile& file, Content& into) {
    file.state().mutex().lock();
    test::failing_for_ever = true;
    test::allocations_until_failure = 1;
    Status outcome = file.read(0, into);
    test::allocations_until_failure = std::numeric_limits<long>::max();
    test::failing_for_ever = false;
    file.state().mutex().unlock();
    return outcome;
}

class UnstagedRead : public testing::Test {
  protected:
    UnstagedRead() {
        EXPECT_TRUE(target_.open()->write_at(0, content_));
        engine_ = stage::Engine::create(test::small_options(), area_.opener());
    }
    std::shared_ptr<stage::StagedFile> attach(std::unique_ptr<io::File> file, bool writable) {
        auto attached = engine_->attach({std::move(file), writable});
        EXPECT_TRUE(attached);
        return attached.value().file;
    }

    Content content_ = bytes_of(20'000, 1);
    Area area_;
    Target target_;
    std::unique_ptr<stage::Engine> engine_;
};

TEST_F(UnstagedRead, takes_no_lock_and_allocates_nothing_before_a_write_and_after_the_drain) {
    const auto file = attach(target_.open(), true);
    Content got(content_.size());
    ASSERT_TRUE(read_bare(*file, got));
    EXPECT_TRUE(same(got, content_));

    const Content newer = bytes_of(3000, 2);
    ASSERT_TRUE(file->write(5000, newer, ByteClass::kMetadata));
    std::copy(newer.begin(), newer.end(), content_.begin() + 5000);
    EXPECT_TRUE(same(test::read(*file, 0, content_.size()), content_)) << "staged";
    ASSERT_TRUE(file->drain());
    std::fill(got.begin(), got.end(), std::byte{});
    ASSERT_TRUE(read_bare(*file, got));
    EXPECT_TRUE(same(got, content_));

    ASSERT_TRUE(file->truncate(6000));
    std::fill(content_.begin() + 6000, content_.end(), std::byte{});
    EXPECT_TRUE(same(test::read(*file, 0, content_.size()), content_)) << "cut off, while the target has it";
    ASSERT_TRUE(file->commit());
    EXPECT_TRUE(same(test::read(*file, 0, content_.size()), content_));
    ASSERT_TRUE(engine_->detach(file, true));
}

TEST_F(UnstagedRead, of_a_file_that_nobody_writes_is_one_of_the_target) {
    const auto file = attach(target_.open(), false);
    Content got(content_.size());
    ASSERT_TRUE(read_bare(*file, got));
    EXPECT_TRUE(same(got, content_));
    ASSERT_TRUE(engine_->detach(file, false));
}

// Stops in the midst of a read; tells when it is let go for good.
class StoppedFile final : public io::ForwardingFile {
  public:
    struct Gate {
        std::atomic<bool> reading{false}, go_on{false}, closed{false};
    };
    StoppedFile(std::unique_ptr<io::File> file, Gate& gate) : ForwardingFile(std::move(file)), gate_(gate) {}
    ~StoppedFile() override { gate_.closed = true; }
    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override {
        gate_.reading = true;
        gate_.reading.notify_all();
        gate_.go_on.wait(false);
        EXPECT_FALSE(gate_.closed);
        return file().read_at(offset, into);
    }

  private:
    Gate& gate_;
};

TEST_F(UnstagedRead, keeps_a_target_that_is_replaced_meanwhile) {
    StoppedFile::Gate gate;
    const auto reader = attach(std::make_unique<StoppedFile>(target_.open(), gate), false);
    Content got(content_.size());
    std::jthread thread([&] { EXPECT_TRUE(reader->read(0, got)); });
    gate.reading.wait(false);
    const auto writer = attach(target_.open(), true);
    ASSERT_EQ(writer, reader);
    EXPECT_FALSE(gate.closed);
    gate.go_on = true;
    gate.go_on.notify_all();
    thread.join();
    EXPECT_TRUE(same(got, content_));
    EXPECT_TRUE(gate.closed) << "nobody reads it any more";
    ASSERT_TRUE(engine_->detach(writer, true));
    ASSERT_TRUE(engine_->detach(reader, false));
}

}   // namespace
}   // namespace forebay
