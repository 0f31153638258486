#include "server/fabric_memory.h"

#include <utility>

namespace forebay::server {

namespace {

// A client waits for the answer all the time, and the memory is its own: what takes longer never comes. Shorter than a
// client waits at least.
constexpr std::chrono::seconds kProbePatience{5}, kMovePatience{20};

}   // namespace

Result<std::unique_ptr<FabricMemory>> FabricMemory::open(wire::Connection& connection, std::uint64_t request,
                                                         const wire::ExposeFabric& offer, BulkTotals& totals) {
    const auto host = connection.socket().own_host();
    if (!host) return host.status();
    auto fabric = wire::Fabric::open(wire::Fabric::Role::kReaches, host.value(), offer.provider);
    if (!fabric) return fabric.status();
    std::unique_ptr<FabricMemory> memory(new FabricMemory(std::move(fabric).value(), totals));
    auto peer = memory->fabric_->find(offer.address);
    if (!peer) return peer.status();
    memory->peer_ = std::move(peer).value();
    auto buffer = memory->fabric_->make_buffer(wire::kDataMax);
    if (!buffer) return buffer.status();
    memory->buffer_ = std::move(buffer).value();
    FOREBAY_TRY(memory->fetch(connection, request, offer.probe, wire::kProbeBytes, kProbePatience));
    return memory;
}

Status FabricMemory::fetch(wire::Connection& connection, std::uint64_t request, const wire::Place& place,
                           std::size_t bytes, std::chrono::seconds patience) {
    const Status moved = fabric_->move(wire::Fabric::Way::kPull, {peer_, place.position, place.key}, buffer_, bytes,
                                       connection.socket(), patience);
    if (!moved) return wire::not_moved(moved.message());
    if (connection.bulk_fits(request, buffer_->bytes().first(bytes), place.seal)) return Status::ok();
    return wire::not_moved("the bytes that came through libfabric do not fit their seal");
}

Status FabricMemory::pull(wire::Connection& connection, std::uint64_t request, const wire::Place& place,
                          std::size_t bytes) {
    FOREBAY_TRY(fetch(connection, request, place, bytes, kMovePatience));
    totals_.pulled_bytes += bytes;
    return Status::ok();
}

Result<wire::Seal> FabricMemory::push(wire::Connection& connection, std::uint64_t request, const wire::Place& place,
                                      std::size_t bytes) {
    const wire::Seal seal = connection.seal_of_bulk(request, buffer_->bytes().first(bytes));
    const Status moved = fabric_->move(wire::Fabric::Way::kPush, {peer_, place.position, place.key}, buffer_, bytes,
                                       connection.socket(), kMovePatience);
    if (!moved) return wire::not_moved(moved.message());
    totals_.pushed_bytes += bytes;
    return seal;
}

}   // namespace forebay::server
