// The writes since the last commit, kept to be made again after the server was lost.
//
// At most kReplayMax bytes are kept. With more, all are dropped, and `complete` is false until the next commit.
//
// Thread-safety: one thread at a time. Nothing blocks.
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
    // `keeps` false: nothing is ever kept.
    explicit Replay(bool keeps) noexcept : keeps_(keeps), complete_(keeps) {}

    // A WRITE or a TRUNCATE, whose payload is `head` and `bytes`.
    void keep(Type type, io::Bytes head, io::Bytes bytes);
    // All that was written before is committed.
    void commit() noexcept;
    // Whether all writes since the last commit are kept.
    [[nodiscard]] bool complete() const noexcept { return complete_; }
    // Sends all to another server, and waits for its answers. Writes may be sent twice: they go to the same places.
    [[nodiscard]] Status send(Requests& requests) const;
    // Makes them on the file itself.
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
