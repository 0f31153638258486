#include "drain/target_inspector.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/attempt.h"
#include "io/file_control.h"
#include "io/guarded_access.h"

namespace forebay::drain {

namespace {

// Asks the server, since a client may answer from its cache. Without times the size must do.
Result<io::FileState> look_at(io::File& target) {
    auto now = target.state(io::File::Ask::kOfServer);
    if (now || now.status().code() != Code::kUnsupported) return now;
    const auto size = target.size();
    if (!size) return size.status();
    return io::FileState{.size = size.value()};
}

// Returns true if the target has the samples of the last writes that no later write has overwritten.
Result<bool> has_samples(io::File& target, const log::TargetState& known) {
    std::array<std::byte, log::kSampleMax> bytes;
    for (std::size_t i = 0; i < known.samples.size(); ++i) {
        const log::WriteSample& sample = known.samples[i];
        if (sample.length == 0) continue;
        const ByteRange place{sample.offset, sample.offset + sample.length};
        bool overwritten = false;
        for (std::size_t later = 0; later < i; ++later)
            overwritten = overwritten || place.overlaps({known.samples[later].offset,
                                                         known.samples[later].offset + known.samples[later].bytes});
        if (overwritten) continue;
        const auto into = std::span(bytes).first(sample.length);
        const auto got = target.read_at(sample.offset, into);
        if (!got) return got.status();
        if (got.value() != into.size() || log::sample_hash(into) != sample.hash) return false;
    }
    return true;
}

}   // namespace

// Without it, a process killed in its first write leaves nothing that tells the target from another file of its size.
void TargetInspector::sample_before(ByteRange range) noexcept {
    std::shared_ptr<io::File> target;
    ByteRange place;
    std::uint64_t serial = 0;
    {
        const LockGuard lock(state_.mutex);
        place = state_.target.witness().to_be_seen_before(range);
        if (place.empty()) return;
        target = state_.target.file();
        serial = state_.target.witness().state().serial;
    }
    std::array<std::byte, log::kSampleMax> bytes;
    Result<std::size_t> got = out_of_memory();
    (void)attempt([&] { got = target->read_at(place.begin, std::span(bytes).first(place.size())); });
    if (!got) return;
    const LockGuard lock(state_.mutex);
    state_.target.witness().saw(place.begin, std::span(bytes).first(got.value()), serial);
}

// The sample is the write's first bytes, as far as they are contiguous in the log.
void TargetInspector::begin_write(const plan::TargetWrite& write) noexcept {
    const plan::Piece& first = write.pieces.front();
    std::array<std::byte, log::kSampleMax> sample{};
    std::size_t length = log::sample_length(write.range.begin, first.range.size());
    if (first.bytes != nullptr) {
        const io::Bytes from(first.bytes, length);
        if (io::guarded(from, [&]() noexcept { std::memcpy(sample.data(), from.data(), from.size()); }) != nullptr)
            length = 0;
    }
    sample_before(write.range);
    const LockGuard lock(state_.mutex);
    state_.target.begin_write(write.range, io::Bytes(sample).first(length));
}

// A change that begins during the look voids it.
void TargetInspector::note_rest() noexcept {
    std::shared_ptr<io::File> target;
    std::uint64_t serial = 0;
    {
        const LockGuard lock(state_.mutex);
        if (!state_.listener.has_records() || !state_.queue.idle() || !state_.target.witness().to_be_looked_at())
            return;
        target = state_.target.file();
        serial = state_.target.witness().state().serial;
    }
    Result<io::FileState> now = out_of_memory();
    (void)attempt([&] { now = target->state(); });
    if (!now) return;
    const LockGuard lock(state_.mutex);
    if (state_.target.witness().rested(now.value(), serial)) state_.target.note();
}

Status TargetInspector::others_changed() {
    state_.target.note_foreign_change();
    return {Code::kUnsupported,
            fmt::format("{}: another program has changed it since its close: {}; forebay leaves the file as it is, and "
                        "the bytes that had not drained stay in the log",
                        state_.path, state_.turns.guard().why()),
            log::kChangedByOthers};
}

Status TargetInspector::look_before_turn(io::File& target) {
    {
        const LockGuard lock(state_.mutex);
        if (state_.turns.changed()) return others_changed();
    }
    const auto now = look_at(target);
    if (!now) return now.status();
    log::TargetState known;
    {
        const LockGuard lock(state_.mutex);
        state_.turns.note_names(now.value(), state_.bytes.pending_bytes());
        switch (state_.turns.guard().compare(now.value())) {
            case TargetGuard::Found::kSame: return Status::ok();
            case TargetGuard::Found::kChanged: return others_changed();
            case TargetGuard::Found::kTimesSet: known = state_.target.witness().state();
        }
    }
    const auto same = has_samples(target, known);
    if (!same) return same.status();
    const LockGuard lock(state_.mutex);
    if (same.value()) {
        state_.turns.guard().accept(now.value());
        return Status::ok();
    }
    state_.turns.guard().reject("its times were set, and the last bytes written to it are not there");
    return others_changed();
}

Status TargetInspector::look_after_turn(io::File& target) {
    auto now = look_at(target);
    if (!now) return now.status();
    std::optional<std::uint64_t> keep_ns;
    {
        const LockGuard lock(state_.mutex);
        if (state_.turns.guard().left(now.value()) == TargetGuard::Found::kChanged) return others_changed();
        keep_ns = state_.turns.guard().modified_to_keep_ns();
    }
    if (!keep_ns || now.value().modified_ns == *keep_ns || !io::set_modified(target, *keep_ns)) return Status::ok();
    now = look_at(target);
    if (!now) return now.status();
    const LockGuard lock(state_.mutex);
    return state_.turns.guard().left(now.value()) == TargetGuard::Found::kChanged ? others_changed() : Status::ok();
}

}   // namespace forebay::drain
