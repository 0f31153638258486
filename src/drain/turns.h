// The turns in which a drain writes its target behind a close, when other programs may change the file. A turn begins
// with a look at the target, by the thread that takes its first write. Other writes join until one has ended. The
// thread whose write ends last looks at the target again. So as many writes are in flight as before the close, and each
// look sees an idle target. Work that was taken before the close, and begins after it, belongs to no turn and is put
// off, because another program may have changed the target. The drain takes it again in a turn. Invariants: no work
// joins a turn that is not open. No work is taken during a look. A changed target stays so until the next `open`. Not
// thread-safe: the file's lock guards it. Blocking: `begin` takes a lease.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/attempt.h"
#include "drain/target.h"
#include "drain/target_guard.h"
#include "io/file_control.h"

namespace forebay::drain {

// The relation of work to a turn. kNone: no turns. kBegins: looks at the target first. kJoins: runs beside others.
enum class Turn : std::uint8_t { kNone, kBegins, kJoins };

class Turns {
  public:
    // No turns until the next `begin`. `may_lease`: as in io::FileTraits.
    void open(bool may_lease) noexcept {
        guard_.end();
        may_lease_ = may_lease;
        lease_.reset();
        nameless_bytes_ = 0;
        open_ = looking_ = false;
    }
    // The close returns. Calls in flight form the first turn; after them the target has its present size, or that of
    // the furthest write. `shared`: other processes write the file too. A lease, where the file system has them, makes
    // programs of this machine wait with their open.
    void begin(Target& target, bool shared) {
        const log::TargetState& known = target.witness().state();
        const bool has_times = known.kind == io::TimesKind::kExact || known.kind == io::TimesKind::kServed;
        const bool at_rest = !any_taken() && !known.busy && known.in_flight == 0 && !known.others_write && has_times;
        const bool size_known = !target.size_in_doubt() && !known.others_write && !shared;
        const std::uint64_t shown = target.shown_size();
        guard_.begin(known.kind, at_rest ? std::optional(known.rest) : std::nullopt, shown,
                     size_known ? shown : std::max(shown, target.size()));
        guard_.expect_after(known.rest.changed_ns);
        open_ = false;
        if (may_lease_) (void)attempt([&] { lease_ = io::Lease::take(*target.file()); });
    }
    // Lets programs open or cut the file, after the drain.
    void let_others_open() noexcept { lease_.reset(); }

    [[nodiscard]] bool on() const noexcept { return guard_.on(); }
    // True if a call of the target was taken and has not returned.
    [[nodiscard]] bool any_taken() const noexcept { return taken_ > 0; }
    // True if no work may be taken now: a turn must end, or a thread looks at the target.
    [[nodiscard]] bool closed() const noexcept { return on() && (looking_ || (any_taken() && !open_)); }
    [[nodiscard]] Turn next() const noexcept {
        return !on() ? Turn::kNone : any_taken() ? Turn::kJoins : Turn::kBegins;
    }
    Turn take() noexcept {
        const Turn turn = next();
        if (turn == Turn::kBegins) open_ = false;
        ++taken_;
        return turn;
    }
    // Returns false for work that was taken before a close and must be put off.
    [[nodiscard]] bool may_begin(Turn turn) const noexcept { return turn != Turn::kNone || !on(); }
    // The look before the turn found the target unchanged: others may join.
    void admit() noexcept { open_ = true; }
    // Work that was taken has ended; `note` tells the guard its effect. Returns true after the last work of a turn: the
    // caller then looks at the target and calls `looked`.
    template <class Note>
    [[nodiscard]] bool end(const Note& note) noexcept {
        open_ = false;
        --taken_;
        if (on()) note(guard_);
        return looking_ = on() && !any_taken() && !changed();
    }
    void looked(bool seen) noexcept {
        looking_ = false;
        if (!seen && !changed()) guard_.lose_rest();
    }

    [[nodiscard]] TargetGuard& guard() noexcept { return guard_; }
    // True if another program changed the target: the drain stops, and the rest stays in the log.
    [[nodiscard]] bool changed() const noexcept { return guard_.changed(); }
    // The undrained bytes when the target was first seen without a name.
    [[nodiscard]] std::uint64_t nameless_bytes() const noexcept { return nameless_bytes_; }
    void note_names(const io::FileState& now, std::uint64_t pending_bytes) noexcept {
        if (nameless_bytes_ == 0 && guard_.loses_name(now)) nameless_bytes_ = pending_bytes;
    }

  private:
    TargetGuard guard_;
    std::unique_ptr<io::Lease> lease_;   // null without leases
    std::size_t taken_ = 0;              // calls of the target that have not returned
    bool may_lease_ = false;
    bool open_ = false;      // other work may join
    bool looking_ = false;   // a turn has ended and a thread looks at the target
    std::uint64_t nameless_bytes_ = 0;
};

}   // namespace forebay::drain
