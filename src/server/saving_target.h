// The target of a file that clients write. Before each change, the file's observers save the bytes that they need;
// after it, the clients learn of the progress. It refuses changes once the clients are gone and another process has the
// file locked. Thread-safety and errors: those of the file beneath.
#pragma once

#include <memory>
#include <utility>

#include "io/forwarding_file.h"
#include "server/observers.h"
#include "server/writers.h"

namespace forebay::server {

class SavingTarget final : public io::ForwardingFile {
  public:
    SavingTarget(std::shared_ptr<io::File> file, std::shared_ptr<Observers> observers, std::shared_ptr<Writers> writers)
        : ForwardingFile(std::move(file)), observers_(std::move(observers)), writers_(std::move(writers)) {}

    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        return change({offset, offset + bytes.size()}, [&] { return file().write_at(offset, bytes); });
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        std::uint64_t end = offset;
        for (const io::Bytes& piece : pieces) end += piece.size();
        return change({offset, end}, [&] { return file().write_gather_at(offset, pieces); });
    }
    Status resize(std::uint64_t size) override {
        return change({size, kOffsetMax}, [&] { return file().resize(size); });
    }
    Status punch(std::uint64_t offset, std::uint64_t length) override {
        return change({offset, offset + length}, [&] { return file().punch(offset, length); });
    }

  private:
    template <class Change>
    Status change(ByteRange range, Change&& make) {
        FOREBAY_TRY(writers_->may_write());
        observers_->before_write(file(), range);
        FOREBAY_TRY(make());
        writers_->wrote();
        return Status::ok();
    }

    const std::shared_ptr<Observers> observers_;
    const std::shared_ptr<Writers> writers_;
};

}   // namespace forebay::server
