// Tells whether a cached file still has the version of its replica. The first sign of another version makes the replica
// void for all processes, stops stores, and empties the ahead buffer. Thread-safe without a lock of its own. Blocks on
// the file server, but for `due` and `note_changed`. All that the constructor takes outlives this.
#pragma once

#include <atomic>
#include <cstdint>

#include "cache/admission.h"
#include "cache/ahead_buffer.h"
#include "cache/cache_policy.h"
#include "cache/replica.h"
#include "io/file.h"

namespace forebay::cache {

class VersionWatch {
  public:
    VersionWatch(io::File& source, Replica& replica, const CachePolicy& policy, Admission& admission,
                 AheadBuffer& buffer) noexcept
        : source_(source),
          replica_(replica),
          policy_(policy),
          admission_(admission),
          buffer_(buffer),
          looked_ns_(policy.steady_ns()) {}

    // True if the state is of the replica's version.
    [[nodiscard]] bool is_source(const io::FileState& state) const noexcept;
    // True if bytes just read from the file are of the replica's version; false if that is unknown.
    [[nodiscard]] bool is_still_source();
    // Compares the version now. Returns false without an answer. Then a look is due at each read until there is one.
    bool look_again();
    // Does so for a task. Without an answer nothing changes, unless the file is gone (ESTALE).
    void look_behind();
    void note_changed() noexcept;

    enum class Due : std::uint8_t {
        kNo,
        kNow,      // the read compares the version
        kBehind,   // a task does; call `end_behind` after it, or if there is none. Not due until then
    };
    // Whether a read has to have the version compared.
    [[nodiscard]] Due due() noexcept;
    void end_behind() noexcept { looking_.store(false); }

  private:
    bool look(bool behind);

    io::File& source_;
    Replica& replica_;
    const CachePolicy& policy_;
    Admission& admission_;
    AheadBuffer& buffer_;
    std::atomic<std::uint64_t> looked_ns_;
    std::atomic<bool> looking_{false};      // a task compares the version
    std::atomic<bool> unanswered_{false};   // the last look had no answer, and reads have to have one
};

}   // namespace forebay::cache
