// Memory of a client's on another machine, as a session reaches it through libfabric (docs/protocol.md).
//
// Bytes are fetched into memory of the session's, and nothing is made of them before they fit their seal. The end of
// libfabric is that of the process. Errors: kNotMoved, after which the session does without. Thread-safety: one thread
// at a time. Blocking: as each call says.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "wire/connection.h"
#include "wire/fabric_offer.h"

namespace forebay::server {

// Of all sessions of a server.
struct BulkTotals {
    std::atomic<std::uint64_t> pulled_bytes{0}, pushed_bytes{0};
    std::atomic<std::uint64_t> refused{0};   // sessions that could not go through libfabric, or could not any more
};

class FabricMemory {
  public:
    // Tries it out. Blocks for kProbePatience at most.
    [[nodiscard]] static Result<std::unique_ptr<FabricMemory>> open(wire::Connection& connection, std::uint64_t request,
                                                                    const wire::ExposeFabric& offer,
                                                                    BulkTotals& totals);
    // Where bytes come to and go from: kDataMax.
    [[nodiscard]] io::MutableBytes bytes() const noexcept { return buffer_->bytes(); }
    // Fetches so many from there, and checks them. Blocks, for kMovePatience at most.
    [[nodiscard]] Status pull(wire::Connection& connection, std::uint64_t request, const wire::Place& place,
                              std::size_t bytes);
    // Brings so many there; their seal. Blocks as above.
    [[nodiscard]] Result<wire::Seal> push(wire::Connection& connection, std::uint64_t request, const wire::Place& place,
                                          std::size_t bytes);

  private:
    FabricMemory(std::shared_ptr<wire::Fabric> fabric, BulkTotals& totals) noexcept
        : fabric_(std::move(fabric)), totals_(totals) {}
    [[nodiscard]] Status fetch(wire::Connection& connection, std::uint64_t request, const wire::Place& place,
                               std::size_t bytes, std::chrono::seconds patience);

    const std::shared_ptr<wire::Fabric> fabric_;
    std::shared_ptr<wire::Fabric::Peer> peer_;
    std::shared_ptr<wire::Fabric::Buffer> buffer_;
    BulkTotals& totals_;
};

}   // namespace forebay::server
