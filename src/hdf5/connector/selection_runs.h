// The selected elements of a dataspace, as runs of bytes, in HDF5's order of transfer.
// Offsets count from the first element of the extent, like in memory. Ownership: owns a library iterator; the dataspace
// must outlive it. Thread-safety: as HDF5's. No call blocks. Source: HDF5 reference manual, H5Ssel_iter_create.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hdf5/host/host.h"

namespace forebay::hdf5 {

class SelectionRuns {
  public:
    SelectionRuns(hid_t space, std::size_t element_bytes);
    ~SelectionRuns();
    SelectionRuns(const SelectionRuns&) = delete;
    SelectionRuns& operator=(const SelectionRuns&) = delete;

    struct Run {
        std::uint64_t offset = 0, size = 0;   // bytes
    };
    // Returns the rest of the present run. It is empty at the end, or if HDF5 fails (`failed`).
    [[nodiscard]] Run present();
    void advance(std::uint64_t bytes) noexcept;
    [[nodiscard]] bool failed() const noexcept { return failed_; }

  private:
    static constexpr std::size_t kAtATime = 512;
    void fetch();

    hid_t iterator_ = H5I_INVALID_HID;
    bool failed_ = false;
    std::size_t next_ = 0, count_ = 0;
    std::uint64_t done_ = 0;   // bytes of the present run
    std::array<hsize_t, kAtATime> offsets_;
    std::array<std::size_t, kAtATime> sizes_;
};

}   // namespace forebay::hdf5
