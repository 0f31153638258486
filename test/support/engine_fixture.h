// An engine on memory twins, for tests: without disk and HDF5, and with control over every target and staging area.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "io/fault_file.h"
#include "io/forwarding_file.h"
#include "io/memory_file.h"
#include "stage/engine.h"

namespace forebay::test {

inline std::vector<std::byte> bytes_of(std::size_t size, std::uint64_t seed) {
    std::vector<std::byte> bytes(size);
    std::mt19937_64 random(seed);
    for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random();
        std::memcpy(bytes.data() + at, &word, std::min(sizeof word, size - at));
    }
    return bytes;
}

// Compares like ==, but faster.
inline bool identical(const std::vector<std::byte>& one, const std::vector<std::byte>& other) {
    return one.size() == other.size() && (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

// Compares long byte strings, and reports where they differ instead of printing them.
inline testing::AssertionResult same(const std::vector<std::byte>& got, const std::vector<std::byte>& expected) {
    if (got.size() != expected.size())
        return testing::AssertionFailure() << got.size() << " bytes instead of " << expected.size();
    if (identical(got, expected)) return testing::AssertionSuccess();
    std::size_t first = 0, differing = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
        if (got[i] != expected[i] && differing++ == 0) first = i;
    return testing::AssertionFailure() << differing << " of " << got.size() << " bytes differ, the first at " << first;
}

inline LoadedOptions small_options() {
    LoadedOptions loaded;
    loaded.options.size = 4 << 20;
    loaded.options.segment = 64 << 10;
    loaded.options.reserve = 0;
    loaded.options.stripe = 16 << 10;
    loaded.options.write_max = 64 << 10;
    loaded.options.drain_threads = 3;
    return loaded;
}

// The directory outlives the engine, so that a test can inspect it.
class Area {
  public:
    Area() : directory_(std::make_shared<Shared>()) {
        directory_->root = io::make_memory_directory("nls");
        (void)directory_->root->create_directory("area");
    }
    stage::Engine::OpenArea opener(std::shared_ptr<io::FaultPlan> plan = nullptr) const {
        return [shared = directory_, plan]() -> Result<std::unique_ptr<io::Directory>> {
            auto directory = shared->root->open_directory("area");
            if (directory && plan) return io::make_fault_directory(std::move(directory).value(), plan);
            return directory;
        };
    }
    std::vector<std::string> left() const { return shared_open()->list().value(); }
    std::unique_ptr<io::Directory> shared_open() const {
        return std::move(directory_->root->open_directory("area")).value();
    }

  private:
    struct Shared {
        std::unique_ptr<io::Directory> root;
    };
    std::shared_ptr<Shared> directory_;
};

// A file with an identity that the test chooses.
class IdentifiedFile final : public io::ForwardingFile {
  public:
    IdentifiedFile(std::unique_ptr<io::File> file, io::Identity identity, std::string name)
        : ForwardingFile(std::move(file)), identity_(identity), name_(std::move(name)) {}
    const std::string& name() const noexcept override { return name_; }
    Result<io::Identity> identity() override { return identity_; }

  private:
    const io::Identity identity_;
    const std::string name_;
};

// A target in memory that can be opened repeatedly, with optional faults.
class Target {
  public:
    explicit Target(std::uint64_t inode = 1, std::string path = "/scratch/run.h5")
        : identity_{7, inode}, path_(std::move(path)), directory_(io::make_memory_directory("/scratch")) {
        (void)directory_->open_file("run.h5", io::OpenMode::kCreateNew);
    }
    std::unique_ptr<io::File> open(std::shared_ptr<io::FaultPlan> plan = nullptr) const {
        std::unique_ptr<io::File> file = std::make_unique<IdentifiedFile>(
            std::move(directory_->open_file("run.h5", io::OpenMode::kReadWrite)).value(), identity_, path_);
        return plan ? io::make_fault_file(std::move(file), std::move(plan)) : std::move(file);
    }
    const io::Identity& identity() const { return identity_; }
    std::vector<std::byte> contents() const {
        auto file = open();
        std::vector<std::byte> bytes(file->size().value());
        (void)file->read_at(0, bytes);
        return bytes;
    }

  private:
    io::Identity identity_;
    std::string path_;
    std::unique_ptr<io::Directory> directory_;
};

inline std::shared_ptr<stage::StagedFile> attach(stage::Engine& engine, const Target& target, bool writable = true,
                                                 std::shared_ptr<io::FaultPlan> plan = nullptr) {
    auto attached = engine.attach({target.open(std::move(plan)), writable});
    EXPECT_TRUE(attached) << attached.status().message();
    return attached.value().file;
}

inline std::vector<std::byte> read(stage::StagedFile& file, std::uint64_t offset, std::size_t size) {
    std::vector<std::byte> bytes(size, std::byte{0xEE});
    const Status status = file.read(offset, bytes);
    EXPECT_TRUE(status) << status.message();
    return bytes;
}

}   // namespace forebay::test
