// The writes since the last commit, for a repetition after the loss of the server: at most kReplayMax bytes. Beyond
// that all are dropped, and `complete` is false until the next commit. Not thread-safe. Only `send` and `apply` block.
#pragma once

#include <cstddef>
#include <vector>

#include "io/file.h"
#include "wire/frame.h"
#include "wire/requests.h"

namespace forebay::wire {

inline constexpr std::size_t kReplayMax = std::size_t{32} << 20;

class Replay {
  public:
    // With `keeps` false it never keeps a write.
    explicit Replay(bool keeps) noexcept : keeps_(keeps), complete_(keeps) {}

    // Keeps a WRITE or a TRUNCATE with the payload `head` and `bytes`.
    void keep(Type type, io::Bytes head, io::Bytes bytes);
    void commit() noexcept;
    [[nodiscard]] bool complete() const noexcept { return complete_; }
    [[nodiscard]] bool empty() const noexcept { return kept_.empty(); }
    // Sends all to another server, and waits for its answers. A repeated write goes to the same offsets.
    [[nodiscard]] Status send(Requests& requests) const;
    // Makes all in `file`. Idempotent: after a failure the caller may call it again, before any later change.
    [[nodiscard]] Status apply(io::File& file) const;

  private:
    struct Kept {
        Type type;
        Payload payload;
    };
    void clear() noexcept;

    const bool keeps_;
    bool complete_;
    std::vector<Kept> kept_;
    std::size_t bytes_ = 0;
};

}   // namespace forebay::wire
