// Bytes that go beside the connection, through libfabric: as through the connection, and nobody is harmed by what is
// wrong with them. Client and server are one process here, each with an end of its own on the loopback interface.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/seeds.h"
#include "support/server_fixture.h"
#include "wire/exposed_memory.h"
#include "wire/fabric.h"
#include "wire/fabric_offer.h"

#if defined(__SANITIZE_ADDRESS__)
// libfabric 1.17 forgets the description of each connection (its pull request 8440 frees it in later versions).
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libfabric.so\n"; }
#endif

namespace forebay::server {
namespace {

class Fabric : public StagingServer {
  protected:
    void SetUp() override {
        const auto end = wire::Fabric::open(wire::Fabric::Role::kExposes, INADDR_LOOPBACK);
        if (!end) GTEST_SKIP() << end.status().message();
        if (!wire::derive_keys({}, {})) GTEST_SKIP() << "libsodium.so.23 is not here";
        address_ = {{}, INADDR_LOOPBACK, 0};
        bulk_ = wire::Bulk::Plane::kUnsealed;
    }
    [[nodiscard]] std::uint64_t pulled() const { return server_->bulk().pulled_bytes; }
    [[nodiscard]] std::uint64_t pushed() const { return server_->bulk().pushed_bytes; }
    [[nodiscard]] std::uint64_t refused() const { return server_->bulk().refused; }
};

TEST_F(Fabric, large_writes_and_reads_go_through_it) {
    start();
    const std::string path = make_file("file");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    Content model;
    std::mt19937_64 random(1);
    write_until_exposed(*file.value(), model, random);
    EXPECT_EQ(pulled(), 21 * kPiece) << *told_;
    Content got(model.size());
    ASSERT_EQ(file.value()->read_at(0, got).value(), model.size());
    ASSERT_TRUE(got == model);
    EXPECT_EQ(pushed(), model.size());
    for (const std::uint64_t seed : test::seeds("fabric", 2, {})) {
        std::mt19937_64 turns(seed);
        drive(*file.value(), model, turns, 300);
    }
    EXPECT_GT(pulled(), 25 * kPiece);
    ASSERT_TRUE(file.value()->close());
    EXPECT_TRUE(content(path) == model);
    EXPECT_EQ(refused(), 0u);
    EXPECT_EQ(*told_, "");
}

TEST_F(Fabric, readers_beside_the_writer_are_reached_too) {
    start();
    const std::string path = make_file("file");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    Content model;
    std::mt19937_64 random(2);
    write_until_exposed(*file.value(), model, random);
    ASSERT_TRUE(file.value()->commit());
    const Content committed = model;
    auto reader = open_to_read(path);
    ASSERT_TRUE(reader) << reader.status().message();
    ASSERT_TRUE(all_of(*reader.value()) == committed);
    const std::uint64_t before = pushed();
    write_until_exposed(*file.value(), model, random);
    ASSERT_TRUE(all_of(*reader.value()) == committed);
    EXPECT_EQ(pushed() - before, committed.size());
    ASSERT_TRUE(file.value()->close());
    EXPECT_TRUE(content(path) == model);
}

TEST_F(Fabric, several_clients_share_the_ends) {
    start();
    constexpr std::size_t kClients = 4;
    std::vector<std::string> paths;
    std::vector<Content> models(kClients);
    for (std::size_t i = 0; i < kClients; ++i) paths.push_back(make_file("file" + std::to_string(i)));
    {
        std::vector<std::jthread> clients;
        for (std::size_t i = 0; i < kClients; ++i)
            clients.emplace_back([&, i] {
                auto file = open(paths[i]);
                ASSERT_TRUE(file) << file.status().message();
                std::mt19937_64 random(i);
                write_until_exposed(*file.value(), models[i], random);
                drive(*file.value(), models[i], random, 100);
                ASSERT_TRUE(file.value()->close());
            });
    }
    for (std::size_t i = 0; i < kClients; ++i) EXPECT_TRUE(content(paths[i]) == models[i]);
    EXPECT_GE(pulled(), kClients * 21 * kPiece) << *told_;
    EXPECT_EQ(refused(), 0u);
}

TEST_F(Fabric, a_server_that_does_not_use_it_is_written_to_through_the_connection) {
    const auto asked = bulk_;
    bulk_ = wire::Bulk::Plane::kSocket;
    start();
    bulk_ = asked;
    const std::string path = make_file("file");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    Content model;
    std::mt19937_64 random(3);
    write_until_exposed(*file.value(), model, random);
    drive(*file.value(), model, random, 100);
    ASSERT_TRUE(file.value()->close());
    EXPECT_TRUE(content(path) == model);
    EXPECT_EQ(pulled() + pushed(), 0u);
    EXPECT_EQ(std::count(told_->begin(), told_->end(), '\n'), 1) << *told_;
}

// A client that speaks the protocol by hand, and has opened `path` for writing.
class RawClient {
  public:
    RawClient(const io::Address& address, const std::string& path) : connection_(io::Socket::connect(address).value()) {
        (void)connection_.socket().set_patience(std::chrono::seconds(60), std::chrono::seconds(60));
        EXPECT_TRUE(connection_.seal_bulk_with({}));
        EXPECT_EQ(ask(wire::Type::kHello, wire::encode(wire::Hello{})), "welcome");
        const wire::Open message{false, false, io::identify(path).value(), path, wire::Purpose::kWrite, {}, {}};
        EXPECT_EQ(ask(wire::Type::kOpen, wire::encode(message)), "opened");
    }
    // What it is told.
    std::string ask(wire::Type type, io::Bytes payload) {
        if (!connection_.send(type, ++request_, payload)) return "nothing";
        const auto frame = connection_.receive();
        if (!frame) return "nothing";
        switch (frame.value().header.type) {
            case wire::Type::kWelcome: return "welcome";
            case wire::Type::kOpened: return "opened";
            case wire::Type::kDone: return "done";
            case wire::Type::kFailed:
                return wire::parse_failed(frame.value().payload).sys_errno() == wire::kNotMoved ? "not moved"
                                                                                                : "failed";
            default: return "something else";
        }
    }
    std::string offer() {
        auto offer = wire::make_offer(connection_, request_ + 1);
        EXPECT_TRUE(offer) << offer.status().message();
        connection_.serve_while_waiting(offer.value().fabric);
        fabric = offer.value().fabric;
        return ask(wire::Type::kExposeFabric, offer.value().message);
    }
    // A WRITE_PULLED of this region; its payload, as the next request.
    wire::Payload write_of(const wire::Fabric::Region& region) {
        const wire::Place place{region.position(), region.key(),
                                connection_.seal_of_bulk(request_ + 1, region.bytes())};
        const wire::Part part{0, static_cast<std::uint32_t>(region.bytes().size()), wire::Class::kRaw};
        return wire::encode_pulled(place, {&part, 1});
    }
    std::unique_ptr<wire::Fabric::Region> region(std::byte fill) {
        auto made = fabric->expose(4096, wire::Fabric::Access::kRead);
        EXPECT_TRUE(made) << made.status().message();
        std::fill(made.value()->bytes().begin(), made.value()->bytes().end(), fill);
        return std::move(made).value();
    }
    std::shared_ptr<wire::Fabric> fabric;
    wire::Connection& connection() { return connection_; }
    std::uint64_t next() { return ++request_; }

  private:
    wire::Connection connection_;
    std::uint64_t request_ = 0;
};

const wire::Part kPart{0, 4, wire::Class::kRaw};
wire::Payload write_of_four(std::byte fill) {
    wire::Payload payload = wire::encode(std::span(&kPart, 1));
    payload.insert(payload.end(), 4, fill);
    return payload;
}

TEST_F(Fabric, bytes_that_do_not_fit_their_seal_change_nothing_and_the_session_goes_on) {
    start();
    const std::string path = make_file("file");
    RawClient client(address_, path);
    ASSERT_EQ(client.offer(), "done");
    const auto region = client.region(std::byte{7});
    ASSERT_EQ(client.ask(wire::Type::kWritePulled, client.write_of(*region)), "done");
    wire::Payload request = client.write_of(*region);
    region->bytes()[4095] = std::byte{8};   // somebody on the way
    EXPECT_EQ(client.ask(wire::Type::kWritePulled, request), "not moved");
    EXPECT_EQ(refused(), 1u);
    EXPECT_EQ(client.ask(wire::Type::kWrite, write_of_four(std::byte{9})), "done");
    EXPECT_EQ(client.ask(wire::Type::kClose, {}), "done");
    Content expected(4096, std::byte{7});
    std::fill_n(expected.begin(), 4, std::byte{9});
    EXPECT_TRUE(content(path) == expected);
}

TEST_F(Fabric, a_region_that_has_ended_or_another_key_reaches_nothing) {
    start();
    const std::string path = make_file("file");
    for (const bool ended : {false, true}) {
        RawClient client(address_, path);
        ASSERT_EQ(client.offer(), "done");
        auto region = client.region(std::byte{7});
        wire::Payload request = client.write_of(*region);
        if (ended) region.reset();
        else request[8] ^= std::byte{1};
        EXPECT_EQ(client.ask(wire::Type::kWritePulled, request), "not moved");
        EXPECT_EQ(client.ask(wire::Type::kWritePulled, request), "nothing");
    }
    EXPECT_EQ(pulled(), 0u);
    EXPECT_EQ(refused(), 2u);
    EXPECT_TRUE(content(path).empty());
}

TEST_F(Fabric, a_probe_that_does_not_fit_or_an_address_of_nobody_is_refused_and_the_session_goes_on) {
    start();
    const std::string path = make_file("file");
    const std::vector<std::function<void(wire::ExposeFabric&)>> spoils{
        [](wire::ExposeFabric& offer) { offer.probe.seal[0] ^= std::byte{1}; },
        [](wire::ExposeFabric& offer) { offer.provider = "no such provider"; },
        // A port where nobody listens: it takes the server 5 s at most to know.
        [](wire::ExposeFabric& offer) { offer.address[2] = std::byte{0}, offer.address[3] = std::byte{1}; },
    };
    for (const auto& spoil : spoils) {
        RawClient client(address_, path);
        const auto offer = wire::make_offer(client.connection(), 3);
        ASSERT_TRUE(offer) << offer.status().message();
        client.connection().serve_while_waiting(offer.value().fabric);
        auto spoilt = wire::parse_expose_fabric(offer.value().message);
        ASSERT_TRUE(spoilt);
        spoil(spoilt.value());
        EXPECT_EQ(client.ask(wire::Type::kExposeFabric, wire::encode(spoilt.value())), "failed");
        EXPECT_EQ(client.ask(wire::Type::kCommit, {}), "done");
    }
    EXPECT_EQ(refused(), 3u);
    RawClient client(address_, path);
    EXPECT_EQ(client.ask(wire::Type::kExposeFabric, {}), "nothing");
}

// Each offer may cost the server memory until its end closes.
TEST_F(Fabric, a_second_offer_ends_the_session) {
    start();
    for (const bool refused : {false, true}) {
        RawClient client(address_, make_file("file"));
        if (refused) {
            const wire::ExposeFabric nobody{{}, "no such provider", wire::Payload(16)};
            EXPECT_EQ(client.ask(wire::Type::kExposeFabric, wire::encode(nobody)), "failed");
        } else {
            EXPECT_EQ(client.offer(), "done");
        }
        EXPECT_EQ(client.offer(), "nothing");
    }
}

// Sessions of one client come and go, and reach it by one entry.
TEST_F(Fabric, a_client_is_reached_as_long_as_one_of_its_sessions_needs_it) {
    const auto client = wire::Fabric::open(wire::Fabric::Role::kExposes, INADDR_LOOPBACK);
    const auto server = wire::Fabric::open(wire::Fabric::Role::kReaches, INADDR_LOOPBACK, client.value()->provider());
    ASSERT_TRUE(server) << server.status().message();
    const auto region = client.value()->expose(4096, wire::Fabric::Access::kRead);
    ASSERT_TRUE(region) << region.status().message();
    std::ranges::fill(region.value()->bytes(), std::byte{7});
    std::array<int, 2> pair{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    const io::Socket here(pair[0]);
    auto there = std::make_unique<io::Socket>(pair[1]);
    std::jthread answering([&] { EXPECT_TRUE(client.value()->await_input(here)); });
    const auto reach = [&](const std::shared_ptr<wire::Fabric::Peer>& peer) {
        const auto buffer = server.value()->make_buffer(4096);
        ASSERT_TRUE(buffer) << buffer.status().message();
        const Status moved = server.value()->move(wire::Fabric::Way::kPull,
                                                  {peer, region.value()->position(), region.value()->key()},
                                                  buffer.value(), 4096, *there, std::chrono::seconds(60));
        ASSERT_TRUE(moved) << moved.message();
        EXPECT_TRUE(std::ranges::equal(buffer.value()->bytes(), region.value()->bytes()));
    };
    auto one = server.value()->find(client.value()->address()), other = server.value()->find(client.value()->address());
    ASSERT_TRUE(one && other);
    one.value().reset();
    reach(other.value());
    other.value().reset();
    {
        std::vector<std::jthread> sessions;
        for (int i = 0; i < 4; ++i)
            sessions.emplace_back([&] {
                for (int turn = 0; turn < 100; ++turn) {
                    const auto peer = server.value()->find(client.value()->address());
                    ASSERT_TRUE(peer) << peer.status().message();
                    reach(peer.value());
                }
            });
    }
    there.reset();
}

// It never waits for the answer, so its end does nothing while the server asks it.
TEST_F(Fabric, a_client_that_goes_in_the_middle_harms_nobody) {
    start();
    const std::string path = make_file("file"), other = make_file("other");
    auto file = open(other);
    ASSERT_TRUE(file) << file.status().message();
    Content model;
    std::mt19937_64 random(4);
    write_until_exposed(*file.value(), model, random);
    {
        RawClient client(address_, path);
        ASSERT_EQ(client.offer(), "done");
        const auto region = client.region(std::byte{7});
        ASSERT_EQ(client.ask(wire::Type::kWritePulled, client.write_of(*region)), "done");
        ASSERT_EQ(client.ask(wire::Type::kCommit, {}), "done");
        const wire::Payload request = client.write_of(*region);
        ASSERT_TRUE(client.connection().send(wire::Type::kWritePulled, client.next(), request));
        client.connection().socket().shut_down();
    }
    write_until_exposed(*file.value(), model, random);
    ASSERT_TRUE(file.value()->close());
    EXPECT_TRUE(content(other) == model);
    auto again = open(path);   // once the former session has ended
    ASSERT_TRUE(again) << again.status().message();
    Content next(4096, std::byte{7});
    write_until_exposed(*again.value(), next, random);
    ASSERT_TRUE(again.value()->close());
    EXPECT_TRUE(content(path) == next);
}

TEST_F(Fabric, a_frame_of_it_that_is_not_allowed_ends_the_session) {
    start();
    for (const wire::Type type : {wire::Type::kWritePulled, wire::Type::kReadPushed}) {
        RawClient client(address_, make_file("file" + std::to_string(static_cast<int>(type))));
        const auto payload = type == wire::Type::kReadPushed ? wire::encode(wire::ReadPushed{{0, 4096}, {}})
                                                             : wire::encode_pulled({}, {&kPart, 1});
        EXPECT_EQ(client.ask(type, payload), "nothing");
    }
    RawClient client(address_, make_file("file"));
    ASSERT_EQ(client.offer(), "done");
    const auto region = client.region(std::byte{7});
    wire::Payload one_of_two = client.write_of(*region);
    one_of_two[wire::kPlaceBytes + 4] = std::byte{1};
    EXPECT_EQ(client.ask(wire::Type::kWritePulled, one_of_two), "nothing");
    EXPECT_EQ(pulled(), 0u);
}

}   // namespace
}   // namespace forebay::server
