#include "server/session_handler.h"

namespace forebay::server {

std::string SessionHandler::end(const Status& end) { return describe_end(end); }

std::string describe_end(const Status& end) {
    return end || end.code() == Code::kNotFound ? std::string() : "a session ended: " + end.message();
}

Status answer(wire::Connection& connection, const wire::Connection::Frame& request, const Status& outcome) {
    if (outcome) return connection.send(wire::Type::kDone, request.header.request, {});
    return connection.send(wire::Type::kFailed, request.header.request, wire::encode(outcome));
}

}   // namespace forebay::server
