// The caches of other nodes, read through MPI's one-sided communication (passive target).
// Three windows span the ranks that have opened a file. The lowest rank of each node, its leader, exposes
//   - its part of the directory: a word for each piece of the file, which only MPI's atomics change (MPI_REPLACE);
//   - the presence map of its node's replica, and the replica, both read only.
// The word is 0, or 1 plus the number of the last node that announced the piece. A node that announces a piece swaps
// its number in, and asks the node whose number it gets. So each node asks the one before it.
// Every communication is a request that is tested until a time limit. A late request is left alone and keeps its
// buffers until it has ended. The class takes no lock and no flush, which could wait for a rank that computes. Source:
// MPI 3.1, chapter 11; sections 11.3.4 (MPI_Rget_accumulate) and 11.7.4 (progress).
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/status.h"
#include "cache/attached_replica.h"
#include "cache/peer_patience.h"
#include "cache/peer_view.h"
#include "cache/peers.h"
#include "mpi/calls.h"

namespace forebay::mpi {

class WindowPeers final : public cache::Peers {
  public:
    struct Setup {
        std::uint64_t id = 0;   // of these windows, equal on all ranks
        int ranks = 0;
        std::uint64_t file_bytes = 0;
        std::vector<int> leaders;
        Node own = 0;
        cache::AttachedReplica::Exposed exposed;   // set on a leader
    };
    explicit WindowPeers(Setup setup);
    ~WindowPeers() override;
    // Collective. The caller finds out if the calls have succeeded on all ranks.
    [[nodiscard]] Status make_directory(MPI_Comm communicator);
    [[nodiscard]] Status make_maps(MPI_Comm communicator);
    [[nodiscard]] Status make_replicas(MPI_Comm communicator);
    // Call this after all ranks have made all windows.
    void begin() noexcept { ready_ = true; }
    // Collective. Waits for late requests, and frees the windows.
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
    // One question with its buffers, which stay in place until all requests have ended.
    struct Question {
        std::vector<MPI_Request> requests;
        std::vector<std::uint32_t> told, words;   // directory words; checksums
        std::vector<std::byte> bytes;
        cache::PeerView view{ByteRange{0, 1}};
    };
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
    // Times until which the caller waits for an answer, and for blocks that have not arrived at the holder.
    struct Bounds {
        std::uint64_t answer_ns = 0, arrival_ns = 0;
    };
    [[nodiscard]] cache::PeerAnswer read_until(Node holder, ByteRange blocks, io::MutableBytes into, Bounds until);
    [[nodiscard]] cache::PeerAnswer look_until(Node holder, std::unique_ptr<Question>& question, Bounds until);

    Setup setup_;
    const std::thread::id thread_ = std::this_thread::get_id();
    std::uint64_t piece_bytes_ = cache::kBlockBytes;
    MPI_Win directory_ = MPI_WIN_NULL, maps_ = MPI_WIN_NULL, replicas_ = MPI_WIN_NULL;
    MPI_Comm communicator_ = MPI_COMM_NULL;   // the team's; null after `leave`
    std::vector<cache::PeerPatience> patience_;
    std::vector<std::unique_ptr<Question>> late_;   // has room for kLateMax
    bool ready_ = false, broken_ = false, left_ = false;
};

}   // namespace forebay::mpi
