#include "server/write_handler.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/attempt.h"

namespace forebay::server {

using wire::Type;

Result<SessionHandler::Next> WriteHandler::serve(const wire::Connection::Frame& request) {
    const auto goes_on = [](const Status& answered) { return answered ? Result<Next>(Next::kGoesOn) : answered; };
    switch (request.header.type) {
        case Type::kExpose: return goes_on(transfer_.expose(request));
        case Type::kRead:
        case Type::kReadExposed:
            return goes_on(transfer_.read(request, [this](std::uint64_t offset, io::MutableBytes into) {
                return file_->file().read(offset, into);
            }));
        default: break;
    }
    if (close_failed_) return out_of_turn();
    switch (request.header.type) {
        case Type::kWrite:
        case Type::kWriteExposed:
        case Type::kTruncate: return goes_on(change(request));
        case Type::kCommit:
        case Type::kDrain:
        case Type::kSync:
        case Type::kStepAside:
            FOREBAY_TRY(wire::parse_empty(request.payload));
            return goes_on(answer(connection_, request, control(request)));
        case Type::kClose: FOREBAY_TRY(wire::parse_empty(request.payload)); return close(request);
        default: return out_of_turn();
    }
}

// Keeps the failure of a change, so that no later commit includes it.
Status WriteHandler::change(const wire::Connection::Frame& request) {
    Status outcome = file_->incomplete();
    if (outcome) {
        const Writers::Request running(file_->writers(), connection_, request.header.request);
        if (request.header.type == Type::kTruncate) {
            const auto size = wire::parse_size_of(request.payload);
            outcome = size ? withholding(file_->file().truncate(size.value())) : size.status();
        } else {
            const auto message = transfer_.parse_write(request);
            outcome = message ? write(message.value()) : message.status();
        }
    }
    if (outcome.code() == Code::kCorrupt) return outcome;
    if (!outcome) file_->fail(outcome);
    return answer(connection_, request, outcome);
}

// Without the change the file lacks what later metadata refer to. So the close commits nothing either.
Status WriteHandler::withholding(Status changed) {
    if (!changed) file_->file().lifecycle().withhold(copy_of(changed, "a write failed"));
    return changed;
}

// Writes the parts in order, because later parts are newer. Each run of one class is one call.
Status WriteHandler::write(const wire::Write& message) {
    io::Bytes bytes = message.bytes();
    std::vector<stage::StagedFile::Part> parts;
    for (std::size_t i = 0; i < message.count();) {
        const wire::Class byte_class = message.part(i).byte_class;
        parts.clear();
        for (; i < message.count() && message.part(i).byte_class == byte_class; ++i) {
            const wire::Part part = message.part(i);
            parts.push_back({part.offset, bytes.first(part.bytes)});
            bytes = bytes.subspan(part.bytes);
        }
        const auto of_class = byte_class == wire::Class::kMetadata ? stage::ByteClass::kMetadata
                                                                   : stage::ByteClass::kRaw;
        const Status written = file_->file().write(parts, of_class);
        if (!written) return of_class == stage::ByteClass::kMetadata ? withholding(written) : written;
    }
    return Status::ok();
}

Status WriteHandler::control(const wire::Connection::Frame& request) {
    FOREBAY_TRY(file_->failure());
    const Writers::Request running(file_->writers(), connection_, request.header.request);
    stage::StagedFile& file = file_->file();
    switch (request.header.type) {
        case Type::kCommit: return file_->commit();
        case Type::kStepAside: return file.lifecycle().step_aside(ledger::AsideReason::kHandleTaken);
        case Type::kDrain: return file.drain();
        default: FOREBAY_TRY(file.drain()); return file.sync_drained();
    }
}

Result<SessionHandler::Next> WriteHandler::close(const wire::Connection::Frame& request) {
    Status closed = file_->incomplete();
    const bool tried = closed.is_ok();
    if (tried) {
        const Writers::Request running(file_->writers(), connection_, request.header.request);
        closed = file_->close();
    }
    if (closed) drop_file();
    else report_(closed.message());
    const Status sent = answer(connection_, request, closed);
    if (file_ == nullptr) return sent ? Result<Next>(Next::kEnds) : sent;
    if (const Status incomplete = file_->incomplete(); !tried || !incomplete) return closed;   // `end` drops the file
    close_failed_ = true;
    writes_ = false;
    file_->mark_failed();
    return sent ? Result<Next>(Next::kGoesOn) : sent;
}

void WriteHandler::drop_file() noexcept {
    client_.reset();
    file_.reset();
}

std::string WriteHandler::end(const Status& end) {
    transfer_.end();
    if (file_ == nullptr) return describe_end(end);
    const std::string path = file_->path();
    const auto left = file_->abandon();
    drop_file();
    const std::string what = close_failed_ ? std::string("its client ended after a close that failed")
                                           : fmt::format("its client ended without closing it ({})", end.message());
    return fmt::format("{}: {}{}{}", path, what, left && left.value().empty() ? "" : "; ",
                       left ? left.value() : left.status().message());
}

}   // namespace forebay::server
