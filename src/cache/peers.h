// What other nodes hold of a file that this one reads through its cache too.
//
// Each node says what it is about to have before it reads that from the file: then all nodes together read the file
// once. Whoever asks for the same later learns who was the last to say so, and gets the bytes from there. Nobody waits
// for another node longer than reading the file would take, so each answer may be that it did not come in time.
// docs/read-cache.md, "From other nodes".
//
// Correctness needs none of it: what a peer gives was checked, and what it does not give is read from the file. Peers
// that join an open file are called by the program's thread only, where `usable` says so; one call at a time. Those
// that a file is opened with (FindPeers) are called by any thread, several at once, and by forked children. Nothing
// throws.
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
    kNotThere,   // it answered, and does not have the bytes
    kLate,       // no answer in time; the buffers of the question stay until there is one
    kNotAsked,   // it was late before, and is left alone for a while; or nobody can be asked any more
};

class Peers {
  public:
    using Node = std::uint32_t;
    static constexpr Node kNobody = UINT32_MAX;
    static constexpr Node kSelf = UINT32_MAX - 1;   // this node
    [[nodiscard]] static constexpr bool is_other(Node node) noexcept { return node < kSelf; }
    // A range and who was the last to say that it is about to have it.
    struct Run {
        ByteRange range;
        Node holder = kNobody;
        friend bool operator==(const Run&, const Run&) = default;
    };

    // Which stripes of the file this node is the home of: every `nodes`-th, from its own number on.
    struct Homes {
        std::uint64_t stripe_bytes = 0;   // whole pieces
        Node own = 0, nodes = 1;
        [[nodiscard]] constexpr bool is_here(std::uint64_t offset) const noexcept {
            return offset / stripe_bytes % nodes == own;
        }
    };

    virtual ~Peers() = default;

    // Whether the calling thread may ask, and anybody can be asked.
    [[nodiscard]] virtual bool usable() noexcept = 0;
    // Ranges are told in pieces of so many bytes: whole blocks, and whole parts of a unit.
    [[nodiscard]] virtual std::uint64_t piece_bytes() const noexcept = 0;
    // Whoever claims units of one of these, and asks for them, waits for nobody who waits for units of another one. 0:
    // a claim may go on behind it.
    [[nodiscard]] virtual std::uint64_t claim_within() const noexcept { return 0; }
    // Where in the file this node begins to read ahead, so that not all begin at the same place.
    [[nodiscard]] virtual std::uint64_t first_byte() const noexcept = 0;
    // Of what all nodes are to fetch, this one fetches that.
    [[nodiscard]] virtual Homes homes() const noexcept = 0;

    // This node is about to have `pieces`, of which reading the file would take `cost_ns`. With kYes `before` has
    // who said so before, in order and without gaps. kNotThere is no answer of it.
    [[nodiscard]] virtual PeerAnswer tell(ByteRange pieces, std::uint64_t cost_ns,
                                          std::vector<Run>& before) noexcept = 0;
    // This node is not about to have `run` after all, which is one of those that `tell` gave. Does not wait.
    virtual void take_back(const Run& run) noexcept = 0;
    // Fills `into` with `blocks` of the file, whole blocks. What `into` holds counts with kYes only.
    [[nodiscard]] virtual PeerAnswer read(Node holder, ByteRange blocks, io::MutableBytes into,
                                          std::uint64_t cost_ns) noexcept = 0;
    // Helps along what other nodes ask this one, and what was late. Does not wait.
    virtual void help() noexcept = 0;
    // The file is closed here. Nothing else is called any more. Does not wait for others, who may go on asking.
    virtual void leave() noexcept = 0;
};

// A file that peers are wanted for.
struct PeersWanted {
    Version version;
    std::string path;      // of the file
    std::string replica;   // which one this process reads (Replica::label)
};
using FindPeers = std::function<std::shared_ptr<Peers>(const PeersWanted& file)>;   // null: there are none

}   // namespace forebay::cache
