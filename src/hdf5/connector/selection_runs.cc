#include "hdf5/connector/selection_runs.h"

namespace forebay::hdf5 {

SelectionRuns::SelectionRuns(hid_t space, std::size_t element_bytes)
    : iterator_(host().H5Ssel_iter_create(space, element_bytes, 0)), failed_(iterator_ < 0) {}

SelectionRuns::~SelectionRuns() {
    if (iterator_ >= 0) host().H5Ssel_iter_close(iterator_);
}

void SelectionRuns::fetch() {
    std::size_t elements = 0;
    next_ = count_ = 0;
    failed_ = host().H5Ssel_iter_get_seq_list(iterator_, kAtATime, SIZE_MAX, &count_, &elements, offsets_.data(),
                                              sizes_.data()) < 0;
    if (failed_) count_ = 0;
}

SelectionRuns::Run SelectionRuns::present() {
    if (next_ == count_ && !failed_) fetch();
    if (next_ == count_) return {};
    return {offsets_[next_] + done_, sizes_[next_] - done_};
}

void SelectionRuns::advance(std::uint64_t bytes) noexcept {
    done_ += bytes;
    if (done_ < sizes_[next_]) return;
    done_ = 0;
    ++next_;
}

}   // namespace forebay::hdf5
