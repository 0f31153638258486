// Who is at the other end, and frames that somebody on the way changes.
#include "wire/proof.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace forebay::wire {
namespace {

using namespace std::chrono_literals;

// An authority that knows each credential it has made, and lets each be read once.
class Authority {
  public:
    struct Made {
        std::uint32_t maker, reader;
        Payload secret;
    };
    std::map<std::string, Made> unread;
};

class StandIn final : public Credentials {
  public:
    StandIn(Authority& authority, std::uint32_t user) : authority_(authority), user_(user) {}
    Result<std::string> make(io::Bytes secret, std::uint32_t reader) override {
        const std::string name = "credential " + std::to_string(++count_) + " of " + std::to_string(user_);
        authority_.unread[name] = {user_, reader, Payload(secret.begin(), secret.end())};
        return name;
    }
    Result<Content> read(const std::string& credential) override {
        const auto found = authority_.unread.find(credential);
        if (found == authority_.unread.end())
            return Status(Code::kPermissionDenied, "nobody has made it, or it was read");
        if (found->second.reader != reads_as_) return Status(Code::kPermissionDenied, "for somebody else");
        Content content{found->second.maker, found->second.secret};
        authority_.unread.erase(found);
        return content;
    }
    std::uint32_t reads_as_ = ::geteuid();

  private:
    Authority& authority_;
    const std::uint32_t user_;
    int count_ = 0;
};

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

Outcome prove(Pair& pair, Credentials& of_client, Credentials& of_server) {
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

bool has_libsodium() { return derive_keys({}, {}).status().is_ok(); }

class ProofTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!has_libsodium()) GTEST_SKIP() << "libsodium.so.23 is not here";
    }
    const std::uint32_t own_ = ::geteuid(), other_ = own_ + 1;
    Authority authority_;
    Pair pair_;
};

TEST_F(ProofTest, of_one_user_on_both_sides_seals_what_follows) {
    StandIn client(authority_, own_), server(authority_, own_);
    const Outcome outcome = prove(pair_, client, server);
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

TEST_F(ProofTest, of_another_user_is_refused_and_told_so) {
    StandIn client(authority_, other_), server(authority_, own_);
    const Outcome outcome = prove(pair_, client, server);
    EXPECT_EQ(outcome.server.code(), Code::kPermissionDenied);
    // Nobody has proved yet that it is the server that says so.
    EXPECT_EQ(outcome.client.code(), Code::kUnavailable);
    EXPECT_NE(outcome.client.message().find("serves user"), std::string::npos) << outcome.client.message();
    EXPECT_FALSE(pair_.client->sealed() || pair_.server->sealed());
}

TEST_F(ProofTest, a_server_of_another_user_gets_no_data) {
    if (other_ == 0) GTEST_SKIP() << "that would be root";
    StandIn client(authority_, own_), server(authority_, other_);
    const Outcome outcome = prove(pair_, client, server);
    EXPECT_EQ(outcome.client.code(), Code::kPermissionDenied);
    EXPECT_NE(outcome.client.message().find("it belongs to user"), std::string::npos) << outcome.client.message();
    EXPECT_FALSE(pair_.client->sealed());
}

TEST_F(ProofTest, a_credential_that_was_read_before_does_not_count) {
    StandIn client(authority_, own_), server(authority_, own_);
    const auto made = client.make(new_secret().value(), own_);
    ASSERT_TRUE(server.read(made.value()));
    ASSERT_TRUE(pair_.client->send(Type::kProve, 0, std::as_bytes(std::span(made.value()))));
    EXPECT_EQ(prove_to_client(*pair_.server, server).code(), Code::kPermissionDenied);
}

TEST_F(ProofTest, who_a_client_says_it_is_can_be_read_by_nobody_but_an_identifier_and_holds_no_secret) {
    StandIn client(authority_, own_), server(authority_, own_);
    std::thread proves([&] { EXPECT_FALSE(prove_to_server(*pair_.client, client)); });
    const auto first = pair_.server->receive();
    ASSERT_TRUE(first) << first.status().message();
    EXPECT_EQ(identified_user(first.value(), server).status().code(), Code::kPermissionDenied);
    StandIn identifier(authority_, kIdentifiers);
    identifier.reads_as_ = kIdentifiers;
    const auto user = identified_user(first.value(), identifier);
    ASSERT_TRUE(user) << user.status().message();
    EXPECT_EQ(user.value(), own_);
    EXPECT_EQ(identified_user(first.value(), identifier).status().code(), Code::kPermissionDenied) << "a replay";
    const auto second = pair_.server->receive();
    ASSERT_TRUE(second);
    EXPECT_EQ(identified_user(second.value(), identifier).status().code(), Code::kCorrupt) << "that is the proof";
    ASSERT_EQ(authority_.unread.size(), 1U) << "the proof's, which nobody has read";
    EXPECT_EQ(authority_.unread.begin()->second.reader, own_);
    pair_.server->socket().shut_down();
    proves.join();
}

// Another user's IDENTIFY, repeated, brings whoever sends it to that user's process, and no further.
TEST_F(ProofTest, who_says_it_is_another_user_does_not_prove_it) {
    StandIn owner(authority_, own_), other(authority_, other_), server(authority_, own_);
    const auto name = owner.make({}, kIdentifiers), proof = other.make(new_secret().value(), own_);
    ASSERT_TRUE(pair_.client->send(Type::kIdentify, 0, std::as_bytes(std::span(name.value()))));
    ASSERT_TRUE(pair_.client->send(Type::kProve, 0, std::as_bytes(std::span(proof.value()))));
    EXPECT_EQ(prove_to_client(*pair_.server, server).code(), Code::kPermissionDenied);
    EXPECT_FALSE(pair_.server->sealed());
}

TEST_F(ProofTest, a_proof_without_who_it_is_is_one_too) {
    StandIn client(authority_, own_), server(authority_, own_);
    const auto proof = client.make(new_secret().value(), own_);
    ASSERT_TRUE(pair_.client->send(Type::kProve, 0, std::as_bytes(std::span(proof.value()))));
    EXPECT_TRUE(prove_to_client(*pair_.server, server));
}

TEST_F(ProofTest, anything_else_is_no_proof) {
    StandIn server(authority_, own_);
    for (const auto& [type, request] :
         {std::pair{Type::kHello, 0}, {Type::kProve, 1}, {Type::kOpen, 2}, {Type::kIdentify, 1}}) {
        const Pair pair;
        ASSERT_TRUE(pair.client->send(type, static_cast<std::uint64_t>(request), std::as_bytes(std::span("x"))));
        EXPECT_EQ(prove_to_client(*pair.server, server).code(), Code::kCorrupt);
    }
}

// Somebody who stands in between has both credentials, and reads neither.
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

TEST_F(ProofTest, keys_differ_by_direction_and_by_either_secret) {
    const SealKey one = new_secret().value(), two = new_secret().value();
    const SealKeys keys = derive_keys(one, two).value();
    EXPECT_NE(keys.to_server, keys.to_client);
    EXPECT_EQ(keys.to_server, derive_keys(one, two).value().to_server);
    EXPECT_NE(keys.to_server, derive_keys(two, one).value().to_server);
    EXPECT_NE(keys.to_server, derive_keys(one, new_secret().value()).value().to_server);
}

TEST_F(ProofTest, a_frame_on_a_sealed_connection_that_has_no_seal_ends_it) {
    StandIn client(authority_, own_), server(authority_, own_);
    const Outcome outcome = prove(pair_, client, server);
    ASSERT_TRUE(outcome.client && outcome.server);
    const HeaderBytes header = encode(Header{Type::kCommit, 0, 1});
    const std::array<std::byte, 16> no_seal{};
    const std::array<io::Bytes, 2> forged{io::Bytes(header), io::Bytes(no_seal)};
    ASSERT_TRUE(pair_.client->socket().send(forged));
    EXPECT_EQ(pair_.server->receive().status().code(), Code::kCorrupt);
}

}   // namespace
}   // namespace forebay::wire
