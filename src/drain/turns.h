// The turns in which a drain writes its target behind a close, when other programs may change the file.
//
// A turn begins with a look at the target, by the thread that has taken its first write. Others join as long as none of
// its writes has ended. The thread whose write ends last looks at the state in which the turn leaves the target. So as
// many writes are under way at a time as before the close, and each look sees a target at rest.
//
// Work that was taken before the close returned, and has not begun by then, belongs to no turn. It is put off: another
// program may change the target before the work begins. The drain takes it again, in a turn.
// Invariants: no work joins a turn that is not open; no work is taken during a look; a target that another program has
// changed stays so until the next `open`.
// Not thread-safe: the file's lock guards it. Blocking: `begin` may ask a server for a lease.
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

// The relation of a write or a change of size to a turn. kNone: it belongs to none. kBegins: it looks at the target
// first. kJoins: it runs beside others of the turn.
enum class Turn : std::uint8_t { kNone, kBegins, kJoins };

class Turns {
  public:
    // The file is opened again: no turns until the next `begin`.
    void open() noexcept {
        guard_.end();
        lease_.reset();
        nameless_bytes_ = 0;
        open_ = looking_ = false;
    }
    // The close returns. Calls that have begun are the first turn: after them the target has its present size, or ends
    // where the furthest of them ends. `shared`: other processes write the file, too. Programs of this machine wait
    // with their open, where the file system has leases.
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
        // NFS and its like may have to ask the server for one.
        if (has_times) (void)attempt([&] { lease_ = io::Lease::take(*target.file()); });
    }
    // The drain is over: programs that wait to open the file, or to cut it, go on.
    void let_others_open() noexcept { lease_.reset(); }

    [[nodiscard]] bool on() const noexcept { return guard_.on(); }
    // A call of the target was taken, and has not returned.
    [[nodiscard]] bool any_taken() const noexcept { return taken_ > 0; }
    // No work may be taken now: others have to end, or are looking at the target.
    [[nodiscard]] bool closed() const noexcept { return on() && (looking_ || (any_taken() && !open_)); }
    // The turn of the work that is taken next.
    [[nodiscard]] Turn next() const noexcept {
        return !on() ? Turn::kNone : any_taken() ? Turn::kJoins : Turn::kBegins;
    }
    Turn take() noexcept {
        const Turn turn = next();
        if (turn == Turn::kBegins) open_ = false;
        ++taken_;
        return turn;
    }
    // Returns false if a close has returned since the work was taken: it must be put off.
    [[nodiscard]] bool may_begin(Turn turn) const noexcept { return turn != Turn::kNone || !on(); }
    // The look before the turn has found the target unchanged: others may join.
    void admit() noexcept { open_ = true; }
    // Work that was taken is over. `note` tells the guard of its effect. Returns true if it was the last of a turn: the
    // caller looks at the target then, and calls `looked`.
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

    // The comparison of the target with the state in which a turn has left it.
    [[nodiscard]] TargetGuard& guard() noexcept { return guard_; }
    // Another program has changed the target: the rest stays in the log, and the drain writes nothing more.
    [[nodiscard]] bool changed() const noexcept { return guard_.changed(); }
    // The number of bytes that had not drained when the target was first seen without its last name.
    [[nodiscard]] std::uint64_t nameless_bytes() const noexcept { return nameless_bytes_; }
    void note_names(const io::FileState& now, std::uint64_t pending_bytes) noexcept {
        if (nameless_bytes_ == 0 && guard_.loses_name(now)) nameless_bytes_ = pending_bytes;
    }

  private:
    TargetGuard guard_;
    std::unique_ptr<io::Lease> lease_;   // where there are leases
    std::size_t taken_ = 0;              // calls of the target that were taken, and have not returned
    bool open_ = false;                  // more may begin beside those that are under way
    bool looking_ = false;               // a turn has ended, and a thread looks at the target
    std::uint64_t nameless_bytes_ = 0;
};

}   // namespace forebay::drain
