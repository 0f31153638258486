#include "recover/untouched.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <tuple>

#include "extent/range.h"

namespace forebay::recover {

namespace {

using io::TimesKind;
using log::TargetState;
using log::WriteSample;

Status touched(std::string what) { return {Code::kUnsupported, std::move(what)}; }

std::string seconds(std::uint64_t ns) { return fmt::format("{}.{:03}", ns / 1'000'000'000, ns / 1'000'000 % 1000); }

bool explained(const TargetState& known, const io::FileState& now, const Death& death) noexcept {
    return death.renamed || known.rest.mode != now.mode || known.rest.links != now.links ||
           known.rest.owner != now.owner || known.rest.group != now.group;
}

// A mtime of 0 that is new tells nothing, so the ctime must.
Status check_late(const TargetState& known, const io::FileState& now, const Death& death, bool ctime_counts) {
    if (death.last_sign_ns == 0) return Status::ok();
    const bool lost_mtime = now.modified_ns == 0 && known.rest.modified_ns != 0;
    const std::uint64_t changed_ns = ctime_counts || lost_mtime ? std::max(now.modified_ns, now.changed_ns)
                                                                : now.modified_ns;
    if (changed_ns <= death.last_sign_ns + kClocksApartNs) return Status::ok();
    return touched(
        fmt::format("it was written to, or replaced in place, {} seconds after the last sign of the process that died",
                    seconds(changed_ns - death.last_sign_ns)));
}

// A change of size sets the mtime to 0 on some file systems: ceph-fuse 16 does.
bool is_of_resize(const TargetState& known, const io::FileState& now, const Death& death) noexcept {
    const bool resized = known.resized || (known.others_write && !death.others_recover);
    return now.modified_ns == 0 && resized && known.kind == TimesKind::kServed;
}

Status check_not_older(const TargetState& known, const io::FileState& now, const Death& death) {
    if (now.modified_ns < known.rest.modified_ns && !is_of_resize(known, now, death))
        return touched(fmt::format(
            "its last change is {} seconds older than the process that died had seen: something older was put back",
            seconds(known.rest.modified_ns - now.modified_ns)));
    if (now.changed_ns < known.rest.changed_ns)
        return touched("the time of its last change of status is older than the process that died had seen");
    return Status::ok();
}

Status check_at_rest(const TargetState& known, const io::FileState& now, const Death& death) {
    if (now.size != known.rest.size)
        return touched(fmt::format(
            "it has {} bytes; it had {} when the process that died had last written to it, and nothing was under way",
            now.size, known.rest.size));
    FOREBAY_TRY(check_not_older(known, now, death));
    if (now.modified_ns != known.rest.modified_ns)
        return touched(
            fmt::format("it was written to {} seconds after the last write of the process that died, which had ended",
                        seconds(now.modified_ns - known.rest.modified_ns)));
    if (now.changed_ns == known.rest.changed_ns || explained(known, now, death) || known.kind != io::TimesKind::kExact)
        return Status::ok();
    return touched(
        "its status was changed, but not its name, mode or owner: it may have been written to, and its time set back");
}

// Some file systems keep only whole seconds once a file leaves memory.
TargetState as_kept(TargetState known, const io::FileState& now) noexcept {
    constexpr std::uint64_t kSecond = 1'000'000'000;
    if (now.modified_ns % kSecond == 0 && now.changed_ns % kSecond == 0) {
        known.rest.modified_ns -= known.rest.modified_ns % kSecond;
        known.rest.changed_ns -= known.rest.changed_ns % kSecond;
    }
    return known;
}

struct Samples {
    bool any = false;       // there are samples to compare
    bool there = false;     // a sample is in the target
    bool none = true;       // no write that had not returned left bytes
    bool missing = false;   // the sample of a returned, not overwritten write is absent
};

Result<Samples> look_for_samples(const TargetState& known, io::File& target) {
    Samples found;
    std::array<std::byte, log::kSampleMax> bytes;
    // Writes that may have arrived, newest first: bytes that they overwrote need not be there. A write arrives from its
    // begin on: without that it has not arrived, unless that was overwritten too.
    std::array<bool, std::tuple_size_v<decltype(known.samples)>> came{};
    for (std::size_t i = 0; i < known.samples.size(); ++i) {
        const WriteSample& sample = known.samples[i];
        came[i] = true;
        if (sample.length == 0) {
            found.none = found.none && sample.bytes == 0;
            continue;
        }
        const ByteRange place{sample.offset, sample.offset + sample.length};
        const auto into = std::span(bytes).first(sample.length);
        const auto got = target.read_at(sample.offset, into);
        if (!got) return got.status();
        const bool there = got.value() == into.size() && log::sample_hash(into) == sample.hash;
        bool overwritten = false;
        for (std::size_t later = 0; later < i; ++later) {
            const WriteSample& other = known.samples[later];
            overwritten = overwritten || (came[later] && place.overlaps({other.offset, other.offset + other.bytes}));
        }
        came[i] = there || overwritten;
        found.any = true;
        found.none = found.none && (sample.ended || !came[i]);
        found.there = found.there || there;
        found.missing = found.missing || (sample.ended && !there && !overwritten);
    }
    return found;
}

// The size that returned writes left; none unless it is known exactly.
std::optional<std::uint64_t> size_before(const TargetState& known) noexcept {
    const auto not_ended = std::ranges::count_if(known.samples, [](const WriteSample& each) {
        return each.bytes != 0 && !each.ended;
    });
    if (known.resized || static_cast<std::uint64_t>(not_ended) < known.in_flight) return std::nullopt;
    return known.size_min;
}

Status check_busy(const TargetState& known, const io::FileState& now, io::File& target, const Death& death) {
    FOREBAY_TRY(check_not_older(known, now, death));
    if (now.size < known.size_min || now.size > known.size_max)
        return touched(fmt::format("it has {} bytes; the process that died may have left between {} and {}", now.size,
                                   known.size_min, known.size_max));
    // A file system sets a size at once, without sizes in between.
    const bool only_resized = known.resized && std::ranges::all_of(known.samples, [](const WriteSample& each) {
                                  return each.bytes == 0;
                              });
    if (only_resized && now.size != known.size_min && now.size != known.size_max)
        return touched(fmt::format("it has {} bytes; the process that died was setting its size, and has left {} or {}",
                                   now.size, known.size_min, known.size_max));
    const bool exact = known.kind == io::TimesKind::kExact, written = now.modified_ns != known.rest.modified_ns;
    const bool status_changed = now.changed_ns != known.rest.changed_ns && !explained(known, now, death);
    if (exact && now.changed_ns != now.modified_ns && status_changed)
        return touched("its time was set: a write would have changed both of its times alike");
    const auto samples = look_for_samples(known, target);
    if (!samples) return samples.status();
    const auto size = size_before(known);
    if (exact && samples.value().none && size && now.size != *size)
        return touched(fmt::format(
            "it has {} bytes; it had {} before the write that the process that died had begun, and has nothing of that",
            now.size, *size));
    if (samples.value().missing)
        return touched("it no longer has the last bytes that the process that died had written");
    if (!written) return Status::ok();
    // A local file gets its time before the first byte. A writer killed in between leaves only the time.
    const bool at_once = exact && now.modified_ns <= known.begun_ns + kBeginsWithinNs;
    if (samples.value().any && !samples.value().there && !known.resized && !at_once)
        return touched("it was written to, and has nothing of what the process that died was writing");
    // Writes to a local file wait for each other before they set the time.
    if (!exact || known.in_flight > 1) return check_late(known, now, death, !explained(known, now, death));
    if (at_once) return Status::ok();
    return touched(fmt::format("it was written to {} seconds after the last write of the process that died had begun",
                               seconds(now.modified_ns - known.begun_ns)));
}

}   // namespace

Status check_untouched(const TargetState& recorded, const io::FileState& now, io::File& target, const Death& death) {
    const TargetState known = as_kept(recorded, now);
    const bool moved_ctime = death.others_recover || explained(known, now, death);
    if (death.lost) return check_late(known, now, death, !moved_ctime);
    if (known.others_write || known.kind == io::TimesKind::kLazy) {
        FOREBAY_TRY(check_not_older(known, now, death));
        return check_late(known, now, death, !moved_ctime);
    }
    if (known.busy) return check_busy(known, now, target, death);
    FOREBAY_TRY(check_at_rest(known, now, death));
    return known.kind == io::TimesKind::kExact ? Status::ok() : check_late(known, now, death, !moved_ctime);
}

}   // namespace forebay::recover
