#include "wire/striped_file.h"

#include <algorithm>
#include <utility>

#include "wire/home_server.h"

namespace forebay::wire {

StripedFile::StripedFile(std::shared_ptr<io::File> file, std::vector<Part> parts, std::uint64_t inode,
                         std::uint64_t stripe_bytes)
    : ForwardingFile(std::move(file)), parts_(std::move(parts)), inode_(inode), stripe_bytes_(stripe_bytes) {
    for (const Part& part : parts_) {
        servers_.push_back(part.server);
        if (part.file != nullptr && !part.file->is_local()) local_ = false;
    }
}

// At least what a server joins to one write.
std::uint64_t StripedFile::stripe_bytes_of(std::uint64_t liked) {
    constexpr std::uint64_t kLeast = kDrainWriteMax, kMost = std::uint64_t{1} << 30;
    if (liked == 0 || liked > kMost) return kLeast;
    return (kLeast + liked - 1) / liked * liked;
}

io::File& StripedFile::home(std::uint64_t offset) const {
    const Part& part = parts_[home_of_stripe(servers_, inode_, offset / stripe_bytes_)];
    return part.file != nullptr ? *part.file : file();
}

// ---- writing -------------------------------------------------------------------------------------------

Status StripedFile::write_at(std::uint64_t offset, io::Bytes bytes) { return write_gather_at(offset, {&bytes, 1}); }

Status StripedFile::write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) {
    std::vector<io::Bytes> of_stripe;
    std::uint64_t begin = offset, gathered = 0;
    const auto flush = [&]() -> Status {
        if (gathered == 0) return Status::ok();
        FOREBAY_TRY(home(begin).write_gather_at(begin, of_stripe));
        begin += std::exchange(gathered, 0);
        of_stripe.clear();
        return Status::ok();
    };
    for (io::Bytes piece : pieces)
        while (!piece.empty()) {
            const auto fits = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(),
                                                                               left_of_stripe(begin + gathered)));
            of_stripe.push_back(piece.first(fits));
            gathered += fits;
            piece = piece.subspan(fits);
            if ((begin + gathered) % stripe_bytes_ == 0) FOREBAY_TRY(flush());
        }
    return flush();
}

// One server sets it. What others still write for this process ends before the new end (drain/outflow.cc).
Status StripedFile::resize(std::uint64_t size) {
    FOREBAY_TRY(home(0).resize(size));
    for (const Part& part : parts_)
        if (part.file != nullptr) part.file->note_size(size);
    return Status::ok();
}

Status StripedFile::sync() {
    bool here = local_;
    for (const Part& part : parts_) {
        if (part.file != nullptr && !part.file->is_local()) FOREBAY_TRY(part.file->sync());
        else here = true;
    }
    return here ? file().sync() : Status::ok();
}

Status StripedFile::leave() {
    Status outcome;
    for (const Part& part : parts_) {
        Status left = part.file != nullptr ? part.file->leave() : Status::ok();
        if (outcome) outcome = std::move(left);
    }
    return outcome;
}

void StripedFile::count_served(std::atomic<std::uint64_t>& counter) noexcept {
    for (const Part& part : parts_)
        if (part.file != nullptr) part.file->count_served(counter);
}

// ---- reading and the rest ------------------------------------------------------------------------------

// A server sees the end of the file behind its own stripes, and perhaps before those of others.
Result<std::size_t> StripedFile::read_at(std::uint64_t offset, io::MutableBytes into) {
    if (local_) return file().read_at(offset, into);
    const auto end = size();
    if (!end) return end.status();
    const std::uint64_t there = offset < end.value() ? end.value() - offset : 0;
    into = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), there)));
    for (std::size_t done = 0; done < into.size();) {
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(into.size() - done,
                                                                            left_of_stripe(offset + done)));
        const io::MutableBytes part = into.subspan(done, count);
        const auto got = home(offset + done).read_at(offset + done, part);
        if (!got) return got;
        std::ranges::fill(part.subspan(got.value()), std::byte{0});
        done += count;
    }
    return into.size();
}

Result<std::uint64_t> StripedFile::size() {
    std::uint64_t largest = 0;
    bool known = false;
    for (const Part& part : parts_) {
        if (part.file == nullptr) continue;
        const auto seen = part.file->size();
        if (!seen) return seen;
        largest = std::max(largest, seen.value());
        known = true;
    }
    return known ? Result<std::uint64_t>(largest) : file().size();
}

// What is written through a server elsewhere shows latest.
io::FileTraits StripedFile::traits() {
    io::FileTraits traits = file().traits();
    for (const Part& part : parts_)
        if (part.file != nullptr && (local_ || !part.file->is_local())) traits = part.file->traits();
    return traits;
}

Status StripedFile::allocate(std::uint64_t, std::uint64_t) {
    return {Code::kUnsupported, name() + ": staging servers reserve no space"};
}
Status StripedFile::punch(std::uint64_t, std::uint64_t) {
    return {Code::kUnsupported, name() + ": staging servers give no space back"};
}
Result<std::unique_ptr<io::Mapping>> StripedFile::map(std::uint64_t, std::size_t) {
    return Status(Code::kUnsupported, name() + ": what staging servers write cannot be mapped");
}

}   // namespace forebay::wire
