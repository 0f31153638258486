// A staging server in this process, and files that tests write and read through it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/background_thread.h"
#include "io/open_existing.h"
#include "io/posix_file.h"
#include "server/server.h"
#include "support/jumping_clock.h"
#include "support/scratch_folder.h"
#include "wire/remote_file.h"
#include "wire/snapshot_file.h"

namespace forebay::server {

using Content = std::vector<std::byte>;

class StagingServer : public testing::Test {
  protected:
    StagingServer() {
        folder_ = test::make_scratch_folder();
        std::filesystem::create_directory(folder_ + "/nls");
        address_.path = folder_ + "/socket";
        EXPECT_EQ(::pipe(wake_.data()), 0);
    }
    ~StagingServer() override {
        stop();
        ::close(wake_[0]);
        ::close(wake_[1]);
        std::filesystem::remove_all(folder_);
    }

    void start(std::uint64_t size = 64 << 20, std::size_t clients_max = 8) {
        LoadedOptions loaded;
        loaded.options.nls = folder_ + "/nls";
        loaded.options.registry = folder_;
        loaded.options.size = size;
        loaded.options.segment = 256 << 10;
        loaded.options.reserve = 0;
        auto listener = io::Listener::open(address_);
        ASSERT_TRUE(listener) << listener.status().message();
        server_ = std::make_unique<Server>(
            Server::Setup{loaded, clients_max, [](const std::string&) {}, {}, reach_, clock_},
            std::move(listener).value());
        address_ = server_->address();   // with its port
        thread_ = start_background_thread([this] { EXPECT_TRUE(server_->run(wake_[0])); });
    }
    // Stops the server. Its sessions have ended when this returns.
    void stop() {
        if (server_ == nullptr) return;
        EXPECT_EQ(::write(wake_[1], "", 1), 1);
        thread_.join();
        EXPECT_TRUE(server_->await_sessions());
        server_.reset();
    }

    // Stops the server without waiting for clients with open files: it cuts their sessions.
    void end_at_once() {
        EXPECT_EQ(::write(wake_[1], "", 1), 1);
        thread_.join();
        server_.reset();
        std::array<char, 1> taken;
        (void)!::read(wake_[0], taken.data(), taken.size());
    }

    std::string make_file(const std::string& name) const {
        const std::string path = folder_ + "/" + name;
        std::ofstream(path).flush();
        return path;
    }
    Result<std::unique_ptr<wire::RemoteFile>> open(const std::string& path, bool empty = false,
                                                   wire::Open::Team team = {}) const {
        auto opened = io::open_existing(path);
        if (!opened) return opened.status();
        wire::RemoteFile::Setup setup{
            {address_, 60}, io::make_posix_file(opened.value().descriptor, path), empty, false, team};
        return wire::RemoteFile::open(setup);
    }
    Result<std::unique_ptr<wire::SnapshotFile>> open_to_read(const std::string& path,
                                                             wire::Open::Team team = {}) const {
        auto opened = io::open_existing(path);
        if (!opened) return opened.status();
        std::unique_ptr<io::File> file = io::make_posix_file(opened.value().descriptor, path);
        return wire::SnapshotFile::open(address_, file, 60, team);
    }
    static Content content(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        Content result(bytes.size());
        std::transform(bytes.begin(), bytes.end(), result.begin(), [](char c) { return static_cast<std::byte>(c); });
        return result;
    }
    [[nodiscard]] std::vector<std::string> left() const {
        std::vector<std::string> names;
        for (const auto& area : std::filesystem::directory_iterator(folder_ + "/nls"))
            for (const auto& entry : std::filesystem::directory_iterator(area.path()))
                if (std::isdigit(static_cast<unsigned char>(entry.path().filename().string().front())))
                    names.push_back(entry.path().string());
        return names;
    }

    std::string folder_;
    io::Address address_;
    // A client waits for another client's file until that is closed. An impatient client does not wait.
    std::atomic<bool> impatient_{false};
    const std::shared_ptr<test::JumpingClock> clock_ = std::make_shared<test::JumpingClock>([this] {
        return impatient_.load();
    });
    ServedFiles::Reach reach_;
    std::array<int, 2> wake_{};
    std::unique_ptr<Server> server_;
    std::jthread thread_;
};

inline Content random_bytes(std::mt19937_64& random, std::size_t size) {
    Content bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

inline Content all_of(wire::SnapshotFile& file) {
    Content bytes(file.size().value());
    const auto read = file.read_at(0, bytes);
    EXPECT_TRUE(read) << read.status().message();
    EXPECT_EQ(read ? read.value() : 0, bytes.size());
    return bytes;
}

inline void put(Content& model, std::size_t offset, const Content& bytes) {
    if (model.size() < offset + bytes.size()) model.resize(offset + bytes.size());
    std::copy(bytes.begin(), bytes.end(), model.begin() + static_cast<std::ptrdiff_t>(offset));
}

// Files that several threads write through several clients. Each thread has its own units among those of the others.
struct OwnUnits {
    std::size_t threads, unit, units;   // number of `units` for each thread
    [[nodiscard]] std::size_t bytes() const noexcept { return threads * unit * units; }
    // Makes one write of two pieces in one of the thread's units, and in `model`.
    template <class Write>
    std::pair<std::size_t, Content> write_one(std::mt19937_64& random, std::size_t thread, Content& model,
                                              const Write& write) const {
        Content bytes = random_bytes(random, 1 + random() % unit);
        const std::size_t at = (random() % units * threads + thread) * unit;
        const std::size_t half = bytes.size() / 2;
        const std::vector<io::Bytes> pieces{io::Bytes(bytes).first(half), io::Bytes(bytes).subspan(half)};
        EXPECT_TRUE(write(at, pieces));
        std::ranges::copy(bytes, model.begin() + static_cast<std::ptrdiff_t>(at));
        return {at, std::move(bytes)};
    }
};

inline constexpr std::size_t kPiece = 700'001;   // divides no place of exposed memory

// Writes pieces until the server uses memory that the client exposes, then 20 more.
inline void write_until_exposed(wire::RemoteFile& file, Content& model, std::mt19937_64& random) {
    for (std::size_t i = 0; i < wire::kExposeAfter / kPiece + 21; ++i) {
        const std::size_t offset = random() % (8 << 20);
        const Content bytes = random_bytes(random, kPiece);
        ASSERT_TRUE(file.write_at(offset, bytes));
        put(model, offset, bytes);
    }
}

// Makes random writes, truncations, reads and commits. `model` is the expected file, `committed` its state at the last
// commit.
inline void drive(wire::RemoteFile& file, Content& model, std::mt19937_64& random, int turns,
                  Content* committed = nullptr) {
    constexpr std::size_t kEnd = 3 << 20;
    for (int turn = 0; turn < turns; ++turn) {
        const std::size_t offset = random() % kEnd;
        switch (random() % 16) {
            case 0: {
                const std::size_t size = random() % kEnd;
                ASSERT_TRUE(file.resize(size));
                model.resize(size);
                break;
            }
            case 1:
                ASSERT_TRUE(file.commit());
                if (committed != nullptr) *committed = model;
                break;
            case 2:
            case 3: {
                Content got(random() % (random() % 8 == 0 ? kEnd : 10'000));
                const auto read = file.read_at(offset, got);
                ASSERT_TRUE(read) << read.status().message();
                const std::size_t there = offset < model.size() ? std::min(got.size(), model.size() - offset) : 0;
                ASSERT_EQ(read.value(), there);
                ASSERT_TRUE(std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(there),
                                       model.begin() + static_cast<std::ptrdiff_t>(std::min(offset, model.size()))));
                break;
            }
            default: {
                const Content bytes = random_bytes(random, 1 + random() % (random() % 16 == 0 ? 2'500'000 : 5000));
                ASSERT_TRUE(random() % 2 ? file.write_at(offset, bytes) : file.write_metadata_at(offset, bytes));
                put(model, offset, bytes);
            }
        }
    }
}

}   // namespace forebay::server
