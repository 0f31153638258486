// Clients that no user's process has yet: they say who they are, or hear why they are refused, and hold nobody up.
#include "server/newcomers.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/background_thread.h"
#include "io/passed_socket.h"
#include "wire/connection.h"
#include "wire/proof.h"

namespace forebay::server {
namespace {

using namespace std::chrono_literals;
using wire::Type;

// The credential is the number of the user who has made it; nobody can read one twice in a row.
class Numbers final : public wire::Credentials {
  public:
    Result<std::string> make(io::Bytes, std::uint32_t) override { return std::string("0"); }
    Result<Content> read(const std::string& credential) override {
        if (std::exchange(last_, credential) == credential)
            return Status(Code::kPermissionDenied, "Replayed credential");
        Content content;
        const auto [rest, failed] = std::from_chars(credential.data(), credential.data() + credential.size(),
                                                    content.user);
        if (failed != std::errc()) return Status(Code::kPermissionDenied, "Invalid credential");
        return content;
    }

  private:
    std::string last_;
};

io::Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

class NewcomersTest : public testing::Test {
  protected:
    void start(Newcomers::Setup setup = {}, bool with_credentials = true) {
        const auto ends = io::make_channel();
        ASSERT_TRUE(ends) << ends.status().message();
        channel_ = ends.value()[0];
        if (with_credentials) setup.credentials = std::make_shared<Numbers>();
        setup.report = [this](const std::string& line) { report_ += line + "\n"; };
        newcomers_ = std::make_unique<Newcomers>(ends.value()[1], std::move(setup));
        thread_ = start_background_thread([this] { EXPECT_TRUE(newcomers_->run()); });
    }
    // What it has reported.
    const std::string& stop() {
        close_channel();
        if (thread_.joinable()) thread_.join();
        return report_;
    }
    void close_channel() {
        if (channel_ >= 0) ::close(std::exchange(channel_, -1));
    }
    ~NewcomersTest() override { stop(); }

    // The client's end of a connection that was passed with this note.
    std::unique_ptr<wire::Connection> comes(const std::string& note = "") const {
        std::array<int, 2> ends{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
        const io::Socket passed(ends[1]);
        EXPECT_TRUE(io::pass(channel_, &passed, note, io::Waits::kYes));
        auto client = std::make_unique<wire::Connection>(std::make_unique<io::Socket>(ends[0]));
        EXPECT_TRUE(client->socket().set_patience(30s, 30s));
        return client;
    }
    static std::string refusal_of(wire::Connection& client) {
        const auto answer = client.receive();
        if (!answer) return "no answer: " + answer.status().message();
        EXPECT_EQ(answer.value().header.type, Type::kFailed);
        return wire::parse_failed(answer.value().payload).message();
    }
    // The next that comes back: the user's number.
    [[nodiscard]] std::string identified(std::unique_ptr<io::Socket>* socket = nullptr) const {
        auto come = io::receive_passed(channel_);
        if (!come || !come.value()) return "nobody";
        if (socket != nullptr) *socket = std::move(come.value()->socket);
        return come.value()->note;
    }

    int channel_ = -1;
    std::string report_;
    std::unique_ptr<Newcomers> newcomers_;
    std::jthread thread_;
};

TEST_F(NewcomersTest, who_says_who_it_is_comes_back_and_what_it_says_next_is_unread) {
    start();
    const auto client = comes();
    ASSERT_TRUE(client->send(Type::kIdentify, 0, bytes_of("1234")));
    ASSERT_TRUE(client->send(Type::kProve, 0, bytes_of("a proof")));
    std::unique_ptr<io::Socket> socket;
    EXPECT_EQ(identified(&socket), "1234");
    wire::Connection server(std::move(socket));
    const auto next = server.receive();
    ASSERT_TRUE(next) << next.status().message();
    EXPECT_EQ(next.value().header.type, Type::kProve);
    EXPECT_EQ(next.value().payload.size(), 7U);
    EXPECT_EQ(stop(), "");
}

TEST_F(NewcomersTest, a_frame_that_comes_byte_by_byte_is_put_together) {
    start();
    const auto client = comes();
    const std::string name = "77";
    const wire::HeaderBytes header = wire::encode(wire::Header{Type::kIdentify, 2, 0});
    for (const io::Bytes piece : {io::Bytes(header), bytes_of(name)})
        for (const std::byte& byte : piece) {
            const std::array<io::Bytes, 1> one{io::Bytes(&byte, 1)};
            ASSERT_TRUE(client->socket().send(one));
        }
    EXPECT_EQ(identified(), "77");
}

TEST_F(NewcomersTest, who_is_refused_is_told_why_as_the_answer_to_what_it_asks) {
    start();
    const auto elsewhere = comes("user 5 is not admitted"), here = comes("there is no room");
    ASSERT_TRUE(elsewhere->send(Type::kProve, 0, bytes_of("x")));
    EXPECT_EQ(refusal_of(*elsewhere), "user 5 is not admitted");
    ASSERT_TRUE(here->send(Type::kHello, 1, wire::encode(wire::Hello{})));
    const auto answer = here->receive();
    ASSERT_TRUE(answer) << answer.status().message();
    EXPECT_EQ(answer.value().header.request, 1U);
    EXPECT_EQ(wire::parse_failed(answer.value().payload).message(), "there is no room");
    EXPECT_EQ(here->receive().status().code(), Code::kNotFound) << "and that was all";
}

TEST_F(NewcomersTest, a_credential_that_cannot_be_read_or_was_read_before_is_refused_with_words) {
    start();
    for (const auto& [credential, words] : {std::pair{"8", ""}, {"8", "Replayed"}, {"none", "Invalid"}}) {
        const auto client = comes();
        ASSERT_TRUE(client->send(Type::kIdentify, 0, bytes_of(credential)));
        ASSERT_TRUE(client->send(Type::kProve, 0, bytes_of("a proof")));
        if (*words == '\0') EXPECT_EQ(identified(), credential);
        else EXPECT_NE(refusal_of(*client).find(words), std::string::npos) << credential;
    }
    EXPECT_NE(stop().find("a client was not admitted: Replayed"), std::string::npos) << report_;
}

TEST_F(NewcomersTest, who_begins_with_anything_else_is_refused) {
    start();
    for (const auto& [type, request] : {std::pair{Type::kProve, 0}, {Type::kHello, 1}, {Type::kIdentify, 7}}) {
        const auto client = comes();
        ASSERT_TRUE(client->send(type, static_cast<std::uint64_t>(request), bytes_of("5")));
        if (type == Type::kIdentify) {
            ASSERT_TRUE(client->send(Type::kProve, 0, bytes_of("5")));
        }
        EXPECT_NE(refusal_of(*client).find("does not say who it is"), std::string::npos);
    }
    EXPECT_NE(stop().find("does not say who it is"), std::string::npos) << report_;
}

TEST_F(NewcomersTest, what_is_no_frame_or_too_long_ends_it_before_memory_is_taken) {
    start();
    const wire::HeaderBytes too_long = wire::encode(wire::Header{Type::kIdentify, 1 << 20, 0}), nothing{};
    for (const wire::HeaderBytes& header : {too_long, nothing}) {
        const auto client = comes();
        const std::array<io::Bytes, 1> sent{io::Bytes(header)};
        ASSERT_TRUE(client->socket().send(sent));
        EXPECT_FALSE(client->receive());
    }
    EXPECT_NE(stop().find("too long"), std::string::npos) << report_;
}

TEST_F(NewcomersTest, one_that_ends_in_the_midst_of_a_frame_is_told_of_and_one_that_says_nothing_is_not) {
    start();
    {
        const auto cut = comes(), silent = comes();
        const wire::HeaderBytes header = wire::encode(wire::Header{Type::kIdentify, 100, 0});
        const std::array<io::Bytes, 1> half{io::Bytes(header).first(20)};
        ASSERT_TRUE(cut->socket().send(half));
    }
    const auto next = comes();
    ASSERT_TRUE(next->send(Type::kIdentify, 0, bytes_of("3")));
    EXPECT_EQ(identified(), "3");
    EXPECT_EQ(stop(), "a client was not admitted: the other side has closed the connection\n");
}

TEST_F(NewcomersTest, one_that_says_nothing_in_its_time_has_to_go) {
    start({.refusal = {}, .report = {}, .identifying = 1ms});
    const auto client = comes();
    EXPECT_EQ(client->receive().status().code(), Code::kNotFound);
    EXPECT_EQ(stop(), "a client was not admitted: it has not said who it is\n");
}

TEST_F(NewcomersTest, who_is_refused_and_says_nothing_has_to_go_too) {
    start({.refusal = {}, .report = {}, .refusing = 1ms});
    EXPECT_EQ(comes("no")->receive().status().code(), Code::kNotFound);
}

TEST_F(NewcomersTest, a_thousand_that_say_nothing_hold_up_nobody) {
    start({.refusal = {}, .report = {}, .most = 20, .identifying = 1h});
    std::vector<std::unique_ptr<wire::Connection>> silent;
    for (int i = 0; i < 1000; ++i) silent.push_back(comes());
    for (const std::string user : {"1", "2", "3"}) {
        const auto client = comes();
        ASSERT_TRUE(client->send(Type::kIdentify, 0, bytes_of(user)));
        EXPECT_EQ(identified(), user);
    }
    for (std::size_t i = 0; i < 1000 - 20; ++i)
        EXPECT_EQ(silent[i]->receive().status().code(), Code::kNotFound) << "it was there for longer than others";
    for (std::size_t i = 1000 - 17; i < 1000; ++i) EXPECT_FALSE(silent[i]->socket().hung_up());
    silent.clear();
    stop();
}

TEST_F(NewcomersTest, once_nobody_comes_any_more_the_asked_are_dropped_and_the_refused_still_hear_why) {
    start({.refusal = {}, .report = {}, .identifying = 1h, .refusing = 1h});
    const auto asked = comes(), refused = comes("it ends");
    close_channel();
    EXPECT_EQ(asked->receive().status().code(), Code::kNotFound);
    ASSERT_TRUE(refused->send(Type::kHello, 1, wire::encode(wire::Hello{})));
    EXPECT_EQ(refusal_of(*refused), "it ends");
    EXPECT_EQ(stop(), "");
}

// As a user's process does that cannot begin.
TEST_F(NewcomersTest, all_that_come_without_words_of_their_own_hear_those_for_all) {
    start({.refusal = "its staging area cannot be made", .report = {}}, false);
    const auto one = comes(), other = comes("more");
    ASSERT_TRUE(one->send(Type::kHello, 1, wire::encode(wire::Hello{})));
    EXPECT_EQ(refusal_of(*one), "its staging area cannot be made");
    ASSERT_TRUE(other->send(Type::kIdentify, 0, bytes_of("5")));
    ASSERT_TRUE(other->send(Type::kProve, 0, bytes_of("5")));
    EXPECT_EQ(refusal_of(*other), "more");
    EXPECT_EQ(stop(), "");
}

TEST(PassedSocket, what_was_passed_before_the_receiver_takes_no_more_still_arrives) {
    const auto ends = io::make_channel();
    ASSERT_TRUE(ends);
    const auto [sender, receiver] = ends.value();
    EXPECT_TRUE(io::pass(sender, nullptr, "a note"));
    EXPECT_TRUE(io::pass(sender, nullptr, std::string(2 * io::kNoteMax, 'x')));
    io::take_no_more(receiver);
    EXPECT_EQ(io::pass(sender, nullptr, "").sys_errno(), EPIPE);
    const auto first = io::receive_passed(receiver), second = io::receive_passed(receiver),
               third = io::receive_passed(receiver);
    ASSERT_TRUE(first && first.value() && second && second.value());
    EXPECT_EQ(first.value()->note, "a note");
    EXPECT_EQ(first.value()->socket, nullptr);
    EXPECT_EQ(second.value()->note, std::string(io::kNoteMax, 'x'));
    ASSERT_TRUE(third) << third.status().message();
    EXPECT_FALSE(third.value());
    ::close(sender);
    ::close(receiver);
}

}   // namespace
}   // namespace forebay::server
