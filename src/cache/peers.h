// The nodes that read a file through their caches together with this one.
// Each node announces bytes before it reads them from the file, so all nodes together read the file once. Later nodes
// get the bytes from the last announcer, but wait no longer than reading the file would take: any answer may be kLate.
// docs/read-cache.md, "From other nodes". Peers' bytes are checked, and the file has the rest. Thread-safety: only the
// program's thread, where `usable` allows it, calls peers that join an open file, one call at a time. Any thread and
// forked children may call peers that a file is opened with (FindPeers). Nothing throws.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/presence.h"
#include "extent/range.h"
#include "io/file.h"

namespace forebay::cache {

enum class PeerAnswer : std::uint8_t {
    kYes,
    kNotThere,   // it answered, without the bytes
    kLate,       // no answer in time; the question's buffers stay until there is one
    kNotAsked,   // it was late before and is skipped, or no node is left to ask
};

class Peers {
  public:
    using Node = std::uint32_t;
    static constexpr Node kNobody = UINT32_MAX;
    static constexpr Node kSelf = UINT32_MAX - 1;   // this node
    [[nodiscard]] static constexpr bool is_other(Node node) noexcept { return node < kSelf; }
    struct Run {
        ByteRange range;
        Node holder = kNobody;
        friend bool operator==(const Run&, const Run&) = default;
    };

    // The stripes that this node is the home of: every `nodes`-th, from its own number on.
    struct Homes {
        std::uint64_t stripe_bytes = 0;   // whole pieces
        Node own = 0, nodes = 1;
        [[nodiscard]] constexpr bool is_here(std::uint64_t offset) const noexcept {
            return offset / stripe_bytes % nodes == own;
        }
    };

    virtual ~Peers() = default;

    // True if the calling thread may ask, and there is a node to ask.
    [[nodiscard]] virtual bool usable() noexcept = 0;
    // The granularity of announced ranges: whole blocks, and whole parts of a unit.
    [[nodiscard]] virtual std::uint64_t piece_bytes() const noexcept = 0;
    // A holder of claims within one such stretch never waits for a node that waits for another one. 0: no limit.
    [[nodiscard]] virtual std::uint64_t claim_within() const noexcept { return 0; }
    // Where this node begins to read ahead; different on each node.
    [[nodiscard]] virtual std::uint64_t first_byte() const noexcept = 0;
    // This node's share of bytes that all nodes are to fetch.
    [[nodiscard]] virtual Homes homes() const noexcept = 0;

    // Announces `pieces`, which take `cost_ns` to read from the file. With kYes `before` has the earlier announcers, in
    // order and without gaps. Never returns kNotThere.
    [[nodiscard]] virtual PeerAnswer tell(ByteRange pieces, std::uint64_t cost_ns,
                                          std::vector<Run>& before) noexcept = 0;
    // Takes back `run`, one that `tell` returned. Does not wait.
    virtual void take_back(const Run& run) noexcept = 0;
    // Fills `into` with `blocks`, whole blocks of the file. `into` is valid after kYes only.
    [[nodiscard]] virtual PeerAnswer read(Node holder, ByteRange blocks, io::MutableBytes into,
                                          std::uint64_t cost_ns) noexcept = 0;
    // Does not wait.
    virtual void help() noexcept = 0;
    // The last call: this node closes the file. Others may go on asking. Does not wait.
    virtual void leave() noexcept = 0;
};

struct PeersWanted {
    Version version;
    std::string path;      // of the file
    std::string replica;   // the one that this process reads (Replica::label)
};
using FindPeers = std::function<std::shared_ptr<Peers>(const PeersWanted& file)>;   // null: there are none

}   // namespace forebay::cache
