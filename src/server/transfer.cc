#include "server/transfer.h"

#include <utility>

#include "server/session_handler.h"

namespace forebay::server {

Status Transfer::expose(const wire::Connection::Frame& request) {
    const auto bytes = wire::parse_expose(request.payload);
    if (!bytes) return bytes.status();
    auto memory = connection_.take_exposed(bytes.value());
    if (!memory) return answer(connection_, request, {Code::kUnsupported, memory.status().message()});
    end();
    exposed_ = std::move(memory).value();
    return answer(connection_, request, Status::ok());
}

Status Transfer::read(const wire::Connection::Frame& request, const Read& read) {
    if (request.header.type == wire::Type::kReadExposed) return expose_read(request, read);
    const auto wanted = wire::parse_read(request.payload);
    if (!wanted) return wanted.status();
    if (buffer_.size() < wanted.value().bytes) buffer_.resize(wanted.value().bytes);
    const io::MutableBytes into = io::MutableBytes(buffer_).first(wanted.value().bytes);
    const Status done = read(wanted.value().offset, into);
    return done ? connection_.send(wire::Type::kData, request.header.request, into)
                : answer(connection_, request, done);
}

Status Transfer::expose_read(const wire::Connection::Frame& request, const Read& read) {
    const auto wanted = wire::parse_read_exposed(request.payload, exposed().size());
    if (!wanted) return wanted.status();
    const io::MutableBytes into = exposed().subspan(wanted.value().position, wanted.value().read.bytes);
    return answer(connection_, request, read(wanted.value().read.offset, into));
}

Result<wire::Write> Transfer::parse_write(const wire::Connection::Frame& request) const {
    return request.header.type == wire::Type::kWrite ? wire::Write::parse(request.payload)
                                                     : wire::Write::parse_exposed(request.payload, exposed());
}

void Transfer::end() noexcept {
    if (exposed_ != nullptr) exposed_->clear();
}

io::MutableBytes Transfer::exposed() const noexcept {
    return exposed_ != nullptr ? exposed_->bytes() : io::MutableBytes();
}

}   // namespace forebay::server
