// Changes that the file refused but that HDF5 assumes done: writes of metadata, and a size.
// The file is *whole* while there are none: it has the last bytes that HDF5 wrote at each place. A commit of a file
// that is not whole would be a state that never existed, so it must fail, and the last commit stays.
//
// HDF5 keeps some of its refused entries dirty and writes them again at the next flush, and drops others. So no call
// of HDF5 makes the file whole by itself. A refused range counts as made only once later writes have replaced all of
// its bytes, or a cut has removed them. A refused size counts as made once a later size was accepted. A place that HDF5
// has freed and uses no more stays refused: forebay cannot tell it from a lost entry.
//
// Ownership: the file's handle. Thread-safety: one thread at a time. No call blocks. If memory is too short to note a
// change, the file never counts as whole again.
#pragma once

#include <cstdint>

#include "base/attempt.h"
#include "base/status.h"
#include "extent/range.h"
#include "extent/range_union.h"

namespace forebay::stage {

class RefusedChanges {
  public:
    void refuse_write(ByteRange range, const Status& why) noexcept {
        for_good_ = !attempt([&] { ranges_.add(range); }) || for_good_;
        keep(why);
    }
    void refuse_size(const Status& why) noexcept {
        size_ = true;
        keep(why);
    }
    // The file has taken a write of the range, of any class.
    void replace(ByteRange range) noexcept {
        if (!whole()) remove(range);
    }
    // The file has this size now.
    void resize(std::uint64_t size) noexcept {
        if (whole()) return;
        size_ = false;
        remove({size, kOffsetMax});
    }

    [[nodiscard]] bool whole() const noexcept { return why_.is_ok(); }
    [[nodiscard]] bool lacks_size() const noexcept { return size_; }
    // Returns the first failure since the file was whole, or ok if it is.
    [[nodiscard]] const Status& why() const noexcept { return why_; }

  private:
    void keep(const Status& why) noexcept {
        if (whole()) why_ = copy_of(why, "a write failed");
    }
    void remove(ByteRange range) noexcept {
        (void)attempt([&] { ranges_.remove(range); });   // without memory the range stays refused
        if (ranges_.empty() && !size_ && !for_good_) why_ = Status::ok();
    }

    RangeUnion ranges_;
    bool size_ = false, for_good_ = false;
    Status why_;
};

}   // namespace forebay::stage
