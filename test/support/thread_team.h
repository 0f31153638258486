// A team of threads of one process, for tests of collective calls without MPI. A member that ends early (a failed
// ASSERT) leaves the team. Members that wait for it then get kUnavailable instead of waiting for ever.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "file/team.h"

namespace forebay::test {

class ThreadTeam {
  public:
    using Body = std::function<void(std::shared_ptr<file::Team>)>;

    // Runs `body` once for each member, in its own thread, and waits for all.
    static void run(int size, const Body& body) {
        const auto meeting = std::make_shared<Meeting>(size);
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < size; ++rank)
            threads.emplace_back([&body, meeting, rank] {
                body(std::make_shared<Member>(meeting, rank));
                meeting->leave();
            });
    }

  private:
    struct Meeting {
        explicit Meeting(int members) : size(members), given(static_cast<std::size_t>(members)), words(given.size()) {}

        Status arrive() {
            std::unique_lock lock(mutex);
            const std::uint64_t mine = generation;
            if (++arrived == size) {
                arrived = 0;
                ++generation;
                changed.notify_all();
                return Status::ok();
            }
            changed.wait(lock, [&] { return generation != mine || left > 0; });
            if (generation != mine) return Status::ok();
            return {Code::kUnavailable, "a member of the team has left"};
        }
        void leave() {
            const std::lock_guard lock(mutex);
            ++left;
            changed.notify_all();
        }

        const int size;
        std::mutex mutex;
        std::condition_variable changed;
        int arrived = 0, left = 0;
        std::uint64_t generation = 0;
        // Each member's own place, read between two barriers.
        std::vector<std::span<const std::byte>> given;
        std::vector<std::uint64_t> words;
        std::span<const std::byte> told;
        std::vector<std::span<std::byte>> exposed{static_cast<std::size_t>(size)};
    };

    class SharedMemory final : public file::Window {
      public:
        explicit SharedMemory(std::shared_ptr<Meeting> meeting) : meeting_(std::move(meeting)) {}
        ~SharedMemory() override { (void)meeting_->arrive(); }
        Status read(int rank, std::size_t offset, std::span<std::byte> into) override {
            std::byte* const from = meeting_->exposed[static_cast<std::size_t>(rank)].data() + offset;
            for (std::size_t at = 0; at < into.size(); at += sizeof(std::uint64_t)) {
                const std::uint64_t word = std::atomic_ref(*reinterpret_cast<std::uint64_t*>(from + at)).load();
                std::memcpy(into.data() + at, &word, sizeof word);
            }
            return Status::ok();
        }

      private:
        std::shared_ptr<Meeting> meeting_;
    };

    class Member final : public file::Team {
      public:
        Member(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
        int rank() const noexcept override { return rank_; }
        int size() const noexcept override { return meeting_->size; }
        Status barrier() override { return meeting_->arrive(); }
        Result<std::span<const std::uint64_t>> exchange(std::uint64_t mine) override {
            meeting_->words[static_cast<std::size_t>(rank_)] = mine;
            FOREBAY_TRY(barrier());
            words_ = meeting_->words;
            FOREBAY_TRY(barrier());
            return std::span<const std::uint64_t>(words_);
        }
        Status broadcast(int from, std::span<std::byte> bytes) override {
            if (rank_ == from) meeting_->told = bytes;
            FOREBAY_TRY(barrier());
            if (rank_ != from) std::copy(meeting_->told.begin(), meeting_->told.end(), bytes.begin());
            return barrier();
        }
        Result<std::unique_ptr<file::Window>> expose(std::span<std::byte> mine) override {
            meeting_->exposed[static_cast<std::size_t>(rank_)] = mine;
            FOREBAY_TRY(barrier());
            return std::unique_ptr<file::Window>(std::make_unique<SharedMemory>(meeting_));
        }

      protected:
        Status gather_into(std::span<const std::byte> mine, std::span<const std::size_t>,
                           std::span<std::byte> all) override {
            meeting_->given[static_cast<std::size_t>(rank_)] = mine;
            FOREBAY_TRY(barrier());
            auto to = all.begin();
            for (const auto& one : meeting_->given) to = std::copy(one.begin(), one.end(), to);
            return barrier();
        }

      private:
        std::shared_ptr<Meeting> meeting_;
        const int rank_;
        std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(static_cast<std::size_t>(meeting_->size));
    };
};

}   // namespace forebay::test
