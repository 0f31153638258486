// The target of a file with readers beside its writer: before it is changed, its observers keep what they need.
//
// Thread-safety and errors: those of the file beneath.
#pragma once

#include <memory>
#include <utility>

#include "io/forwarding_file.h"
#include "server/observers.h"

namespace forebay::server {

class SavingTarget final : public io::ForwardingFile {
  public:
    SavingTarget(std::shared_ptr<io::File> file, std::shared_ptr<Observers> observers)
        : ForwardingFile(std::move(file)), observers_(std::move(observers)) {}

    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        observers_->before_write(file(), {offset, offset + bytes.size()});
        return file().write_at(offset, bytes);
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        std::uint64_t end = offset;
        for (const io::Bytes& piece : pieces) end += piece.size();
        observers_->before_write(file(), {offset, end});
        return file().write_gather_at(offset, pieces);
    }
    Status resize(std::uint64_t size) override {
        observers_->before_write(file(), {size, kOffsetMax});
        return file().resize(size);
    }
    Status punch(std::uint64_t offset, std::uint64_t length) override {
        observers_->before_write(file(), {offset, offset + length});
        return file().punch(offset, length);
    }

  private:
    const std::shared_ptr<Observers> observers_;
};

}   // namespace forebay::server
