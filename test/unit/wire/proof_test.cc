// Who is at the other end, and frames that somebody on the way changes.
#include "wire/proof.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace forebay::wire {
namespace {

using namespace std::chrono_literals;

struct Pair {
    Pair() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        client = std::make_unique<Connection>(std::make_unique<io::Socket>(ends[0]));
        server = std::make_unique<Connection>(std::make_unique<io::Socket>(ends[1]));
        EXPECT_TRUE(client->socket().set_patience(20s, 20s));
        EXPECT_TRUE(server->socket().set_patience(20s, 20s));
    }
    std::unique_ptr<Connection> client, server;
};

struct Outcome {
    Status client, server;
};

Outcome prove(Pair& pair, const SealKey& of_client, const SealKey& of_server) {
    Outcome outcome;
    std::thread client([&] {
        outcome.client = prove_to_server(*pair.client, of_client);
        if (!outcome.client) pair.client->socket().shut_down();
    });
    outcome.server = prove_to_client(*pair.server, of_server);
    if (!outcome.server) pair.server->socket().shut_down();
    client.join();
    return outcome;
}

bool has_libsodium() { return derive_keys({}, {}, {}).status().is_ok(); }

class ProofTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!has_libsodium()) GTEST_SKIP() << "libsodium.so.23 is not here";
        key_ = new_secret().value();
    }
    SealKey key_{};
    Pair pair_;
};

TEST_F(ProofTest, with_one_key_on_both_sides_seals_what_follows) {
    const Outcome outcome = prove(pair_, key_, key_);
    ASSERT_TRUE(outcome.client) << outcome.client.message();
    ASSERT_TRUE(outcome.server) << outcome.server.message();
    ASSERT_TRUE(pair_.client->sealed() && pair_.server->sealed());
    const Payload bytes(3000, std::byte{5});
    for (std::uint64_t request = 1; request < 4; ++request) {
        ASSERT_TRUE(pair_.client->send(Type::kWrite, request, io::Bytes(bytes).first(8), io::Bytes(bytes).subspan(8)));
        const auto received = pair_.server->receive();
        ASSERT_TRUE(received) << received.status().message();
        EXPECT_EQ(received.value().header.request, request);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), received.value().payload.begin()));
        ASSERT_TRUE(pair_.server->send(Type::kDone, request, {}));
        EXPECT_TRUE(pair_.client->receive());
    }
}

TEST_F(ProofTest, a_server_with_another_key_gets_no_data) {
    const Outcome outcome = prove(pair_, key_, new_secret().value());
    EXPECT_EQ(outcome.client.code(), Code::kPermissionDenied);
    EXPECT_NE(outcome.client.message().find("its key differs"), std::string::npos) << outcome.client.message();
}

// It goes on, whatever the server says: what it sends does not fit.
TEST_F(ProofTest, a_client_with_another_key_is_not_heard) {
    const auto others = new_secret(), random = new_secret();
    ASSERT_TRUE(pair_.client->send(Type::kProve, kBeforeHello, random.value()));
    ASSERT_TRUE(prove_to_client(*pair_.server, key_));
    const auto answer = pair_.client->receive();
    ASSERT_TRUE(answer) << answer.status().message();
    SealKey of_server;
    ASSERT_EQ(answer.value().payload.size(), of_server.size());
    std::copy(answer.value().payload.begin(), answer.value().payload.end(), of_server.begin());
    const SealKeys keys = derive_keys(others.value(), random.value(), of_server).value();
    ASSERT_TRUE(pair_.client->seal(keys.to_server, keys.to_client));
    ASSERT_TRUE(pair_.client->send(Type::kHello, 1, encode(Hello{})));
    EXPECT_EQ(pair_.server->receive().status().code(), Code::kCorrupt);
}

// All frames of an earlier session, sent once more: the server's random bytes are others.
TEST_F(ProofTest, a_recorded_session_does_not_count) {
    const auto random = new_secret();
    HeaderBytes hello = encode(Header{Type::kHello, 0, 1});
    Seal seal{};
    for (int turn = 0; turn < 2; ++turn) {
        Pair pair;
        ASSERT_TRUE(pair.client->send(Type::kProve, kBeforeHello, random.value()));
        ASSERT_TRUE(prove_to_client(*pair.server, key_));
        if (turn == 0) {
            const auto answer = pair.client->receive();
            ASSERT_TRUE(answer);
            SealKey of_server;
            std::copy(answer.value().payload.begin(), answer.value().payload.end(), of_server.begin());
            const std::array<io::Bytes, 1> whole{io::Bytes(hello)};
            seal = FrameSeal::with(derive_keys(key_, random.value(), of_server).value().to_server).value().next(whole);
        }
        const std::array<io::Bytes, 2> pieces{io::Bytes(hello), io::Bytes(seal)};
        ASSERT_TRUE(pair.client->socket().send(pieces));
        EXPECT_EQ(pair.server->receive().status().code(), turn == 0 ? Code::kOk : Code::kCorrupt);
    }
}

TEST_F(ProofTest, anything_else_is_no_proof) {
    for (const auto& [type, request, bytes] :
         {std::tuple{Type::kHello, 0, 32}, {Type::kProve, 1, 32}, {Type::kOpen, 2, 32}, {Type::kProve, 0, 31}}) {
        const Pair pair;
        const Payload payload(static_cast<std::size_t>(bytes));
        ASSERT_TRUE(pair.client->send(type, static_cast<std::uint64_t>(request), payload));
        EXPECT_EQ(prove_to_client(*pair.server, key_).code(), Code::kCorrupt);
    }
}

// An attacker in between sees all frames, and has no key.
TEST_F(ProofTest, frames_that_were_changed_left_out_or_repeated_do_not_count) {
    SealKey key{};
    key[3] = std::byte{9};
    const auto sealing = [&] { return FrameSeal::with(key).value(); };
    const Payload header(kHeaderBytes, std::byte{1}), payload(100, std::byte{2});
    const std::array<io::Bytes, 2> whole{io::Bytes(header), io::Bytes(payload)};
    FrameSeal sender = sealing();
    const Seal first = sender.next(whole), second = sender.next(whole);
    EXPECT_NE(first, second) << "each frame has a seal of its own";
    {
        FrameSeal receiver = sealing();
        EXPECT_TRUE(receiver.fits(whole, first));
        EXPECT_TRUE(receiver.fits(whole, second));
    }
    EXPECT_FALSE(sealing().fits(whole, second)) << "the first one was left out";
    {
        FrameSeal receiver = sealing();
        EXPECT_TRUE(receiver.fits(whole, first));
        EXPECT_FALSE(receiver.fits(whole, first)) << "it was repeated";
    }
    for (std::size_t at = 0; at < payload.size(); ++at) {
        Payload changed = payload;
        changed[at] ^= std::byte{1};
        const std::array<io::Bytes, 2> pieces{io::Bytes(header), io::Bytes(changed)};
        EXPECT_FALSE(sealing().fits(pieces, first)) << at;
    }
    SealKey other = key;
    other[31] = std::byte{1};
    EXPECT_FALSE(FrameSeal::with(other).value().fits(whole, first));
}

// Computed by hand from RFC 8439; docs/protocol.md has the same.
TEST_F(ProofTest, a_seal_has_its_golden_bytes) {
    SealKey key;
    for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
    const Payload header(32, std::byte{1}), payload(100, std::byte{2});
    const std::array<io::Bytes, 2> whole{io::Bytes(header), io::Bytes(payload)};
    FrameSeal seal = FrameSeal::with(key).value();
    const auto hex = [](const Seal& bytes) {
        std::string text;
        for (const std::byte byte : bytes)
            for (const unsigned digit : {std::to_integer<unsigned>(byte) >> 4, std::to_integer<unsigned>(byte) & 15})
                text += "0123456789abcdef"[digit];
        return text;
    };
    EXPECT_EQ(hex(seal.next(whole)), "ca0245c54d0b9b0f2ade33fd1755cd8e");
    EXPECT_EQ(hex(seal.next(whole)), "cbfa4c976443b58042ab8b1fc6757f47");
}

TEST_F(ProofTest, keys_differ_by_direction_and_by_all_that_they_are_made_of) {
    const SealKey one = new_secret().value(), two = new_secret().value(), three = new_secret().value();
    const SealKeys keys = derive_keys(one, two, three).value();
    EXPECT_NE(keys.to_server, keys.to_client);
    EXPECT_EQ(keys.to_server, derive_keys(one, two, three).value().to_server);
    EXPECT_NE(keys.to_server, derive_keys(one, three, two).value().to_server);
    EXPECT_NE(keys.to_server, derive_keys(two, two, three).value().to_server);
    EXPECT_NE(keys.to_server, derive_keys(one, two, one).value().to_server);
}

TEST_F(ProofTest, a_frame_on_a_sealed_connection_that_has_no_seal_ends_it) {
    const Outcome outcome = prove(pair_, key_, key_);
    ASSERT_TRUE(outcome.client && outcome.server);
    const HeaderBytes header = encode(Header{Type::kCommit, 0, 1});
    const std::array<std::byte, 16> no_seal{};
    const std::array<io::Bytes, 2> forged{io::Bytes(header), io::Bytes(no_seal)};
    ASSERT_TRUE(pair_.client->socket().send(forged));
    EXPECT_EQ(pair_.server->receive().status().code(), Code::kCorrupt);
}

}   // namespace
}   // namespace forebay::wire
