// Files in memory that lose unsynced bytes when the power fails.
// Fault model. Every file has two contents: that of its device, and the one that programs see. A sync copies the latter
// to the device. In between, the system writes back at random: at random calls a random sector of 512 bytes reaches the
// device with its current content. When the power fails, each sector that differs has its new or its old state, by
// chance and in any order. So writes are lost, reordered and torn. A sector itself is not torn, and synced bytes are on
// the device. The size is the new or the old one. Names of files are not lost.
// The power fails at a call of the thread that calls `arm`; the files' locks cover concurrent calls of other threads. A
// `Power` that keeps all bytes models the death of the process instead: the system writes back all of them.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/forwarding_file.h"
#include "io/memory_file.h"
#include "support/forwarding_directory.h"

namespace forebay::test {

class Power {
  public:
    static constexpr std::size_t kSector = 512;
    using Content = std::vector<std::byte>;

    enum class Loses : std::uint8_t { kWhatWasNotSynced, kNothing };

    explicit Power(std::uint64_t seed, Loses loses = Loses::kWhatWasNotSynced) : random_(seed), loses_(loses) {}

    // The power fails at the `nth` next call of this thread, or of any thread.
    enum class Calls : std::uint8_t { kOfThisThread, kAny };
    void arm(std::uint64_t nth, Calls calls = Calls::kOfThisThread) {
        const std::lock_guard lock(mutex_);
        thread_ = std::this_thread::get_id();
        any_thread_ = calls == Calls::kAny;
        left_ = nth;
        armed_ = true;
    }
    [[nodiscard]] bool off() const {
        const std::lock_guard lock(mutex_);
        return off_;
    }
    void fail_now() {
        const std::lock_guard lock(mutex_);
        if (!off_) fail_locked();
    }
    // The content of the devices after the failure, by name.
    [[nodiscard]] const std::map<std::string, Content>& devices() const noexcept { return survived_; }
    [[nodiscard]] std::uint64_t syncs() const {
        const std::lock_guard lock(mutex_);
        return syncs_;
    }

    [[nodiscard]] std::unique_ptr<io::File> wrap(std::unique_ptr<io::File> file, const std::string& name) {
        return std::make_unique<PowerFile>(*this, std::shared_ptr<io::File>(std::move(file)), name);
    }
    [[nodiscard]] std::unique_ptr<io::Directory> wrap(std::unique_ptr<io::Directory> directory,
                                                      const std::string& name) {
        return std::make_unique<PowerDirectory>(*this, std::move(directory), name);
    }

  private:
    struct Disk {
        std::shared_ptr<io::File> file;
        Content durable;
    };

    class PowerFile final : public io::ForwardingFile {
      public:
        PowerFile(Power& power, std::shared_ptr<io::File> file, std::string name)
            : ForwardingFile(file), power_(power), name_(std::move(name)) {
            const std::lock_guard lock(power_.mutex_);
            Disk& disk = power_.disks_[name_];
            disk.file = std::move(file);
        }
        Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override {
            const auto held = power_.arrive();
            return file().read_at(offset, into);
        }
        Status write_at(std::uint64_t offset, io::Bytes bytes) override { return write_gather_at(offset, {&bytes, 1}); }
        Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
            const auto held = power_.arrive();
            return file().write_gather_at(offset, pieces);
        }
        Status resize(std::uint64_t size) override {
            const auto held = power_.arrive();
            return file().resize(size);
        }
        Status allocate(std::uint64_t offset, std::uint64_t length) override {
            const auto held = power_.arrive();
            return file().allocate(offset, length);
        }
        Status punch(std::uint64_t offset, std::uint64_t length) override {
            const auto held = power_.arrive();
            return file().punch(offset, length);
        }
        Status sync() override {
            const auto held = power_.arrive();
            ++power_.syncs_;
            power_.disks_[name_].durable = contents(file());
            return Status::ok();
        }

      private:
        Power& power_;
        std::string name_;
    };

    class PowerDirectory final : public ForwardingDirectory {
      public:
        PowerDirectory(Power& power, std::unique_ptr<io::Directory> directory, std::string name)
            : ForwardingDirectory(std::move(directory)), power_(power), name_(std::move(name)) {}
        Result<std::unique_ptr<io::File>> open_file(const std::string& name, io::OpenMode mode) override {
            auto file = ForwardingDirectory::open_file(name, mode);
            if (!file) return file;
            return power_.wrap(std::move(file).value(), name_ + "/" + name);
        }
        Result<std::unique_ptr<io::Directory>> create_directory(const std::string& name) override {
            return inner(ForwardingDirectory::create_directory(name), name);
        }
        Result<std::unique_ptr<io::Directory>> open_directory(const std::string& name) override {
            return inner(ForwardingDirectory::open_directory(name), name);
        }
        Status remove_file(const std::string& name) override {
            const auto held = power_.arrive();
            power_.disks_.erase(name_ + "/" + name);
            return ForwardingDirectory::remove_file(name);
        }

      private:
        Result<std::unique_ptr<io::Directory>> inner(Result<std::unique_ptr<io::Directory>> directory,
                                                     const std::string& name) {
            if (!directory) return directory;
            return power_.wrap(std::move(directory).value(), name_ + "/" + name);
        }
        Power& power_;
        std::string name_;
    };

    static Content contents(io::File& file) {
        Content bytes(file.size().value());
        (void)file.read_at(0, bytes);
        return bytes;
    }

    // Begins a call. The caller holds the lock during the call.
    [[nodiscard]] std::unique_lock<std::mutex> arrive() {
        std::unique_lock lock(mutex_);
        if (!off_ && (any_thread_ || std::this_thread::get_id() == thread_)) {
            for (auto& [name, disk] : disks_)
                for (int i = 0; i < 3; ++i) write_back(disk);
            if (armed_ && --left_ == 0) fail_locked();
        }
        return lock;
    }
    void write_back(Disk& disk) {
        const std::uint64_t size = disk.file->size().value();
        if (size == 0) return;
        const std::uint64_t begin = random_() % ((size + kSector - 1) / kSector) * kSector;
        if (disk.durable.size() < size && random_() % 4 == 0) disk.durable.resize(size);
        if (begin >= disk.durable.size()) return;
        (void)disk.file->read_at(
            begin,
            std::span(disk.durable).subspan(begin, std::min<std::uint64_t>(kSector, disk.durable.size() - begin)));
    }
    void fail_locked() {
        off_ = true;
        const std::uint64_t bias = random_() % 9;   // of eight: the part of new sectors that survives
        for (auto& [name, disk] : disks_) {
            Content now = contents(*disk.file);
            if (loses_ == Loses::kNothing) {
                survived_[name] = std::move(now);
                continue;
            }
            Content left = disk.durable;
            if (random_() % 2 == 0) left.resize(now.size());
            for (std::uint64_t begin = 0; begin < std::min(left.size(), now.size()); begin += kSector) {
                const std::uint64_t end = std::min<std::uint64_t>({begin + kSector, left.size(), now.size()});
                if (random_() % 8 < bias) std::memcpy(left.data() + begin, now.data() + begin, end - begin);
            }
            survived_[name] = std::move(left);
        }
    }

    mutable std::mutex mutex_;
    std::mt19937_64 random_;
    const Loses loses_;
    std::map<std::string, Disk> disks_;
    std::map<std::string, Content> survived_;
    std::thread::id thread_ = std::this_thread::get_id();
    bool any_thread_ = false;
    std::uint64_t left_ = 0, syncs_ = 0;
    bool armed_ = false, off_ = false;
};

// Builds a staging area from the content of the devices.
inline std::unique_ptr<io::Directory> area_from(const std::map<std::string, Power::Content>& devices,
                                                const std::string& area) {
    auto made = io::make_memory_directory("/nls/forebay");
    for (const auto& [name, content] : devices) {
        if (!name.starts_with(area + "/")) continue;
        const std::size_t slash = name.find('/', area.size() + 1);
        const std::string directory = name.substr(area.size() + 1, slash - area.size() - 1);
        auto inner = made->open_directory(directory);
        if (!inner) inner = made->create_directory(directory);
        (void)inner.value()->open_file(name.substr(slash + 1), io::OpenMode::kCreateNew).value()->write_at(0, content);
    }
    return made;
}

}   // namespace forebay::test
