// A file whose staged bytes a server writes, by several threads, with a played server that cuts connections: nothing is
// lost, nothing older comes later, and no thread waits for a session that does not come.
#include "wire/drain_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/forwarding_file.h"
#include "io/memory_file.h"
#include "support/seeds.h"

namespace forebay::wire {
namespace {

// It cuts a connection once `cuts` says so, before or after it has done what the frame asks for.
class DrainingServer {
  public:
    enum class Cut { kNo, kBefore, kAfter };
    using Cuts = std::function<Cut(const Header& header)>;

    DrainingServer(io::Address address, io::File& file, Cuts cuts)
        : address_(std::move(address)), file_(file), cuts_(std::move(cuts)) {
        EXPECT_EQ(::pipe(wake_.data()), 0);
        auto listener = io::Listener::open(address_);
        EXPECT_TRUE(listener) << listener.status().message();
        listener_ = std::move(listener).value();
        thread_ = std::jthread([this] {
            for (;;) {
                auto accepted = listener_->accept(wake_[0]);
                if (!accepted || accepted.value() == nullptr) return;
                const std::lock_guard lock(mutex_);
                connections_.push_back(std::make_unique<Connection>(std::move(accepted).value()));
                Connection& connection = *connections_.back();
                sessions_.emplace_back([this, &connection] {
                    serve(connection);
                    connection.socket().shut_down();
                });
            }
        });
    }
    ~DrainingServer() {
        EXPECT_EQ(::write(wake_[1], "", 1), 1);
        thread_.join();
        listener_.reset();
        for (const auto& connection : connections_) connection->socket().shut_down();
        sessions_.clear();
        for (const int end : wake_) ::close(end);
    }
    std::atomic<int> opens_{0}, writes_{0}, cut_{0};

  private:
    void serve(Connection& connection) {
        for (;;) {
            const auto frame = connection.receive();
            if (!frame) return;
            const Header header = frame.value().header;
            const Cut cut = cuts_(header);
            if (cut == Cut::kBefore) return void(++cut_);
            const Status done = carry_out(connection, frame.value(), cut == Cut::kNo);
            if (cut == Cut::kAfter) return void(++cut_);
            if (!done) return;
        }
    }
    Status carry_out(Connection& connection, const Connection::Frame& frame, bool answers) {
        const Header header = frame.header;
        switch (header.type) {
            case Type::kHello: return connection.send(Type::kWelcome, 1, encode(Welcome{1, 64, 8 << 20, 3}));
            case Type::kOpen: {
                ++opens_;
                EXPECT_EQ(parse_open(frame.payload).value().purpose, Purpose::kDrain);
                return connection.send(Type::kOpened, 2, encode(Opened{0, ""}));
            }
            case Type::kWrite: {
                ++writes_;
                const auto write = Write::parse(frame.payload);
                EXPECT_TRUE(write);
                EXPECT_TRUE(file_.write_at(write.value().part(0).offset, write.value().bytes()));
                break;
            }
            case Type::kTruncate: EXPECT_TRUE(file_.resize(parse_size_of(frame.payload).value())); break;
            default: break;
        }
        return answers ? connection.send(Type::kDone, header.request, {}) : Status::ok();
    }

    const io::Address address_;
    io::File& file_;
    const Cuts cuts_;
    std::array<int, 2> wake_{};
    std::unique_ptr<io::Listener> listener_;
    std::jthread thread_;
    std::mutex mutex_;
    std::list<std::unique_ptr<Connection>> connections_;
    std::list<std::jthread> sessions_;
};

// Its name is a path, as a server wants it.
class NamedFile final : public io::ForwardingFile {
  public:
    NamedFile(std::shared_ptr<io::File> file, std::string name)
        : ForwardingFile(std::move(file)), name_(std::move(name)) {}
    const std::string& name() const noexcept override { return name_; }

  private:
    const std::string name_;
};

class DrainFileTest : public testing::Test {
  protected:
    DrainFileTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "forebay-drain-XXXXXX").string();
        folder_ = ::mkdtemp(pattern.data());
        address_.path = folder_ + "/socket";
    }
    ~DrainFileTest() override { std::filesystem::remove_all(folder_); }

    std::unique_ptr<DrainFile> open(std::uint64_t patience_s = 60, bool at_once = true) {
        std::unique_ptr<io::File> file = std::make_unique<NamedFile>(file_, "/file");
        DrainFile::Setup setup{address_, 0, false, false, 3, patience_s};
        setup.gone = [this](const Status&) { ++gone_; };
        auto opened = DrainFile::open(std::move(setup), file, at_once);
        EXPECT_TRUE(opened) << opened.status().message();
        if (opened) opened.value()->count_served(served_);
        return opened ? std::move(opened).value() : nullptr;
    }
    Payload content() {
        Payload bytes(file_->size().value());
        EXPECT_EQ(file_->read_at(0, bytes).value(), bytes.size());
        return bytes;
    }

    std::string folder_;
    io::Address address_;
    const std::shared_ptr<io::File> file_{io::make_memory_file("file")};
    std::atomic<std::uint64_t> served_{0};
    std::atomic<int> gone_{0};
};

// Threads write places of their own, so that the last write of each place is known.
void write_with_threads(DrainFile& file, std::uint64_t seed, Payload& model) {
    constexpr std::size_t kThreads = 5, kUnit = 3000, kUnits = 30;
    model.assign(kThreads * kUnit * kUnits, std::byte{0});
    ASSERT_TRUE(file.resize(0));
    ASSERT_TRUE(file.resize(model.size()));
    std::vector<std::jthread> threads;
    for (std::size_t own = 0; own < kThreads; ++own)
        threads.emplace_back([&, own] {
            std::mt19937_64 random(seed + own);
            for (int turn = 0; turn < 80; ++turn) {
                const Payload bytes(1 + random() % kUnit, static_cast<std::byte>(random()));
                const std::size_t at = (random() % kUnits * kThreads + own) * kUnit;
                ASSERT_TRUE(file.write_at(at, bytes));
                std::ranges::copy(bytes, model.begin() + static_cast<std::ptrdiff_t>(at));
            }
        });
}

TEST_F(DrainFileTest, no_write_is_lost_with_connections_that_are_cut) {
    for (const auto seed : test::seeds("wire.drain", 6)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::atomic<std::uint64_t> frames{seed};
        const auto cuts = [&](const Header& header) {
            if (header.request <= 2) return DrainingServer::Cut::kNo;
            const std::uint64_t number = frames++;
            return number % 29 == 0   ? DrainingServer::Cut::kBefore
                   : number % 31 == 0 ? DrainingServer::Cut::kAfter
                                      : DrainingServer::Cut::kNo;
        };
        DrainingServer server(address_, *file_, cuts);
        const auto file = open();
        ASSERT_NE(file, nullptr);
        served_ = 0;
        Payload model;
        write_with_threads(*file, seed, model);
        EXPECT_TRUE(content() == model);
        EXPECT_GT(server.cut_, 5);
        EXPECT_GT(served_, 0u);
        EXPECT_EQ(gone_, 0);
        ASSERT_TRUE(file->leave());
    }
}

TEST_F(DrainFileTest, a_server_that_ends_among_writes_is_done_without) {
    for (const auto seed : test::seeds("wire.drain.end", 4)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        gone_ = 0;
        auto server = std::make_unique<DrainingServer>(address_, *file_,
                                                       [](const Header&) { return DrainingServer::Cut::kNo; });
        const auto file = open();
        ASSERT_NE(file, nullptr);
        std::jthread ending([&] {
            while (server->writes_ < 50) std::this_thread::yield();
            server.reset();
        });
        Payload model;
        write_with_threads(*file, seed, model);
        ending.join();
        EXPECT_TRUE(content() == model);
        EXPECT_EQ(gone_, 1);
        ASSERT_TRUE(file->leave());
    }
}

TEST_F(DrainFileTest, sessions_are_opened_as_they_are_needed_and_are_bounded) {
    DrainingServer server(address_, *file_, [](const Header&) { return DrainingServer::Cut::kNo; });
    const auto file = open();
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(server.opens_, 1);
    ASSERT_TRUE(file->write_at(0, Payload(10)));
    EXPECT_EQ(server.opens_, 1);
    Payload model;
    write_with_threads(*file, 1, model);
    EXPECT_LE(server.opens_, 3);
}

// Patience ends, and from then on each call tries once. The next server is as good as the first one.
TEST_F(DrainFileTest, a_server_that_cuts_every_session_is_given_up) {
    for (const std::uint64_t from : {1u, 3u}) {   // at HELLO, and at what comes after OPEN
        SCOPED_TRACE(from);
        std::atomic<bool> cuts{false};
        DrainingServer server(address_, *file_, [&](const Header& header) {
            return cuts && header.request >= from ? DrainingServer::Cut::kBefore : DrainingServer::Cut::kNo;
        });
        const auto file = open(1);
        ASSERT_NE(file, nullptr);
        served_ = 0;
        ASSERT_TRUE(file->write_at(0, Payload(10, std::byte{1})));
        cuts = true;
        for (int tries = 0; tries < 2; ++tries) {
            const Status failed = file->write_at(0, Payload(10, std::byte{2}));
            EXPECT_EQ(failed.sys_errno(), ETIMEDOUT) << failed.message();
        }
        cuts = false;
        ASSERT_TRUE(file->write_at(10, Payload(10, std::byte{3})));
        EXPECT_EQ(served_, 20u);
        EXPECT_EQ(gone_, 0);
    }
}

}   // namespace
}   // namespace forebay::wire
