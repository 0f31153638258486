// The caches of other nodes through MPI's one-sided communication, passive target only.
//
// Three windows over the ranks that have opened a file. The leader of each node, its lowest rank, exposes
//   - its part of the directory: a word for each piece of the file, 0 or the number of the node that was the last to
//     say that it is about to have the piece, plus 1. Changed by MPI's atomics only, by MPI_REPLACE;
//   - the presence map of its node's replica, and the replica: read only.
// A node that tells swaps its number in: what was there before is whom to ask. So each node asks the one before it, and
// no node has to serve all others.
//
// All communication is by requests, tested until a bound. One that is late is left alone: it keeps its buffers until it
// has ended. There is no lock and no flush, which could wait for a rank that computes.
// Source: MPI 3.1, chapter 11; sections 11.3.4 (MPI_Rget_accumulate) and 11.7.4 (progress).
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/status.h"
#include "cache/cached_file.h"
#include "cache/peer_patience.h"
#include "cache/peer_view.h"
#include "cache/peers.h"
#include "mpi/calls.h"

namespace forebay::mpi {

class WindowPeers final : public cache::Peers {
  public:
    struct Setup {
        std::uint64_t id = 0;   // of these windows, on all ranks
        int ranks = 0;          // that have them
        std::uint64_t file_bytes = 0;
        std::vector<int> leaders;             // of each node
        Node own = 0;                         // the node of this rank
        cache::CachedFile::Exposed exposed;   // by a leader
    };
    explicit WindowPeers(Setup setup);
    ~WindowPeers() override;
    // Collective, as often as it succeeds on this rank: the caller finds out whether it did on all.
    [[nodiscard]] Status make_directory(MPI_Comm communicator);
    [[nodiscard]] Status make_maps(MPI_Comm communicator);
    [[nodiscard]] Status make_replicas(MPI_Comm communicator);
    // All ranks have all windows.
    void begin() noexcept { ready_ = true; }
    // Collective: waits for what was late, and frees the windows.
    void end() noexcept;

    [[nodiscard]] std::uint64_t id() const noexcept { return setup_.id; }
    [[nodiscard]] int ranks() const noexcept { return setup_.ranks; }
    [[nodiscard]] bool left() const noexcept { return left_; }

    [[nodiscard]] bool usable() noexcept override;
    [[nodiscard]] std::uint64_t piece_bytes() const noexcept override { return piece_bytes_; }
    [[nodiscard]] std::uint64_t first_byte() const noexcept override;
    [[nodiscard]] Homes homes() const noexcept override;
    [[nodiscard]] cache::PeerAnswer tell(ByteRange pieces, std::uint64_t cost_ns,
                                         std::vector<Run>& before) noexcept override;
    void take_back(const Run& run) noexcept override;
    [[nodiscard]] cache::PeerAnswer read(Node holder, ByteRange blocks, io::MutableBytes into,
                                         std::uint64_t cost_ns) noexcept override;
    void help() noexcept override;
    void leave() noexcept override;

  private:
    // One question with its buffers, which stay where they are until all requests have ended.
    struct Question {
        std::vector<MPI_Request> requests;
        std::vector<std::uint32_t> told, words;   // of the directory; checksums
        std::vector<std::byte> bytes;
        cache::PeerView view{ByteRange{0, 1}};
    };
    // A part of the directory, on one node.
    struct Part {
        Node home = 0;
        std::uint64_t first_word = 0, words = 0;
    };
    enum class Wait : std::uint8_t { kDone, kLate, kBroken };

    [[nodiscard]] Status make_window(MPI_Comm communicator, io::MutableBytes memory, MPI_Win& window);
    [[nodiscard]] std::vector<Part> parts_of(ByteRange pieces) const;
    [[nodiscard]] int leader(Node node) const noexcept { return setup_.leaders[node]; }
    [[nodiscard]] bool issued(int result) noexcept;
    void add_look(Question& question, Node holder);
    [[nodiscard]] Wait await(Question& question, std::uint64_t until_ns) noexcept;
    void abandon(std::unique_ptr<Question> question) noexcept;
    [[nodiscard]] cache::PeerAnswer ask_directory(std::unique_ptr<Question> question, const std::vector<Part>& parts,
                                                  std::uint64_t until_ns, std::vector<std::uint32_t>& answers);
    // Until when an answer is waited for, and what is not there yet.
    struct Bounds {
        std::uint64_t answer_ns = 0, arrival_ns = 0;
    };
    [[nodiscard]] cache::PeerAnswer read_until(Node holder, ByteRange blocks, io::MutableBytes into, Bounds until);
    [[nodiscard]] cache::PeerAnswer look_until(Node holder, std::unique_ptr<Question>& question, Bounds until);

    Setup setup_;
    const std::thread::id thread_ = std::this_thread::get_id();
    std::uint64_t piece_bytes_ = cache::kBlockBytes;
    MPI_Win directory_ = MPI_WIN_NULL, maps_ = MPI_WIN_NULL, replicas_ = MPI_WIN_NULL;
    MPI_Comm communicator_ = MPI_COMM_NULL;         // the team's, until `leave`
    std::vector<cache::PeerPatience> patience_;     // by node
    std::vector<std::unique_ptr<Question>> late_;   // has room for kLateMax
    bool ready_ = false, broken_ = false, left_ = false;
};

}   // namespace forebay::mpi
