#include "drain/turns.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/attempt.h"

namespace forebay::drain {

void Turns::open() noexcept {
    guard_.end();
    lease_.reset();
    nameless_bytes_ = 0;
    open_ = looking_ = false;
}

void Turns::begin(Target& target, bool shared) {
    const log::TargetState& known = target.witness().state();
    const bool has_times = known.kind == io::TimesKind::kExact || known.kind == io::TimesKind::kServed;
    const bool at_rest = !any_taken() && !known.busy && known.in_flight == 0 && !known.others_write && has_times;
    const bool size_known = !target.size_in_doubt() && !known.others_write && !shared;
    const std::uint64_t shown = target.shown_size();
    guard_.begin(known.kind, at_rest ? std::optional(known.rest) : std::nullopt, shown,
                 size_known ? shown : std::max(shown, target.size()));
    guard_.expect_after(known.rest.changed_ns);
    open_ = false;
    // NFS and its like may have to ask the server for one.
    if (has_times) (void)attempt([&] { lease_ = io::Lease::take(*target.file()); });
}

Turn Turns::take() noexcept {
    const Turn turn = next();
    if (turn == Turn::kBegins) open_ = false;
    ++taken_;
    return turn;
}

}   // namespace forebay::drain
