#include "cache/replica_bytes.h"

#include <utility>

namespace forebay::cache {

namespace {

constexpr std::uint32_t kReadsBetweenLooks = 64;

std::uint64_t born_ns(io::File& file) {
    const auto state = file.state(io::File::Ask::kTimes);
    return state ? state.value().born_ns : 0;
}

}   // namespace

ReplicaBytes::ReplicaBytes(io::Directory& folder, std::string name, std::unique_ptr<io::File> file)
    : folder_(folder), name_(std::move(name)), resting_(std::move(file)) {
    if (const auto identity = resting_->identity()) identity_ = identity.value();
    born_ns_ = born_ns(*resting_);
    in_memory_ = resting_->traits().in_memory;
    io::SpareDescriptors& spare = io::SpareDescriptors::of_process();
    if (spare.has_room())
        if (auto kept = open()) {
            kept_ = std::move(kept).value();
            state_.store(kKept);
            if (!spare.keep(*this)) {
                state_.store(0);
                kept_.reset();
            }
        }
    resting_->rest();
}

ReplicaBytes::~ReplicaBytes() { io::SpareDescriptors::of_process().forget(*this); }

Result<std::size_t> ReplicaBytes::read_at(std::uint64_t offset, io::MutableBytes into) {
    const bool kept = (state_.fetch_add(1, std::memory_order_acquire) & (kKept | kGoing)) == kKept;
    auto got = kept ? kept_->read_at(offset, into) : Result<std::size_t>(std::size_t{0});
    leave();
    if (kept && reads_.fetch_add(1, std::memory_order_relaxed) % kReadsBetweenLooks == 0)
        io::SpareDescriptors::of_process().give_back_if_scarce();
    return kept ? std::move(got) : resting_->read_at(offset, into);
}

Result<std::unique_ptr<io::File>> ReplicaBytes::open() const {
    auto file = folder_.open_file(name_, io::OpenMode::kReadWrite);
    if (!file && io::lacks_descriptors(file.status())) (void)io::SpareDescriptors::of_process().give_all_back();
    if (!file) return file.status();
    const auto identity = file.value()->identity();
    if (!identity) return identity.status();
    if (identity.value() != identity_ || born_ns(*file.value()) != born_ns_)
        return Status(Code::kNotFound, file.value()->name() + " is another file now");
    return file;
}

void ReplicaBytes::leave() noexcept {
    if (state_.fetch_sub(1, std::memory_order_acq_rel) - 1 == (kKept | kGoing)) close_kept();
}

void ReplicaBytes::give_back() noexcept {
    if (state_.fetch_or(kGoing, std::memory_order_acq_rel) == kKept) close_kept();
}

void ReplicaBytes::close_kept() noexcept {
    std::uint32_t unused = kKept | kGoing;
    if (state_.compare_exchange_strong(unused, kGoing, std::memory_order_acq_rel)) kept_.reset();
}

}   // namespace forebay::cache
