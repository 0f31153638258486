// A job that torchrun has started, and the folder in which its nodes find each other's peers (docs/read-cache.md, "In a
// job").
//
// The folder has the job's key, and a file for each node that has had a peer. All of it belongs to this user, and gives
// no rights to others; anything else is refused, and so is content of another form. Files get their names when they are
// complete. Thread-safety: all calls from any thread. Blocking: on the file system of the folder; `find_job` not at
// all.
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
    std::string name;                 // 16 hexadecimal digits, the same in all processes of the job
    std::string master;               // MASTER_ADDR:MASTER_PORT
    std::size_t nodes = 0, own = 0;   // how many there are, and which of them this process is on
};
// None: the environment is not that of a job, or the job has one node. kInvalidArgument: a variable has a value that
// torchrun does not give it.
[[nodiscard]] Result<std::optional<Job>> find_job(const Getenv& getenv);

// The content of a node's file.
struct NodePeer {
    std::string node;                     // the node's own name, for people
    std::optional<io::Address> address;   // IPv4; none: the peer has ended
    std::string key;                      // fingerprint of the key that it knows
};
[[nodiscard]] std::string encode(const NodePeer& peer);
// kCorrupt: it is none.
[[nodiscard]] Result<NodePeer> parse_node_peer(std::string_view text);

class JobFolder {
  public:
    // The folder of the job in `folder`; made, with a key, if it is missing. kPermissionDenied: it belongs to another
    // user, or others have rights to it. kUnavailable: there is no libsodium. Others: it cannot be made, or read.
    [[nodiscard]] static Result<std::shared_ptr<JobFolder>> open(const std::string& folder, const Job& job);

    // The key, for connections.
    [[nodiscard]] std::string key_file() const;
    // The same, read now, or made if it is gone.
    [[nodiscard]] Result<SealKey> key() const;

    // Node `job.own` has a peer at this address.
    [[nodiscard]] Status publish(const io::Address& address) const;
    // It has none any more. Once no node has one, the folder is removed. Best effort.
    void withdraw() const noexcept;
    // Whether the node has, or had, a peer that knows the key.
    [[nodiscard]] bool has_met(std::size_t node) const;
    // Where the node's peer is, with the key file. kNotFound: it has none, or one with another key.
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
