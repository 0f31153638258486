// A target whose client passes written bytes on later, as clients of network file systems do. A write that has returned
// may be lost. A later write, sync or close reports that once.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "io/forwarding_file.h"

namespace forebay::test {

// Keeps the bytes that a client has taken from all files made with it, and not passed on yet. Thread-safe.
class LateClient {
  public:
    // Loses all bytes that it has not passed on: readers find the older ones again. Unless `untold`, the next call that
    // can report it fails once.
    void lose(bool untold = false) {
        const std::lock_guard lock(mutex_);
        if (kept_.empty()) return;
        for (; !kept_.empty(); kept_.pop_back()) {
            const Kept& last = kept_.back();
            // A change of size is never lost.
            const std::uint64_t size = last.file->size().value(), end = std::max(size, last.offset);
            (void)last.file->write_at(
                last.offset,
                io::Bytes(last.before).first(std::min<std::size_t>(last.before.size(), end - last.offset)));
        }
        ++losses_;
        untold_ = untold_ || !untold;
    }
    // From now on each sync and close fails and loses the bytes; `false` ends that.
    void refuse(bool refuses) {
        const std::lock_guard lock(mutex_);
        refuses_ = refuses;
    }
    [[nodiscard]] std::uint64_t losses() const {
        const std::lock_guard lock(mutex_);
        return losses_;
    }
    [[nodiscard]] std::uint64_t syncs() const {
        const std::lock_guard lock(mutex_);
        return syncs_;
    }

  private:
    friend class LateFile;
    struct Kept {
        std::shared_ptr<io::File> file;
        std::uint64_t offset = 0;
        std::vector<std::byte> before;
    };
    Status report() {
        const std::lock_guard lock(mutex_);
        return std::exchange(untold_, false) ? Status::from_errno(EIO, "write run.h5") : Status::ok();
    }
    void take(const std::shared_ptr<io::File>& file, std::uint64_t offset, io::Bytes bytes) {
        std::vector<std::byte> before(bytes.size());
        const std::lock_guard lock(mutex_);
        const auto got = file->read_at(offset, before);
        if (got) (void)file->write_at(offset, bytes);
        kept_.push_back({file, offset, std::move(before)});
    }
    // A cut is never lost: bytes that come back below a later end are zeros.
    Status resize(io::File& file, std::uint64_t size) {
        const std::lock_guard lock(mutex_);
        FOREBAY_TRY(file.resize(size));
        for (Kept& kept : kept_) {
            const std::size_t stay = std::clamp(size, kept.offset, kept.offset + kept.before.size()) - kept.offset;
            std::fill(kept.before.begin() + static_cast<std::ptrdiff_t>(stay), kept.before.end(), std::byte{0});
        }
        return Status::ok();
    }
    Status pass_on() {
        bool refuses = false;
        {
            const std::lock_guard lock(mutex_);
            ++syncs_;
            refuses = refuses_;
            if (!refuses) kept_.clear();
        }
        if (refuses) lose();
        return report();
    }

    mutable std::mutex mutex_;
    std::vector<Kept> kept_;
    bool untold_ = false, refuses_ = false;
    std::uint64_t losses_ = 0, syncs_ = 0;
};

class LateFile final : public io::ForwardingFile {
  public:
    LateFile(std::shared_ptr<io::File> file, std::shared_ptr<LateClient> client)
        : ForwardingFile(file), file_(std::move(file)), client_(std::move(client)) {}

    io::FileTraits traits() override {
        return {.may_hang = may_hang_, .reports_late = true, .times = io::TimesKind::kLazy};
    }
    // Drain threads then make all calls.
    void may_hang() noexcept { may_hang_ = true; }
    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        FOREBAY_TRY(client_->report());
        client_->take(file_, offset, bytes);
        return Status::ok();
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        for (const io::Bytes& piece : pieces) {
            FOREBAY_TRY(write_at(offset, piece));
            offset += piece.size();
        }
        return Status::ok();
    }
    Status resize(std::uint64_t size) override { return client_->resize(*file_, size); }
    Status sync() override { return client_->pass_on(); }
    Status flush() override { return client_->pass_on(); }

  private:
    const std::shared_ptr<io::File> file_;
    const std::shared_ptr<LateClient> client_;
    bool may_hang_ = false;
};

}   // namespace forebay::test
