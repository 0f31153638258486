#include "wire/replay.h"

#include <utility>

namespace forebay::wire {

void Replay::clear() noexcept {
    kept_.clear();
    bytes_ = 0;
}

void Replay::keep(Type type, io::Bytes head, io::Bytes bytes) {
    if (!complete_) return;
    bytes_ += head.size() + bytes.size();
    if (bytes_ > kReplayMax) {
        complete_ = false;
        clear();
        kept_.shrink_to_fit();
        return;
    }
    Kept kept{type, {}};
    kept.payload.reserve(head.size() + bytes.size());
    kept.payload.insert(kept.payload.end(), head.begin(), head.end());
    kept.payload.insert(kept.payload.end(), bytes.begin(), bytes.end());
    kept_.push_back(std::move(kept));   // an entry without its bytes would fail on the next server
}

void Replay::commit() noexcept {
    clear();
    complete_ = keeps_;
}

Status Replay::send(Requests& requests) const {
    for (const Kept& kept : kept_) {
        if (kept.type == Type::kWrite) FOREBAY_TRY(requests.write_again(kept.payload));
        else FOREBAY_TRY(requests.call(kept.type, kept.payload, Type::kDone).status());
    }
    return requests.await_writes();
}

Status Replay::apply(io::File& file) const {
    for (const Kept& kept : kept_) {
        if (kept.type == Type::kTruncate) {
            const auto size = parse_size_of(kept.payload);
            if (!size) return size.status();
            FOREBAY_TRY(file.resize(size.value()));
            continue;
        }
        const auto write = Write::parse(kept.payload);
        if (!write) return write.status();
        io::Bytes bytes = write.value().bytes();
        for (std::size_t i = 0; i < write.value().count(); ++i) {
            const Part part = write.value().part(i);
            FOREBAY_TRY(file.write_at(part.offset, bytes.first(part.bytes)));
            bytes = bytes.subspan(part.bytes);
        }
    }
    return Status::ok();
}

}   // namespace forebay::wire
