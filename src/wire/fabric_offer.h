// How a client offers its end of libfabric to a server of another machine, and what it makes of the answers.
//
// Thread-safety: as the connection. Nothing blocks, but the first offer, which loads libfabric.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "wire/connection.h"
#include "wire/fabric.h"
#include "wire/frame.h"

namespace forebay::wire {

// How large requests go between machines.
struct Bulk {
    // kUnsealed: for tests, on one machine: the key of the seals is known to everybody.
    enum class Plane : std::uint8_t { kSocket, kFabric, kUnsealed };
    Plane plane = Plane::kSocket;
    std::function<void(const std::string& why)> report{};   // why this does not go through libfabric (any more)
};

// FAILED with this errno: the server could not get or bring the bytes, and has made nothing of the request.
inline constexpr int kNotMoved = 121;   // EREMOTEIO of Linux
[[nodiscard]] Status not_moved(const std::string& why);

// Whether libfabric may be used in this session: both sides ask that.
[[nodiscard]] bool may_use_fabric(const Bulk& bulk, Connection& connection);

struct FabricOffer {
    std::shared_ptr<Fabric> fabric;
    std::unique_ptr<Fabric::Region> probe;   // until it is answered
    Payload message;                         // EXPOSE_FABRIC
};
[[nodiscard]] Result<FabricOffer> make_offer(Connection& connection, std::uint64_t request);

// Reads by a READ_PUSHED, which `ask` sends; it returns the answer. False: all memory that can be exposed is in use.
// kNotMoved: the bytes did not come, or not these.
[[nodiscard]] Result<bool> read_pushed(const Connection& connection, Fabric& fabric, const Read& wanted,
                                       io::MutableBytes into,
                                       const std::function<Result<Connection::Frame>(io::Bytes request)>& ask);

}   // namespace forebay::wire
