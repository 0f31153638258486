#include "wire/fabric_offer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace forebay::wire {

static_assert(kNotMoved == EREMOTEIO);

namespace {

// Whether DONE to a READ_PUSHED has the seal of these bytes.
bool pushed_fits(const Connection& connection, const Connection::Frame& answer, io::Bytes bytes) {
    Seal seal;
    if (answer.payload.size() != seal.size()) return false;
    std::copy(answer.payload.begin(), answer.payload.end(), seal.begin());
    return connection.bulk_fits(answer.header.request, bytes, seal);
}

}   // namespace

Status not_moved(const std::string& why) { return {Code::kUnavailable, why, kNotMoved}; }

bool may_use_fabric(const Bulk& bulk, Connection& connection) {
    switch (bulk.plane) {
        case Bulk::Plane::kSocket: return false;
        case Bulk::Plane::kFabric: return connection.sealed();
        case Bulk::Plane::kUnsealed: return connection.seal_bulk_with({}).is_ok();
    }
    return false;
}

Result<FabricOffer> make_offer(Connection& connection, std::uint64_t request) {
    const auto host = connection.socket().own_host();
    if (!host) return host.status();
    auto fabric = Fabric::open(Fabric::Role::kExposes, host.value());
    if (!fabric) return fabric.status();
    FabricOffer offer{std::move(fabric).value(), nullptr, {}};
    auto probe = offer.fabric->expose(kProbeBytes, Fabric::Access::kRead);
    if (!probe) return probe.status();
    offer.probe = std::move(probe).value();
    const io::MutableBytes bytes = offer.probe->bytes();
    const auto random = new_secret();   // what was there before goes to nobody
    if (!random) return random.status();
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = random.value()[i % random.value().size()];
    const Place place{offer.probe->position(), offer.probe->key(), connection.seal_of_bulk(request, bytes)};
    const io::Bytes address = offer.fabric->address();
    offer.message = encode(ExposeFabric{place, offer.fabric->provider(), Payload(address.begin(), address.end())});
    return offer;
}

Result<bool> read_pushed(const Connection& connection, Fabric& fabric, const Read& wanted, io::MutableBytes into,
                         const std::function<Result<Connection::Frame>(io::Bytes request)>& ask) {
    const auto region = fabric.expose(into.size(), Fabric::Access::kWrite);
    if (!region) return false;
    const auto answer = ask(encode(ReadPushed{wanted, {region.value()->position(), region.value()->key(), {}}}));
    if (!answer) return answer.status();
    // Somebody may still change what lies there, and not the copy.
    std::memcpy(into.data(), region.value()->bytes().data(), into.size());
    if (!pushed_fits(connection, answer.value(), into)) return not_moved("its bytes do not fit their seal");
    return true;
}

}   // namespace forebay::wire
