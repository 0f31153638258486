// Memory of a client's that its server reads and writes through libfabric (docs/protocol.md, "Through libfabric").
//
// A process has one end of it for each role, provider and network address, which all its sessions share: a client's
// exposes memory, a server's reaches that, and exposes none. The memory that a client exposes belongs to its end, and
// is never anything else: whoever reaches it later than it should, or without being asked, finds bytes that are checked
// by their seal. A request has a place of it with a random key, which ends with the request.
//
// Ownership: shared; the last owner closes the end, so what the provider does no more complete ends then, too.
// Thread-safety: all calls from any thread. There are no threads: an end does something only while a call of its own
// waits (FI_PROGRESS_MANUAL). Blocking: as each call says. In a forked child nothing can be used.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/file.h"
#include "io/socket.h"

namespace forebay::wire {

class Fabric {
  public:
    enum class Role : bool { kExposes, kReaches };
    // The end for a connection whose own address is `host`. `provider`: libfabric's name of it; empty: the one that
    // suits best. kUnavailable: this build or this machine does not have it, or no provider fits. Blocks: the first
    // call loads libfabric.
    [[nodiscard]] static Result<std::shared_ptr<Fabric>> open(Role role, std::uint32_t host,
                                                              const std::string& provider = {});
    virtual ~Fabric() = default;
    Fabric(const Fabric&) = delete;
    Fabric& operator=(const Fabric&) = delete;

    [[nodiscard]] virtual const std::string& provider() const noexcept = 0;
    [[nodiscard]] virtual io::Bytes address() const noexcept = 0;

    // ---- a client's
    enum class Access : bool { kRead, kWrite };   // what the server may do there
    class Region {
      public:
        virtual ~Region() = default;   // from then on nobody reaches it, but who has begun to
        [[nodiscard]] virtual io::MutableBytes bytes() const noexcept = 0;
        [[nodiscard]] virtual std::uint64_t position() const noexcept = 0;
        [[nodiscard]] virtual std::uint64_t key() const noexcept = 0;
    };
    static constexpr std::size_t kRegions = 8;
    // At most wire::kDataMax bytes. kUnavailable: all kRegions are in use, or the provider refuses. Not longer than
    // this.
    [[nodiscard]] virtual Result<std::unique_ptr<Region>> expose(std::size_t bytes, Access access) = 0;
    // Until there is something to receive, or its patience is over (EAGAIN); meanwhile the server reaches the regions.
    [[nodiscard]] virtual Status await_input(const io::Socket& socket) = 0;

    // ---- a server's
    class Peer {
      public:
        virtual ~Peer() = default;
    };
    // A client's end, by its address. Not longer than this.
    [[nodiscard]] virtual Result<std::shared_ptr<Peer>> find(io::Bytes address) = 0;
    class Buffer {
      public:
        virtual ~Buffer() = default;
        [[nodiscard]] virtual io::MutableBytes bytes() const noexcept = 0;
    };
    [[nodiscard]] virtual Result<std::shared_ptr<Buffer>> make_buffer(std::size_t bytes) = 0;
    struct Remote {
        std::shared_ptr<Peer> peer;
        std::uint64_t position = 0, key = 0;
    };
    // kPull: from there to the beginning of the buffer; kPush: the other way. Blocks until that has ended, `patience`
    // is over, or the other side has closed `session`. After a failure the buffer may still change, and belongs to
    // nobody else: it is to be given up.
    enum class Way : bool { kPull, kPush };
    [[nodiscard]] virtual Status move(Way way, const Remote& remote, const std::shared_ptr<Buffer>& buffer,
                                      std::size_t bytes, const io::Socket& session, std::chrono::seconds patience) = 0;

  protected:
    Fabric() = default;
};

}   // namespace forebay::wire
