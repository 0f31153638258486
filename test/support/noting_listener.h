// A listener of an outflow that notes what it is told, and answers as the file that the test describes.
//
// Thread-safety: as `DrainListener`. The outflow calls `reached` without its lock, from several threads at once. The
// listener guards the noted ranges by a lock of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "drain/listener.h"
#include "index/staged_bytes.h"

namespace forebay::test {

class NotingListener final : public drain::DrainListener {
  public:
    // Has room for the notes of a test: most calls may not fail.
    explicit NotingListener(index::StagedBytes& bytes) : bytes_(bytes) {
        written_.reserve(kNotesMax);
        noted_.reserve(kNotesMax);
        reached_.reserve(kNotesMax);
    }

    std::shared_ptr<void> hold() override { return {std::shared_ptr<void>(), this}; }
    bool drains() const noexcept override { return true; }
    bool given_up() const noexcept override { return given_up_; }
    void catch_up(bool) override {}
    drain::Backlog backlog() const noexcept override {
        return {bytes_.ready_bytes(), !bytes_.index().ready().empty(), false, logical_size_, committed_size_};
    }
    bool has_records() const noexcept override { return true; }
    group::BypassCount& bypasses() noexcept override { return bypasses_; }
    void note(const log::TargetState& state) noexcept override { noted_.push_back(state); }
    void written(const plan::TargetWrite& write, bool succeeded, std::uint64_t) noexcept override {
        written_.push_back(write.range);
        if (!succeeded) return;
        if (keeps_sent_) (void)bytes_.index().send_drained(write);
        else (void)bytes_.index().erase_drained(write);
    }
    void lost() noexcept override {}
    void error_kept(int sys_errno) noexcept override { error_ = sys_errno; }
    void made_good() noexcept override { error_ = 0; }
    void paused() noexcept override { ++pauses_; }
    void halted(const Status&) noexcept override { halted_ = true; }
    void pace_changed() noexcept override {}
    void progressed() noexcept override {}
    void synced() noexcept override {}
    void reached(std::uint64_t, std::uint64_t, ByteRange range) override {
        const std::lock_guard lock(mutex_);
        reached_.push_back(range);
    }
    void came_to_rest() noexcept override { ++rests_; }
    [[nodiscard]] std::vector<ByteRange> ranges_reached() {
        const std::lock_guard lock(mutex_);
        return reached_;
    }

    index::StagedBytes& bytes_;
    group::BypassCount bypasses_;
    bool given_up_ = false, halted_ = false;
    bool keeps_sent_ = false;   // as for a target that reports failures late
    std::uint64_t logical_size_ = std::uint64_t{3} << 20, committed_size_ = 0;
    int error_ = 0, pauses_ = 0;
    std::atomic<int> rests_{0};
    std::vector<ByteRange> written_;
    std::vector<log::TargetState> noted_;

  private:
    static constexpr std::size_t kNotesMax = 1000;

    std::mutex mutex_;
    std::vector<ByteRange> reached_;   // guarded by mutex_
};

}   // namespace forebay::test
