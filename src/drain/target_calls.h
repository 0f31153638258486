// The calls of one target that may report a loss, and the losses that it has reported.
// A target that reports late (io::FileTraits) reports each loss once, at any call: a write, a change of size, a sync or
// a close. The call that gets the report may be another one than the call that lost the bytes. So:
//   - after a report, all bytes that were not confirmed before count as lost;
//   - a sync that succeeds confirms earlier bytes once all calls that overlapped with it have ended without a report.
// The log has most of these bytes and sends them again. Bytes that it lacks are *final*: bytes that bypassed it, and
// all bytes of a file that ranks of several nodes write. A report about final bytes is an error that stays.
// Not thread-safe: the file's lock guards it. Nothing blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace forebay::drain {

class TargetCalls {
  public:
    struct Call {
        std::uint64_t number = 0;    // calls are numbered in the order in which they begin
        std::uint64_t reports = 0;   // before it began
        bool final = false;          // it writes final bytes
    };

    // Begins a call. std::bad_alloc: it has not begun.
    [[nodiscard]] Call begin(bool final = false) {
        in_flight_.push_back(next_);
        if (final) ++final_in_flight_;
        return {next_++, reports_, final};
    }
    // Before its failure is handled; `end` follows.
    void note_return(const Call& call, bool succeeded) noexcept {
        if (!call.final) return;
        --final_in_flight_;
        final_ = final_ || succeeded;
    }
    void end(const Call& call) noexcept { std::erase(in_flight_, call.number); }
    [[nodiscard]] std::uint64_t next() const noexcept { return next_; }
    [[nodiscard]] bool ended_before(std::uint64_t number) const noexcept {
        return std::ranges::none_of(in_flight_, [number](std::uint64_t call) { return call < number; });
    }

    // A call has got a report. Calls in flight may have lost bytes, too.
    void note_report() noexcept { ++reports_; }
    [[nodiscard]] bool reported_since(const Call& call) const noexcept { return reports_ != call.reports; }

    // A call beside the drain has written final bytes.
    void note_final() noexcept { final_ = true; }
    // A sync begins, and ends. It confirms the final bytes that were written before it began.
    void begin_confirm() noexcept { final_asked_ = std::exchange(final_, false) || final_asked_; }
    void end_confirm(bool confirmed) noexcept {
        if (!confirmed) final_ = final_ || final_asked_;
        final_asked_ = false;
    }
    [[nodiscard]] bool any_final() const noexcept { return final_ || final_asked_ || final_in_flight_ > 0; }
    // The file is opened anew: the last close has told what there was to tell.
    void open() noexcept { final_ = final_asked_ = false; }

  private:
    std::vector<std::uint64_t> in_flight_;
    std::uint64_t next_ = 0, reports_ = 0;
    std::size_t final_in_flight_ = 0;
    bool final_ = false, final_asked_ = false;   // written, and written before the sync in flight
};

}   // namespace forebay::drain
