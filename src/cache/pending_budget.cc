#include "cache/pending_budget.h"

namespace forebay::cache {

bool PendingBudget::take(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (closed_.load() || bytes_ + buffer_.bytes() + bytes > bytes_max_) return false;
    if (shared_ != nullptr && !shared_->take(bytes)) return false;
    bytes_ += bytes;
    return true;
}

bool PendingBudget::has(std::uint64_t bytes) const {
    const std::lock_guard lock(mutex_);
    return !closed_.load() && bytes_ + buffer_.bytes() + bytes <= bytes_max_ &&
           (shared_ == nullptr || shared_->has(bytes));
}

void PendingBudget::give_back(std::uint64_t bytes) {
    if (shared_ != nullptr) shared_->give_back(bytes);
    const std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    if (bytes_ == 0) idle_.notify_all();
}

AheadBuffer::Room PendingBudget::reserve_ahead(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return bytes_ + buffer_.bytes() + bytes <= bytes_max_ ? buffer_.reserve(bytes) : AheadBuffer::Room();
}

std::uint64_t PendingBudget::bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
}

void PendingBudget::await() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return bytes_ == 0; });
}

// Stores requested bytes first: a program may open the file for each read. Reads nothing more ahead. Waits a bounded
// time for the source; tasks own their data.
void PendingBudget::close(std::chrono::milliseconds at_most) {
    if (closed_.exchange(true)) return;
    buffer_.close();
    std::unique_lock lock(mutex_);
    idle_.wait_for(lock, at_most, [this] { return bytes_ == 0; });
}

}   // namespace forebay::cache
