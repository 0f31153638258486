// Files that clients have staged and a server writes: several clients at a time, servers that end, clients that send
// what they must not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/open_existing.h"
#include "io/posix_file.h"
#include "io/served_lock.h"
#include "server/server.h"
#include "support/seeds.h"
#include "support/server_fixture.h"
#include "wire/drain_file.h"

namespace forebay::server {
namespace {

class DrainingServer : public StagingServer {
  protected:
    Result<std::unique_ptr<wire::DrainFile>> drain(const std::string& path, std::uint64_t patience_s = 60,
                                                   std::size_t sessions = 4, bool at_once = true) {
        auto opened = io::open_existing(path);
        if (!opened) return opened.status();
        const std::shared_ptr<io::Descriptor> descriptor = opened.value().descriptor;
        std::unique_ptr<io::File> file = io::make_posix_file(descriptor, path);
        wire::DrainFile::Setup setup{address_, 0, false, false, sessions, patience_s};
        setup.await_unserved = [descriptor] { return io::await_unserved(*descriptor, std::chrono::seconds(5)); };
        setup.gone = [this](const Status&) { ++gone_; };
        auto drained = wire::DrainFile::open(std::move(setup), file, at_once);
        if (drained) drained.value()->count_served(served_);
        return drained;
    }
    std::atomic<std::uint64_t> served_{0};
    std::atomic<int> gone_{0};
};

TEST_F(DrainingServer, what_several_clients_write_equals_a_byte_array) {
    start();
    std::uint64_t requests = 0;
    for (const auto seed : test::seeds("drain.model", 4)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const std::string path = make_file("file" + std::to_string(seed));
        constexpr std::size_t kClients = 3, kThreads = 2, kTurns = 60;
        const OwnUnits own_units{kClients * kThreads, 40'000, 40};
        Content model(own_units.bytes());
        std::vector<std::unique_ptr<wire::DrainFile>> clients;
        for (std::size_t i = 0; i < kClients; ++i) {
            auto file = drain(path);
            ASSERT_TRUE(file) << file.status().message();
            clients.push_back(std::move(file).value());
        }
        ASSERT_TRUE(clients[0]->resize(model.size()));
        served_ = 0;
        std::atomic<std::uint64_t> written{0};
        {
            std::vector<std::jthread> threads;
            for (std::size_t own = 0; own < kClients * kThreads; ++own)
                threads.emplace_back([&, own] {
                    std::mt19937_64 random(seed + own);
                    for (std::size_t turn = 0; turn < kTurns; ++turn)
                        written += own_units
                                       .write_one(random, own, model,
                                                  [&](std::uint64_t at, std::span<const io::Bytes> pieces) {
                                                      return clients[own / kThreads]->write_gather_at(at, pieces);
                                                  })
                                       .second.size();
                });
        }
        EXPECT_EQ(served_, written);
        ASSERT_TRUE(content(path) == model);   // before any of them has left
        for (const auto& client : clients) ASSERT_TRUE(client->leave());
        ASSERT_TRUE(content(path) == model);
        requests += kClients * kThreads * kTurns;
    }
    EXPECT_GE(server_->drained().requests, requests);
    EXPECT_EQ(gone_, 0);
    stop();
    EXPECT_THAT(left(), testing::IsEmpty());
}

// More than a frame, and more than what is written as one.
TEST_F(DrainingServer, a_large_write_is_one_write_for_each_four_mebibytes) {
    start();
    const std::string path = make_file("large");
    auto file = drain(path);
    ASSERT_TRUE(file) << file.status().message();
    std::mt19937_64 random(1);
    const Content bytes = random_bytes(random, 9 << 20);
    ASSERT_TRUE(file.value()->write_at(1 << 20, bytes));
    EXPECT_EQ(server_->drained().requests, 3u);   // 3, 4 and 2 MiB
    EXPECT_EQ(server_->drained().writes, 3u);
    Content got(bytes.size());
    ASSERT_EQ(file.value()->read_at(1 << 20, got).value(), got.size());
    EXPECT_TRUE(got == bytes);
    EXPECT_TRUE(file.value()->sync());
    ASSERT_TRUE(file.value()->resize(5));
    EXPECT_EQ(content(path).size(), 5u);
}

TEST_F(DrainingServer, a_file_is_drained_or_forwarded) {
    start();
    const std::string path = make_file("file");
    auto draining = drain(path);
    ASSERT_TRUE(draining);
    const auto forwarding = open(path);
    EXPECT_EQ(forwarding.status().sys_errno(), EBUSY) << forwarding.status().message();
    draining.value().reset();
    auto later = open(path);
    ASSERT_TRUE(later) << later.status().message();
    EXPECT_EQ(drain(path).status().sys_errno(), EBUSY);
    ASSERT_TRUE(later.value()->close());
    EXPECT_TRUE(drain(path));
}

// Each has several sessions, and is one client.
TEST_F(DrainingServer, clients_that_drain_are_bounded) {
    start(64 << 20, 2);
    const std::string path = make_file("file");
    auto one = drain(path), other = drain(path);
    ASSERT_TRUE(one && other);
    const auto third = drain(path);
    EXPECT_EQ(third.status().code(), Code::kUnsupported) << third.status().message();
    EXPECT_EQ(third.status().sys_errno(), EUSERS);
    one.value().reset();
    for (int tries = 0; tries < 1000; ++tries)   // until the server has noticed
        if (const auto again = drain(path); again) return;
    FAIL() << "no place is left by a client that has gone";
}

TEST_F(DrainingServer, without_a_server_the_file_itself_is_written) {
    const std::string path = make_file("file");
    EXPECT_EQ(drain(path).status().code(), Code::kNotFound);
    auto file = drain(path, 60, 4, false);   // the first write asks
    ASSERT_TRUE(file);
    const Content bytes(100, std::byte{7});
    ASSERT_TRUE(file.value()->write_at(0, bytes));
    EXPECT_TRUE(content(path) == bytes);
    EXPECT_EQ(gone_, 1);
    EXPECT_EQ(served_, 0u);
}

TEST_F(DrainingServer, a_client_goes_on_with_the_next_server_and_without_one) {
    start();
    const std::string path = make_file("file");
    auto file = drain(path);
    ASSERT_TRUE(file);
    const Content one(100, std::byte{1}), two(100, std::byte{2}), three(100, std::byte{3});
    ASSERT_TRUE(file.value()->write_at(0, one));
    end_at_once();
    start();
    ASSERT_TRUE(file.value()->write_at(100, two));
    EXPECT_EQ(gone_, 0);
    EXPECT_EQ(served_, 200u);
    end_at_once();
    ASSERT_TRUE(file.value()->write_at(200, three));
    EXPECT_EQ(gone_, 1);
    EXPECT_EQ(served_, 200u);
    const Content got = content(path);
    ASSERT_EQ(got.size(), 300u);
    for (std::size_t i = 0; i < 300; ++i) ASSERT_EQ(got[i], static_cast<std::byte>(i / 100 + 1));
    ASSERT_TRUE(file.value()->leave());
}

// A session that its client has lost ends before the next one begins, whatever it is at.
TEST_F(DrainingServer, a_lost_session_ends_before_the_next_one_begins) {
    start();
    const std::string path = make_file("file");
    const auto opened = io::open_existing(path);
    ASSERT_TRUE(opened);
    const auto file = io::make_posix_file(opened.value().descriptor, path);
    auto message = wire::describe(*file, wire::Purpose::kDrain, address_);
    ASSERT_TRUE(message);
    message.value().drainer = {77, 1};
    auto lost = wire::open_session(address_, 60, message.value());
    auto second = wire::open_session(address_, 60, message.value());
    ASSERT_TRUE(lost && second);
    message.value().drainer.session = 2;
    auto next = wire::open_session(address_, 60, message.value());
    ASSERT_TRUE(next) << next.status().message();
    for (auto* session : {&lost, &second}) {
        const auto answer = wire::call(*session->value().connection, 3, wire::Type::kTruncate, wire::encode_size(50),
                                       wire::Type::kDone);
        EXPECT_FALSE(answer);
    }
    EXPECT_EQ(content(path).size(), 0u);
    // A late one of the lost ones is refused.
    message.value().drainer.session = 1;
    EXPECT_FALSE(wire::open_session(address_, 60, message.value()));
}

TEST_F(DrainingServer, what_is_not_allowed_ends_the_session) {
    start();
    const std::string path = make_file("file");
    const auto opened = io::open_existing(path);
    const auto file = io::make_posix_file(opened.value().descriptor, path);
    auto message = wire::describe(*file, wire::Purpose::kDrain, address_);
    message.value().drainer = {77, 1};
    const std::vector<wire::Part> part{{0, 4, wire::Class::kRaw}};
    const Content bytes(4);
    const auto refused = [&](auto&& send) {
        auto session = wire::open_session(address_, 60, message.value());
        ASSERT_TRUE(session) << session.status().message();
        wire::Connection& connection = *session.value().connection;
        send(connection);
        EXPECT_FALSE(connection.receive());
    };
    for (const wire::Type type : {wire::Type::kCommit, wire::Type::kDrain, wire::Type::kStepAside, wire::Type::kOpen,
                                  wire::Type::kNext, wire::Type::kData})
        refused([&](wire::Connection& connection) { (void)connection.send(type, 3, {}); });
    // Something else between the frames of one write; too many of them.
    refused([&](wire::Connection& connection) {
        (void)connection.send(wire::Type::kWrite, 3, wire::encode(part, true), bytes);
        (void)connection.send(wire::Type::kSync, 4, {});
    });
    refused([&](wire::Connection& connection) {
        const Content much(wire::kDataMax);
        const std::vector<wire::Part> whole{{0, static_cast<std::uint32_t>(much.size()), wire::Class::kRaw}};
        for (std::uint64_t i = 0; i < 6; ++i)
            if (!connection.send(wire::Type::kWrite, 3 + i, wire::encode(whole, true), much)) return;
    });
    EXPECT_EQ(content(path).size(), 0u);
    // Frames of one write belong to sessions that drain only.
    auto forwarded = message.value();
    forwarded.purpose = wire::Purpose::kWrite;
    auto session = wire::open_session(address_, 60, forwarded);
    ASSERT_TRUE(session) << session.status().message();
    (void)session.value().connection->send(wire::Type::kWrite, 3, wire::encode(part, true), bytes);
    EXPECT_FALSE(session.value().connection->receive());
}

// Whoever recovers a file waits for the server's last write of a client that has died.
TEST_F(DrainingServer, the_server_marks_what_it_writes) {
    start();
    const std::string path = make_file("file");
    auto opened = io::open_existing(path);
    ASSERT_TRUE(opened);
    io::Descriptor& descriptor = *opened.value().descriptor;
    EXPECT_TRUE(io::await_unserved(descriptor, std::chrono::milliseconds(0)));
    auto file = drain(path);
    ASSERT_TRUE(file);
    const Status marked = io::await_unserved(descriptor, std::chrono::milliseconds(0));
    EXPECT_TRUE(!marked && marked.retryable()) << marked.message();
    std::jthread waiting([&] { EXPECT_TRUE(io::await_unserved(descriptor, std::chrono::minutes(1))); });
    file.value().reset();
    waiting.join();
}

}   // namespace
}   // namespace forebay::server
