#include "plan/read_merge.h"

#include <algorithm>

namespace forebay::plan {

std::vector<ReadRequest> merge_reads(std::span<const ReadPiece> pieces, const ReadPolicy& policy) {
    std::vector<ReadRequest> requests;
    std::uint64_t wanted = 0;   // bytes wanted from the last request
    bool closed = true;         // the last request takes no more
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        const ByteRange& range = pieces[i].range;
        const bool straight = range.size() >= policy.straight_min;
        if (!closed && !straight) {
            ReadRequest& last = requests.back();
            const std::uint64_t end = std::max(last.hull.end, range.end), size = end - last.hull.begin;
            const std::uint64_t gap = range.begin > last.hull.end ? range.begin - last.hull.end : 0;
            if (gap <= policy.gap_max && size <= policy.hull_max &&
                size <= policy.waste_max * (wanted + range.size()) + policy.gap_max) {
                last.hull.end = end;
                last.end = i + 1;
                wanted += range.size();
                continue;
            }
        }
        requests.push_back({range, i, i + 1});
        wanted = range.size();
        closed = straight;
    }
    return requests;
}

}   // namespace forebay::plan
