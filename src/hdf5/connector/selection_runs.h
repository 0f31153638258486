// The elements that a dataspace selects, as runs of bytes, in the order in which HDF5 transfers them.
//
// Offsets count from the first element of the extent, elements being as they lie in memory, one after the other.
// Ownership: has an iterator of the library, until it ends; the dataspace must live until then. Thread-safety: as
// HDF5's. Nothing blocks. Source: HDF5 reference manual, H5Ssel_iter_create.
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
    // The rest of the present run. Empty: there are no more, or HDF5 does not tell (`failed`).
    [[nodiscard]] Run present();
    void advance(std::uint64_t bytes) noexcept;
    [[nodiscard]] bool failed() const noexcept { return failed_; }

  private:
    static constexpr std::size_t kAtATime = 512;
    void fetch();

    hid_t iterator_ = H5I_INVALID_HID;
    bool failed_ = false;
    std::size_t next_ = 0, count_ = 0;
    std::uint64_t done_ = 0;   // of the present run
    std::array<hsize_t, kAtATime> offsets_;
    std::array<std::size_t, kAtATime> sizes_;
};

}   // namespace forebay::hdf5
