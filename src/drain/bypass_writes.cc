#include "drain/bypass_writes.h"

#include <new>

#include "drain/outflow.h"

namespace forebay::drain {

Result<TargetCalls::Call> BypassWrites::begin(std::uint64_t offset, io::Bytes bytes) {
    outflow_.state.mutex.assert_held();
    const ByteRange range{offset, offset + bytes.size()};
    for (;;) {
        FOREBAY_TRY(outflow_.state.arrivals.await(outflow_.state.mutex, [&]() NO_THREAD_SAFETY_ANALYSIS {
            return !outflow_.state.queue.in_flight().overlaps(range) && !outflow_.state.queue.resizing();
        }));
        if (range.end <= outflow_.state.target.cut_due().value_or(kOffsetMax)) break;
        FOREBAY_TRY(outflow_.drain());   // carries out the cut
    }
    const TargetCalls::Call call = outflow_.state.calls.begin(true);
    try {
        outflow_.state.queue.begin_bypass(range);
    } catch (const std::bad_alloc&) {
        outflow_.state.calls.note_return(call, false);
        outflow_.state.calls.end(call);
        throw;
    }
    if (!outflow_.state.target.witness().to_be_seen_before(range).empty()) {
        const Unlocked meanwhile(outflow_.state.mutex);
        outflow_.inspector.sample_before(range);
    }
    outflow_.state.target.begin_write(range, bytes.first(log::sample_length(offset, bytes.size())));
    outflow_.state.target.reaches(range.end);
    return call;
}

void BypassWrites::end(ByteRange range, const TargetCalls::Call& call, const Status& written) noexcept {
    outflow_.state.mutex.assert_held();
    outflow_.state.queue.end_bypass(range);
    outflow_.state.target.end_write(range, written.is_ok());
    if (written && outflow_.state.failures.unreadable().overlaps(range)) outflow_.state.failures.clear_unreadable();
    outflow_.state.calls.note_return(call, written.is_ok());
    if (written) outflow_.state.facts.note_unsynced();
    else outflow_.state.resend(written);
    outflow_.state.arrivals.announce();
    (void)outflow_.state.end_call(call);
}

}   // namespace forebay::drain
