// A job of torchrun, and the folder through which its nodes find peers (docs/read-cache.md, "In a job"). It has the
// job's key, and a file for each node that has had a peer. Files that are not this user's alone, or malformed, are
// refused. A file gets its name when it is complete. Thread-safe. Blocks on files, but for `find_job`.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/options.h"
#include "base/status.h"
#include "io/socket.h"
#include "wire/frame_seal.h"

namespace forebay::wire {

struct Job {
    std::string name;                 // 16 hexadecimal digits, equal in all processes of the job
    std::string master;               // MASTER_ADDR:MASTER_PORT
    std::size_t nodes = 0, own = 0;   // number of nodes, and the number of this process's node
};
// Returns nothing without a job's environment, or if the job has one node. kInvalidArgument: a value is not torchrun's.
[[nodiscard]] Result<std::optional<Job>> find_job(const Getenv& getenv);

struct NodePeer {
    std::string node;                     // the node's own name, for people
    std::optional<io::Address> address;   // IPv4; none: the peer has ended
    std::string key;                      // fingerprint of the peer's key
};
[[nodiscard]] std::string encode(const NodePeer& peer);
// Returns kCorrupt if the text is malformed.
[[nodiscard]] Result<NodePeer> parse_node_peer(std::string_view text);

class JobFolder {
  public:
    // Opens the job's folder in `folder`, and makes a missing one with a key. kPermissionDenied: another user's, or
    // others have rights to it. kUnavailable: this machine lacks libsodium. Others: it cannot be made, or read.
    [[nodiscard]] static Result<std::shared_ptr<JobFolder>> open(const std::string& folder, const Job& job);

    [[nodiscard]] std::string key_file() const;
    // Reads the key now, or makes it if it is gone.
    [[nodiscard]] Result<SealKey> key() const;

    // Notes that node `job.own` has a peer at this address.
    [[nodiscard]] Status publish(const io::Address& address) const;
    // Notes that the node's peer has ended. Removes the folder after the last peer's end. Best effort.
    void withdraw() const noexcept;
    // Returns true if the node has, or had, a peer with the same key.
    [[nodiscard]] bool has_met(std::size_t node) const;
    // Returns the address of the node's peer with the same key. Returns kNotFound if there is none.
    [[nodiscard]] Result<io::Address> find(std::size_t node) const;

  private:
    JobFolder(std::string path, const Job& job) : path_(std::move(path)), nodes_(job.nodes), own_(job.own) {}
    [[nodiscard]] std::string file_of(std::size_t node) const;
    [[nodiscard]] Status make() const;
    [[nodiscard]] Result<NodePeer> read(std::size_t node) const;
    void remove_if_all_ended() const;

    const std::string path_;
    const std::size_t nodes_, own_;
};

}   // namespace forebay::wire
