// A team of forked processes, for tests in which processes die. The members share an anonymous mapping made before the
// fork, with a barrier and room for gathered data. The parent waits for its children and tells the others at once when
// one has died, so no member waits for it. Fork while no other thread runs; make engines in the members.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "file/team.h"
#include "io/futex.h"

namespace forebay::test {

#if defined(FOREBAY_SANITIZES_THREAD)
inline constexpr bool kForkedTeams = false;   // the sanitizer does not follow threads started after a fork
#else
inline constexpr bool kForkedTeams = true;
#endif

class ForkedTeam {
  public:
    static constexpr int kMembersMax = 8;
    static constexpr std::size_t kGivenMax = 4096;
    using Body = std::function<void(std::shared_ptr<file::Team>)>;

    // Words for the test, initially zero, shared by all members and the parent.
    using Words = std::array<std::atomic<std::uint64_t>, 64>;

    ForkedTeam()
        : shared_(new(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                      Shared) {}
    ~ForkedTeam() { ::munmap(shared_, sizeof(Shared)); }
    ForkedTeam(const ForkedTeam&) = delete;
    ForkedTeam& operator=(const ForkedTeam&) = delete;

    [[nodiscard]] Words& words() const noexcept { return shared_->words; }

    // For a member: waits until another member has ended, in any way, and the parent knows.
    void await_end() const noexcept {
        for (;;) {
            const std::uint32_t seen = shared_->changed.load();
            if (shared_->ended.load() > 0) return;
            io::wait_while(shared_->changed, seen);
        }
    }

    // Returns the waitpid status of each member: 0 if its body returned and no expectation failed there.
    std::vector<int> run(int size, const Body& body) {
        shared_->size = size;
        std::map<pid_t, int> ranks;
        std::fflush(nullptr);
        for (int rank = 0; rank < size; ++rank) {
            const pid_t child = ::fork();
            if (child == 0) {
                body(std::make_shared<Member>(*shared_, rank));
                std::fflush(nullptr);
                ::_exit(testing::Test::HasFailure() ? 1 : 0);
            }
            EXPECT_GT(child, 0);
            ranks[child] = rank;
        }
        std::vector<int> ends(static_cast<std::size_t>(size), -1);
        for (std::size_t left = ranks.size(); left > 0;) {
            int end = 0;
            const pid_t child = ::waitpid(-1, &end, 0);
            if (child < 0 && errno == EINTR) continue;
            if (child < 0) break;
            const auto found = ranks.find(child);
            if (found == ranks.end()) continue;
            ends[static_cast<std::size_t>(found->second)] = end;
            shared_->ended.fetch_add(1);
            io::raise_and_wake(shared_->changed);
            --left;
        }
        return ends;
    }

  private:
    struct Shared {
        int size = 0;
        std::atomic<int> arrived{0}, ended{0};
        std::atomic<std::uint32_t> generation{0};
        io::SharedWord changed{0};
        Words words{};
        std::array<std::uint64_t, kMembersMax> given_words{};
        std::array<std::array<std::byte, kGivenMax>, kMembersMax> given{};
    };

    class Member final : public file::Team {
      public:
        Member(Shared& shared, int rank) : shared_(shared), rank_(rank) {}
        int rank() const noexcept override { return rank_; }
        int size() const noexcept override { return shared_.size; }
        Status barrier() override {
            static const Status ended(Code::kUnavailable, "a member of the team has ended");
            if (shared_.ended.load() > 0) return ended;   // even if some members have arrived
            const std::uint32_t mine = shared_.generation.load();
            if (shared_.arrived.fetch_add(1) + 1 == shared_.size) {
                shared_.arrived.store(0);
                shared_.generation.fetch_add(1);
                io::raise_and_wake(shared_.changed);
                return Status::ok();
            }
            for (;;) {
                const std::uint32_t seen = shared_.changed.load();
                if (shared_.generation.load() != mine) return Status::ok();
                if (shared_.ended.load() > 0) return ended;
                io::wait_while(shared_.changed, seen);
            }
        }
        Result<std::span<const std::uint64_t>> exchange(std::uint64_t mine) override {
            shared_.given_words[static_cast<std::size_t>(rank_)] = mine;
            FOREBAY_TRY(barrier());
            words_ = shared_.given_words;
            FOREBAY_TRY(barrier());
            return std::span<const std::uint64_t>(words_).first(static_cast<std::size_t>(size()));
        }
        Status broadcast(int from, std::span<std::byte> bytes) override {
            auto& told = shared_.given[static_cast<std::size_t>(from)];
            if (rank_ == from) std::copy(bytes.begin(), bytes.end(), told.begin());
            FOREBAY_TRY(barrier());
            if (rank_ != from) std::copy_n(told.begin(), bytes.size(), bytes.begin());
            return barrier();
        }
        Result<std::unique_ptr<file::Window>> expose(std::span<std::byte>) override {
            return Status(Code::kUnsupported, "forked members are on one node");
        }

      protected:
        Status gather_into(std::span<const std::byte> mine, std::span<const std::size_t> ends,
                           std::span<std::byte> all) override {
            static const Status too_much(Code::kInvalidArgument, "too much to gather");
            if (all.size() > kGivenMax) return too_much;
            std::copy(mine.begin(), mine.end(), shared_.given[static_cast<std::size_t>(rank_)].begin());
            FOREBAY_TRY(barrier());
            auto to = all.begin();
            for (std::size_t member = 0; member < ends.size(); ++member)
                to = std::copy_n(shared_.given[member].begin(),
                                 ends[member] - static_cast<std::size_t>(to - all.begin()), to);
            return barrier();
        }

      private:
        Shared& shared_;
        const int rank_;
        std::array<std::uint64_t, kMembersMax> words_{};
    };

    Shared* shared_;
};

}   // namespace forebay::test
