// Memory that a client exposes to its server: bytes come through it as through the socket, and nobody is harmed by what
// is wrong with it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "io/shared_memory.h"
#include "support/server_fixture.h"
#include "wire/connection.h"
#include "wire/exposed_memory.h"

namespace forebay::server {
namespace {

// So many of them this process has mapped: a client, and the server in it.
int exposed_memories() {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("/memfd:forebay") != std::string::npos;
    return count;
}

class ExposedMemory : public StagingServer {};

TEST_F(ExposedMemory, large_writes_and_reads_come_through_it) {
    start();
    const std::string path = make_file("file");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    EXPECT_EQ(exposed_memories(), 0);
    Content model;
    std::mt19937_64 random(1);
    write_until_exposed(*file.value(), model, random);
    EXPECT_EQ(exposed_memories(), 2);
    Content got(model.size());
    ASSERT_EQ(file.value()->read_at(0, got).value(), model.size());
    ASSERT_TRUE(got == model);
    drive(*file.value(), model, random, 300);
    ASSERT_TRUE(file.value()->close());
    EXPECT_TRUE(content(path) == model);
    file.value().reset();
    stop();
    EXPECT_EQ(exposed_memories(), 0);
}

TEST_F(ExposedMemory, readers_beside_the_writer_have_their_own) {
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
    EXPECT_EQ(exposed_memories(), 2);
    ASSERT_TRUE(all_of(*reader.value()) == committed);
    ASSERT_TRUE(all_of(*reader.value()) == committed);
    EXPECT_EQ(exposed_memories(), 4);
    write_until_exposed(*file.value(), model, random);
    ASSERT_TRUE(all_of(*reader.value()) == committed);
    ASSERT_TRUE(file.value()->close());
    EXPECT_TRUE(content(path) == model);
}

// A client that speaks the protocol by hand, and has opened `path` for writing.
class RawClient {
  public:
    RawClient(const io::Address& address, const std::string& path) : connection_(io::Socket::connect(address).value()) {
        (void)connection_.socket().set_patience(std::chrono::seconds(60), std::chrono::seconds(60));
        EXPECT_EQ(ask(wire::Type::kHello, wire::encode(wire::Hello{})), wire::Type::kWelcome);
        const wire::Open message{false, false, io::identify(path).value(), path, wire::Purpose::kWrite, {}, {}};
        EXPECT_EQ(ask(wire::Type::kOpen, wire::encode(message)), wire::Type::kOpened);
    }
    // The type of the answer; HELLO, which is none: the session has ended.
    wire::Type ask(wire::Type type, io::Bytes payload) {
        return connection_.send(type, ++request_, payload) ? answer() : wire::Type::kHello;
    }
    wire::Type expose(const io::SharedMemory& memory) {
        return connection_.expose(++request_, memory) ? answer() : wire::Type::kHello;
    }
    // As `expose` sends it, with another descriptor, and another size.
    wire::Type expose(int number, std::size_t bytes) {
        const wire::Payload payload = wire::encode_size(bytes);
        const auto header = wire::encode(wire::Header{wire::Type::kExpose, 8, ++request_});
        const std::array<io::Bytes, 1> first{io::Bytes(header)}, second{io::Bytes(payload)};
        const bool sent = connection_.socket().send(first) && connection_.socket().send(second, number);
        if (number >= 0) ::close(number);
        return sent ? answer() : wire::Type::kHello;
    }

  private:
    wire::Type answer() {
        const auto frame = connection_.receive();
        return frame ? frame.value().header.type : wire::Type::kHello;
    }
    wire::Connection connection_;
    std::uint64_t request_ = 0;
};

constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;

// Bytes of memory that are there.
std::uint64_t taken(int number) {
    struct stat facts{};
    EXPECT_EQ(::fstat(number, &facts), 0);
    return static_cast<std::uint64_t>(facts.st_blocks) * 512;
}

int sealed(std::size_t bytes, unsigned seals) {
    const int number = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(::ftruncate(number, static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(::fcntl(number, F_ADD_SEALS, seals), 0);
    return number;
}

TEST_F(ExposedMemory, what_is_no_sealed_memory_is_refused_and_the_session_goes_on) {
    start();
    RawClient client(address_, make_file("file"));
    EXPECT_EQ(client.expose(-1, 4096), wire::Type::kFailed);
    EXPECT_EQ(client.expose(sealed(4096, 0), 4096), wire::Type::kFailed);
    EXPECT_EQ(client.expose(sealed(4096, F_SEAL_SHRINK), 8192), wire::Type::kFailed);
    EXPECT_EQ(client.expose(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 4096), wire::Type::kFailed);
    EXPECT_EQ(client.expose(sealed(4096, kSeals | F_SEAL_WRITE), 4096), wire::Type::kFailed);
    EXPECT_EQ(client.expose(sealed(4096, kSeals | F_SEAL_FUTURE_WRITE), 4096), wire::Type::kFailed);
    EXPECT_EQ(client.expose(sealed(4096, F_SEAL_SHRINK), 4096), wire::Type::kFailed);
    EXPECT_EQ(client.expose(sealed(4096, F_SEAL_SEAL), 4096), wire::Type::kFailed);
    EXPECT_EQ(client.expose(sealed(4096, kSeals), 4096), wire::Type::kDone);
    EXPECT_EQ(client.ask(wire::Type::kCommit, {}), wire::Type::kDone);
    // More than a server maps ends it.
    EXPECT_EQ(client.expose(sealed(16 << 20, kSeals), 16 << 20), wire::Type::kHello);
}

// Its pages count as the server's memory: the client has touched none of them.
TEST_F(ExposedMemory, what_the_server_has_taken_of_it_goes_with_the_session) {
    start();
    const std::string path = make_file("file");
    const int number = sealed(1 << 20, kSeals), later = sealed(1 << 20, kSeals);
    {
        RawClient client(address_, path);
        EXPECT_EQ(client.expose(::dup(number), 1 << 20), wire::Type::kDone);
        const auto request = wire::encode(wire::ReadExposed{{0, 1 << 20}, 0});
        EXPECT_EQ(client.ask(wire::Type::kReadExposed, request), wire::Type::kDone);
        EXPECT_EQ(taken(number), 1u << 20);
        EXPECT_EQ(client.expose(::dup(later), 1 << 20), wire::Type::kDone);
        EXPECT_EQ(taken(number), 0u);
        EXPECT_EQ(client.ask(wire::Type::kReadExposed, request), wire::Type::kDone);
        EXPECT_EQ(taken(later), 1u << 20);
    }
    const auto next = open(path);   // once that session has ended
    ASSERT_TRUE(next) << next.status().message();
    EXPECT_EQ(taken(later), 0u);
    ::close(number);
    ::close(later);
}

// It may have cleared what it had brought.
TEST_F(ExposedMemory, what_a_server_has_brought_counts_while_it_is_there) {
    const auto memory = io::SharedMemory::create(4096);
    ASSERT_TRUE(memory) << memory.status().message();
    memory.value()->bytes()[7] = std::byte{7};
    std::array<int, 2> pair{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    const wire::Connection here(std::make_unique<io::Socket>(pair[0]));
    io::Socket there(pair[1]);
    Content got(8);
    EXPECT_TRUE(here.copy_exposed(*memory.value(), got));
    EXPECT_EQ(got[7], std::byte{7});
    there.shut_down();
    memory.value()->clear();
    EXPECT_EQ(memory.value()->bytes()[7], std::byte{0});
    EXPECT_EQ(here.copy_exposed(*memory.value(), got).sys_errno(), ECONNRESET);
}

TEST_F(ExposedMemory, a_request_beyond_it_ends_the_session) {
    start();
    const std::vector<wire::Part> part{{0, 4096, wire::Class::kRaw}};
    const auto write_at = [&](std::uint64_t position) { return wire::encode_exposed(position, part); };
    const auto read_at = [&](std::uint64_t position) { return wire::encode(wire::ReadExposed{{0, 4096}, position}); };
    using Request = std::pair<wire::Type, wire::Payload>;
    const std::vector<Request> wrong{{wire::Type::kWriteExposed, write_at(61'441)},
                                     {wire::Type::kWriteExposed, write_at(~std::uint64_t{0})},
                                     {wire::Type::kReadExposed, read_at(61'441)},
                                     {wire::Type::kReadExposed, read_at(~std::uint64_t{0})}};
    int number = 0;
    for (const auto& [type, payload] : wrong) {
        RawClient client(address_, make_file("file" + std::to_string(number++)));
        auto memory = io::SharedMemory::create(65'536);
        ASSERT_TRUE(memory) << memory.status().message();
        ASSERT_EQ(client.expose(*memory.value()), wire::Type::kDone);
        memory.value()->bytes()[61'440] = std::byte{9};
        ASSERT_EQ(client.ask(wire::Type::kWriteExposed, write_at(61'440)), wire::Type::kDone);
        ASSERT_EQ(client.ask(wire::Type::kReadExposed, read_at(0)), wire::Type::kDone);
        EXPECT_EQ(memory.value()->bytes()[0], std::byte{9});
        EXPECT_EQ(client.ask(type, payload), wire::Type::kHello);
    }
    RawClient without(address_, make_file("without"));
    EXPECT_EQ(without.ask(wire::Type::kWriteExposed, write_at(0)), wire::Type::kHello);
}

}   // namespace
}   // namespace forebay::server
