// Whether another program has changed a target since this process last left it.
//
// Once the program has closed a file, any program may write it, while this process still drains. So before each turn,
// which is a change of size or the target writes that are under way together, the target is compared with what the turn
// before has left. docs/consistency.md tells what is seen of which file system, and what is not. Pure; not
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/file.h"

namespace forebay::drain {

class TargetGuard {
  public:
    enum class Found : std::uint8_t {
        kSame,
        kTimesSet,   // and its size is the same: it was written to only if its content tells so
        kChanged,    // `why` says what shows it
    };

    // From now on. `rest`: as this process has left it; none: not known yet, and its size is in between.
    void begin(io::TimesKind kind, const std::optional<io::FileState>& rest, std::uint64_t size_min,
               std::uint64_t size_max);
    // ... nor is its rest known, but that it was changed at that time: no write of a later one can have an older time.
    void expect_after(std::uint64_t changed_ns) noexcept {
        if (!rest_) rest_ = io::FileState{.changed_ns = changed_ns};
    }
    void end() noexcept { *this = {}; }
    [[nodiscard]] bool on() const noexcept { return on_; }

    // Before a turn. kTimesSet: `accept` or `reject` has the last word.
    [[nodiscard]] Found compare(const io::FileState& now);
    // Its times were set, and its content is what it was.
    void accept(const io::FileState& now) noexcept;
    void reject(std::string why);

    // It has no name any more, and had one when it was last looked at.
    [[nodiscard]] bool loses_name(const io::FileState& now) const noexcept {
        return has_times() && now.links == 0 && (!rest_ || rest_->modified_ns == 0 || rest_->links != 0);
    }

    // A target write up to `end`, or a change of size, of this turn is over.
    void wrote(std::uint64_t end, bool succeeded) noexcept;
    void resized(std::uint64_t size, bool succeeded) noexcept;
    // After a turn.
    [[nodiscard]] Found left(const io::FileState& now);

    // After a turn that could not be looked at: only its size is known.
    void lose_rest() noexcept { rest_.reset(); }

    // It was found to be changed; nothing more may be written, and this stays so.
    [[nodiscard]] bool changed() const noexcept { return changed_; }
    [[nodiscard]] const std::string& why() const noexcept { return why_; }
    // The time of its last change that another program has set: to be set again after each turn.
    [[nodiscard]] std::optional<std::uint64_t> modified_to_keep_ns() const noexcept { return modified_to_keep_ns_; }

  private:
    [[nodiscard]] bool has_times() const noexcept {
        return kind_ == io::TimesKind::kExact || kind_ == io::TimesKind::kServed;
    }
    [[nodiscard]] bool times_set(const io::FileState& now) const noexcept;
    [[nodiscard]] Found size_is(std::uint64_t size);

    bool on_ = false, changed_ = false;
    io::TimesKind kind_ = io::TimesKind::kUnknown;
    std::optional<io::FileState> rest_;
    std::uint64_t size_min_ = 0, size_max_ = 0;   // that it has to have now
    std::optional<std::uint64_t> modified_to_keep_ns_;
    std::string why_;
};

}   // namespace forebay::drain
