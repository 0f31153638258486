// The target of a file of which nothing is staged, for reads that take no lock. The holder of the file's lock offers it
// while reads may go straight to it, and withdraws it before that ends. A read that has begun goes on, and its target
// stays until then, even if replaced. Thread-safety: `Use` from any thread, without the lock; everything else under it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "io/file.h"

namespace forebay::stage {

class UnstagedTarget {
  public:
    // The target for the time of one read; null: some of the file may be staged.
    class Use {
      public:
        explicit Use(UnstagedTarget& target) noexcept : target_(target) {
            if (target_.offered_.load() == nullptr) return;
            active_ = true;
            target_.users_.fetch_add(1);
            file_ = target_.offered_.load();   // once more: `replace` looks for users after it has withdrawn the target
        }
        ~Use() { end(); }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

        [[nodiscard]] io::File* file() const noexcept { return file_; }
        // True: a target that was replaced meanwhile may be let go (`let_go`).
        bool end() noexcept {
            if (!std::exchange(active_, false)) return false;
            return target_.users_.fetch_sub(1) == 1 && target_.any_replaced_.load();
        }

      private:
        UnstagedTarget& target_;
        io::File* file_ = nullptr;
        bool active_ = false;
    };

    void offer(io::File* target) noexcept {
        if (offered_.load(std::memory_order_relaxed) != target) offered_.store(target);
    }
    void withdraw() noexcept { offer(nullptr); }
    // Replaces `target`, which stays while it is read. May throw std::bad_alloc; then `target` is only withdrawn.
    void replace(std::shared_ptr<io::File>& target, std::shared_ptr<io::File> by) {
        withdraw();
        replaced_.push_back(target);
        any_replaced_.store(true);
        target = std::move(by);
        let_go();
    }
    // A read that begins now uses the present target.
    void let_go() noexcept {
        if (users_.load() != 0) return;
        replaced_.clear();
        any_replaced_.store(false);
    }

  private:
    std::atomic<io::File*> offered_{nullptr};
    std::atomic<std::uint64_t> users_{0};
    std::atomic<bool> any_replaced_{false};
    std::vector<std::shared_ptr<io::File>> replaced_;   // guarded by the file's lock
};

}   // namespace forebay::stage
