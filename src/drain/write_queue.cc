#include "drain/write_queue.h"

namespace forebay::drain {

void WriteQueue::add(plan::TargetWrite write) {
    in_flight_.add(write.range);
    try {
        planned_.push_back(std::move(write));
    } catch (...) {
        in_flight_.remove(write.range);
        throw;
    }
    const plan::TargetWrite& planned = planned_.back();
    in_flight_bytes_ += planned.range.size();
    for (const plan::Piece& piece : planned.pieces) bytes_.index().pin(piece.keeper);
}

plan::TargetWrite WriteQueue::take(std::uint64_t now_ns) {
    plan::TargetWrite write = std::move(planned_.front());
    planned_.pop_front();
    if (running_++ == 0) busy_since_ns_ = now_ns;
    return write;
}

void WriteQueue::complete(const plan::TargetWrite& write, std::uint64_t now_ns) {
    put_back(write);
    concurrency_.completed(write.range.size(), now_ns - std::exchange(busy_since_ns_, now_ns));
}

void WriteQueue::put_back(const plan::TargetWrite& write) {
    release(write);
    --running_;
}

std::uint64_t WriteQueue::drop_planned() {
    std::uint64_t lowest = kOffsetMax;
    for (const plan::TargetWrite& write : planned_) {
        release(write);
        lowest = std::min(lowest, write.range.begin);
    }
    planned_.clear();
    return lowest;
}

// Its range may be written again, and its segments may go.
void WriteQueue::release(const plan::TargetWrite& write) {
    in_flight_.remove(write.range);
    in_flight_bytes_ -= write.range.size();
    for (const plan::Piece& piece : write.pieces) bytes_.index().unpin(piece.keeper);
}

}   // namespace forebay::drain
