#include "stage/target_reads.h"

#include <cstring>
#include <utility>

#include "base/attempt.h"
#include "io/page_buffer.h"

namespace forebay::stage {

Status read_or_zeros(io::File& file, std::uint64_t offset, io::MutableBytes into) {
    auto got = file.read_at(offset, into);
    if (!got) return got.status();
    if (got.value() < into.size()) std::memset(into.data() + got.value(), 0, into.size() - got.value());
    return Status::ok();
}

Status TargetReads::carry_out(const plan::ReadRequest& request) {
    const plan::ReadPiece& first = pieces_[request.first];
    if (request.end - request.first == 1)
        return read_or_zeros(*target_, first.range.begin, {first.to, first.range.size()});
    const io::PageBuffer buffer(request.hull.size());
    FOREBAY_TRY(read_or_zeros(*target_, request.hull.begin, buffer.bytes()));
    for (std::size_t i = request.first; i < request.end; ++i)
        std::memcpy(pieces_[i].to, buffer.bytes().data() + (pieces_[i].range.begin - request.hull.begin),
                    pieces_[i].range.size());
    return Status::ok();
}

void TargetReads::work() noexcept {
    std::unique_lock lock(mutex_);
    while (next_ < requests_.size() && failure_.is_ok()) {
        const plan::ReadRequest& request = requests_[next_++];
        ++running_;
        lock.unlock();
        Status outcome = attempt([&] { return carry_out(request); });
        lock.lock();
        --running_;
        if (!outcome && failure_.is_ok()) failure_ = std::move(outcome);
    }
    if (running_ == 0) idle_.notify_all();
}

Status TargetReads::wait() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return running_ == 0; });
    next_ = requests_.size();   // a thread that comes now finds nothing
    return std::exchange(failure_, Status::ok());
}

}   // namespace forebay::stage
