// A staging area whose device takes the bytes of the log, and tells later that it has lost some. A local file system
// does so after a failed write-back (support/losing_mount.h). This one needs no root, and the bytes stay.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "io/forwarding_file.h"
#include "stage/engine.h"
#include "support/forwarding_directory.h"

namespace forebay::test {

// Shared by all files of one area. Thread-safe.
class LogLoss {
  public:
    // The next call on each file that can report a loss fails once.
    void lose() noexcept { ++losses_; }
    [[nodiscard]] std::uint64_t count() const noexcept { return losses_; }

  private:
    std::atomic<std::uint64_t> losses_{0};
};

class LosingLogFile final : public io::ForwardingFile {
  public:
    LosingLogFile(std::unique_ptr<io::File> file, std::shared_ptr<LogLoss> loss)
        : ForwardingFile(std::move(file)), loss_(std::move(loss)), told_(loss_->count()) {}
    Status sync() override {
        FOREBAY_TRY(report("sync"));
        return ForwardingFile::sync();
    }
    Status late_failure() override { return report("write back"); }

  private:
    Status report(const char* what) {
        const std::uint64_t now = loss_->count();
        return told_.exchange(now) == now ? Status::ok() : Status::from_errno(EIO, what + (" " + name()));
    }
    const std::shared_ptr<LogLoss> loss_;
    std::atomic<std::uint64_t> told_;
};

class LosingDirectory final : public ForwardingDirectory {
  public:
    LosingDirectory(std::unique_ptr<io::Directory> directory, std::shared_ptr<LogLoss> loss, std::string name)
        : ForwardingDirectory(std::move(directory)), loss_(std::move(loss)), name_(std::move(name)) {}
    const std::string& name() const noexcept override { return name_; }
    Result<std::unique_ptr<io::File>> open_file(const std::string& name, io::OpenMode mode) override {
        auto file = ForwardingDirectory::open_file(name, mode);
        if (!file || name != "log") return file;
        return std::unique_ptr<io::File>(std::make_unique<LosingLogFile>(std::move(file).value(), loss_));
    }
    Result<std::unique_ptr<io::Directory>> create_directory(const std::string& name) override {
        return wrapped(ForwardingDirectory::create_directory(name));
    }
    Result<std::unique_ptr<io::Directory>> open_directory(const std::string& name) override {
        return wrapped(ForwardingDirectory::open_directory(name));
    }

  private:
    Result<std::unique_ptr<io::Directory>> wrapped(Result<std::unique_ptr<io::Directory>> directory) {
        if (!directory) return directory;
        std::string name = directory.value()->name();
        return std::unique_ptr<io::Directory>(std::make_unique<LosingDirectory>(std::move(directory).value(), loss_,
                                                                                std::move(name)));
    }
    const std::shared_ptr<LogLoss> loss_;
    const std::string name_;
};

// Opens the area with that device. The area's name stands for no folder, so that no tests' folder in memory counts as
// one: such a log has no losses.
inline stage::Engine::OpenArea losing(stage::Engine::OpenArea open, std::shared_ptr<LogLoss> loss) {
    return [open = std::move(open), loss = std::move(loss)]() -> Result<std::unique_ptr<io::Directory>> {
        auto area = open();
        if (!area) return area;
        return std::unique_ptr<io::Directory>(std::make_unique<LosingDirectory>(std::move(area).value(), loss,
                                                                                "/losing area"));
    };
}

}   // namespace forebay::test
