// Detects changes of a target by another program, while this process drains behind a close.
// Before each turn (drain/turns.h) it compares the target with the state that the turn before left. docs/consistency.md
// tells what it detects on which file system. Pure; not thread-safe.
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
        kTimesSet,   // another program set its times; its content decides
        kChanged,    // `why` says how that shows
    };

    // Begins. `rest` is the state that this process left; none: unknown, with a size between the two.
    void begin(io::TimesKind kind, const std::optional<io::FileState>& rest, std::uint64_t size_min,
               std::uint64_t size_max);
    // Without `rest`: the last change was at `changed_ns`. A later write cannot have an older time.
    void expect_after(std::uint64_t changed_ns) noexcept { after_ns_ = changed_ns; }
    void end() noexcept { *this = {}; }
    [[nodiscard]] bool on() const noexcept { return on_; }

    // Before a turn. After kTimesSet the caller calls `accept` or `reject`.
    [[nodiscard]] Found compare(const io::FileState& now);
    // Takes `now` as the state that this process left.
    void accept(const io::FileState& now) noexcept;
    void reject(std::string why);

    // True if the file has lost its last name since the last look.
    [[nodiscard]] bool loses_name(const io::FileState& now) const noexcept {
        return has_times() && now.links == 0 && (!rest_ || rest_->links != 0);
    }

    // A target write up to `end`, or a change of size, has ended.
    void wrote(std::uint64_t end, bool succeeded) noexcept;
    void resized(std::uint64_t size, bool succeeded) noexcept;
    // After a turn: compares the size, and takes `now` as the state that this process left.
    [[nodiscard]] Found left(const io::FileState& now);

    // After a turn without a look: only the size is known.
    void lose_rest() noexcept {
        rest_.reset();
        after_ns_.reset();
    }

    // True for good after a change: nothing more may be written.
    [[nodiscard]] bool changed() const noexcept { return changed_; }
    [[nodiscard]] const std::string& why() const noexcept { return why_; }
    // The modification time that another program has set, to be restored after each turn.
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
    std::optional<std::uint64_t> after_ns_;       // without `rest_`: the time of the last change
    std::uint64_t size_min_ = 0, size_max_ = 0;   // bounds of its present size
    std::optional<std::uint64_t> modified_to_keep_ns_;
    std::string why_;
};

}   // namespace forebay::drain
