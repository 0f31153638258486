// Directories that hand each call on to another one: the base of doubles that change some calls.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/file.h"

namespace forebay::test {

// Hands each call on to a directory that another object owns.
class BorrowedDirectory : public io::Directory {
  public:
    explicit BorrowedDirectory(io::Directory& directory) : directory_(directory) {}
    const std::string& name() const noexcept override { return directory_.name(); }
    Result<std::unique_ptr<io::File>> open_file(const std::string& name, io::OpenMode mode) override {
        return directory_.open_file(name, mode);
    }
    Result<std::unique_ptr<io::Directory>> create_directory(const std::string& name) override {
        return directory_.create_directory(name);
    }
    Result<std::unique_ptr<io::Directory>> open_directory(const std::string& name) override {
        return directory_.open_directory(name);
    }
    Status remove_file(const std::string& name) override { return directory_.remove_file(name); }
    Status remove_directory(const std::string& name) override { return directory_.remove_directory(name); }
    Result<std::vector<std::string>> list() override { return directory_.list(); }
    Status sync() override { return directory_.sync(); }
    Result<io::Facts> facts(const std::string& name) override { return directory_.facts(name); }
    Result<std::unique_ptr<io::Lock>> lock(Patience patience) override { return directory_.lock(patience); }
    Result<std::unique_ptr<io::Lock>> hold(const std::string& name) override { return directory_.hold(name); }
    Result<io::Holder> holder_of(const std::string& name) override { return directory_.holder_of(name); }
    Result<std::unique_ptr<io::Lock>> keep_free(const std::string& name) override { return directory_.keep_free(name); }

  private:
    io::Directory& directory_;
};

// Hands each call on to a directory that it owns.
class ForwardingDirectory : public BorrowedDirectory {
  public:
    explicit ForwardingDirectory(std::unique_ptr<io::Directory> directory)
        : BorrowedDirectory(*directory), owned_(std::move(directory)) {}

  private:
    const std::unique_ptr<io::Directory> owned_;
};

}   // namespace forebay::test
