// A file that forwards every call to another one: the base of files that change some calls.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "io/file.h"

namespace forebay::io {

class ForwardingFile : public File {
  public:
    [[nodiscard]] const std::string& name() const noexcept override { return file_->name(); }
    Result<std::size_t> read_at(std::uint64_t offset, MutableBytes into) override {
        return file_->read_at(offset, into);
    }
    Status write_at(std::uint64_t offset, Bytes bytes) override { return file_->write_at(offset, bytes); }
    Status write_gather_at(std::uint64_t offset, std::span<const Bytes> pieces) override {
        return file_->write_gather_at(offset, pieces);
    }
    FileTraits traits() override { return file_->traits(); }
    Result<Identity> identity() override { return file_->identity(); }
    Result<std::uint64_t> size() override { return file_->size(); }
    Result<FileState> state(Ask ask) override { return file_->state(ask); }
    Status resize(std::uint64_t size) override { return file_->resize(size); }
    Status allocate(std::uint64_t offset, std::uint64_t length) override { return file_->allocate(offset, length); }
    Status punch(std::uint64_t offset, std::uint64_t length) override { return file_->punch(offset, length); }
    Result<std::unique_ptr<Mapping>> map(std::uint64_t offset, std::size_t length) override {
        return file_->map(offset, length);
    }
    Status sync() override { return file_->sync(); }
    Status flush() override { return file_->flush(); }
    Status late_failure() override { return file_->late_failure(); }
    void begin_sync(std::uint64_t offset, std::uint64_t length) noexcept override { file_->begin_sync(offset, length); }
    void rest() noexcept override { file_->rest(); }

  protected:
    explicit ForwardingFile(std::shared_ptr<File> file) : file_(std::move(file)) {}
    [[nodiscard]] File& file() const noexcept { return *file_; }

  private:
    const std::shared_ptr<File> file_;
};

}   // namespace forebay::io
