// Servers whose read caches are asked: what they give is what the file holds, and a server that gives nothing costs
// little and is left alone. The servers are played by threads of this process.
#include "wire/cache_servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/background_thread.h"
#include "io/socket.h"
#include "wire/connection.h"
#include "wire/home_server.h"

namespace forebay::wire {
namespace {

using namespace std::chrono_literals;
using Answer = CacheServers::Answer;

std::byte content_at(std::uint64_t offset) { return static_cast<std::byte>(offset * 7 / 3); }

// Speaks the protocol as a server does, unless it is told otherwise.
class PlayedServer {
  public:
    // What it does with a request, beside answering it: false, and the connection ends there.
    using Interfere = std::function<bool(Connection&, const Connection::Frame&)>;

    explicit PlayedServer(const std::string& path) : address_{.path = path} { EXPECT_EQ(::pipe(wake_.data()), 0); }
    ~PlayedServer() {
        stop();
        ::close(wake_[0]);
        ::close(wake_[1]);
    }
    void start() {
        auto listener = io::Listener::open(address_);
        ASSERT_TRUE(listener) << listener.status().message();
        listener_ = std::move(listener).value();
        thread_ = std::jthread([this] {
            for (;;) {
                auto socket = listener_->accept(wake_[0]);
                if (!socket || socket.value() == nullptr) return;
                ++connections_;
                auto connection = std::make_shared<Connection>(std::move(socket).value());
                const std::lock_guard lock(mutex_);
                open_.push_back(connection);
                sessions_.emplace_back([this, connection] { serve(*connection); });
            }
        });
    }
    void stop() {
        if (listener_ == nullptr) return;
        EXPECT_EQ(::write(wake_[1], "", 1), 1);
        thread_.join();
        char byte = 0;
        EXPECT_EQ(::read(wake_[0], &byte, 1), 1);
        for (const auto& connection : open_) connection->socket().shut_down();
        sessions_.clear();
        open_.clear();
        listener_.reset();
    }

    std::string replica_ = "/boot/1-2";
    Interfere interfere_;
    std::atomic<int> connections_{0}, opens_{0}, reads_{0};

  private:
    void serve(Connection& connection) {
        for (;;) {
            const auto frame = connection.receive();
            if (!frame || (interfere_ && !interfere_(connection, frame.value()))) break;
            const Header header = frame.value().header;
            if (header.type == Type::kHello) {
                (void)connection.send(Type::kWelcome, header.request, encode(Welcome{kVersion, 64, 8 << 20, 3}));
            } else if (header.type == Type::kOpen) {
                ++opens_;
                EXPECT_EQ(parse_open(frame.value().payload).value().purpose, Purpose::kReadCached);
                (void)connection.send(Type::kOpened, header.request, encode(Opened{1 << 30, replica_}));
            } else {
                ++reads_;
                const auto read = parse_read(frame.value().payload);
                if (!read) break;
                Payload bytes(read.value().bytes);
                for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = content_at(read.value().offset + i);
                (void)connection.send(Type::kData, header.request, bytes);
            }
        }
        connection.socket().shut_down();
    }

    const io::Address address_;
    std::array<int, 2> wake_{};
    std::unique_ptr<io::Listener> listener_;
    std::jthread thread_;
    std::mutex mutex_;
    std::vector<std::shared_ptr<Connection>> open_;
    std::vector<std::jthread> sessions_;
};

class CacheServersTest : public testing::Test {
  protected:
    CacheServersTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "forebay-peers-XXXXXX").string();
        folder_ = ::mkdtemp(pattern.data());
        played_ = std::make_unique<PlayedServer>(folder_ + "/0");
        make({});
    }
    ~CacheServersTest() override {
        servers_ = nullptr;
        played_ = nullptr;
        std::filesystem::remove_all(folder_);
    }
    void make(const CacheServers::Bounds& bounds) {
        auto made = CacheServers::create("unix:" + folder_ + "/0,unix:" + folder_ + "/1", "", bounds);
        ASSERT_TRUE(made) << made.status().message();
        servers_ = std::move(made).value();
    }
    CacheServers::File file() {
        CacheServers::File file;
        file.id = servers_->new_id();
        file.open.path = "/scratch/data.h5";
        file.open.purpose = Purpose::kReadCached;
        return file;
    }
    // Compares what was read.
    Answer read(const CacheServers::File& file, std::uint64_t offset, std::size_t bytes, std::size_t server = 0) {
        Payload into(bytes, std::byte{0xee});
        const Answer answer = servers_->read(server, file, "/boot/3-4", offset, into);
        for (std::size_t i = 0; answer == Answer::kYes && i < bytes; ++i)
            if (into[i] != content_at(offset + i)) {
                ADD_FAILURE() << "a wrong byte at " << i;
                break;
            }
        return answer;
    }

    std::string folder_;
    std::unique_ptr<PlayedServer> played_;
    std::shared_ptr<CacheServers> servers_;
};

TEST(HomeOfStripe, docs_have_the_same) {
    const std::vector<std::string> servers{"node1:5000", "node2:5000", "node3:5000"};
    std::vector<std::size_t> homes;
    for (std::uint64_t stripe = 0; stripe < 8; ++stripe) homes.push_back(home_of_stripe(servers, 77, stripe));
    EXPECT_THAT(homes, testing::ElementsAre(0, 1, 0, 0, 1, 1, 1, 1));
}

TEST(HomeOfStripe, the_order_of_the_names_does_not_matter_and_one_more_takes_only_its_own) {
    const std::vector<std::string> three{"a:1", "b:1", "c:1"}, turned{"c:1", "a:1", "b:1"},
        four{"a:1", "b:1", "c:1", "d:1"};
    std::array<int, 4> count{};
    for (std::uint64_t stripe = 0; stripe < 4000; ++stripe) {
        const std::string home = three[home_of_stripe(three, 5, stripe)];
        EXPECT_EQ(turned[home_of_stripe(turned, 5, stripe)], home);
        const std::size_t now = home_of_stripe(four, 5, stripe);
        EXPECT_TRUE(now == 3 || four[now] == home);
        ++count[now];
    }
    for (const int of_one : count) EXPECT_NEAR(of_one, 1000, 200);
}

TEST_F(CacheServersTest, names_that_are_none_are_refused) {
    for (const char* names : {"", "a:1,", ",a:1", "a:1,,b:1", "a:1,b:1,a:1"})
        EXPECT_EQ(CacheServers::create(names, "").status().code(), Code::kInvalidArgument) << names;
}

TEST_F(CacheServersTest, what_is_read_is_what_the_file_has_in_one_session) {
    played_->start();
    const auto one = file();
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, kDataMax, kDataMax + 1, 9 * kDataMax + 17})
        EXPECT_EQ(read(one, 12345, bytes), Answer::kYes);
    EXPECT_EQ(played_->connections_, 1);
    EXPECT_EQ(played_->opens_, 1);
}

TEST_F(CacheServersTest, files_take_turns_in_one_session) {
    played_->start();
    const auto one = file(), two = file();
    EXPECT_EQ(read(one, 0, 100), Answer::kYes);
    EXPECT_EQ(read(two, 0, 100), Answer::kYes);
    EXPECT_EQ(read(two, 5, 100), Answer::kYes);
    EXPECT_EQ(read(one, 0, 100), Answer::kYes);
    EXPECT_EQ(played_->connections_, 1);
    EXPECT_EQ(played_->opens_, 3);
}

TEST_F(CacheServersTest, threads_have_sessions_of_their_own_and_not_too_many) {
    played_->start();
    const auto one = file();
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < 12; ++thread)
        threads.emplace_back([&, thread] {
            for (std::uint64_t turn = 0; turn < 50; ++turn)
                EXPECT_EQ(read(one, thread * 1000 + turn, 5000), Answer::kYes);
        });
    threads.clear();
    EXPECT_LE(played_->connections_, static_cast<int>(CacheServers::kConnectionsMax));
    EXPECT_EQ(played_->reads_, 12 * 50);
}

TEST_F(CacheServersTest, a_server_of_the_same_replica_is_not_asked_unless_by_a_child) {
    played_->replica_ = "/boot/3-4";
    played_->start();
    const auto one = file();
    EXPECT_EQ(read(one, 0, 100), Answer::kOurs);
    EXPECT_EQ(played_->reads_, 0);
    Payload into(100);
    EXPECT_EQ(servers_->read(0, one, "", 0, into), Answer::kYes);
}

TEST_F(CacheServersTest, nobody_there_is_told_and_not_asked_again_at_once) {
    make({.pause_min = std::chrono::hours(1), .pause_max = std::chrono::hours(1)});
    const auto one = file();
    EXPECT_EQ(read(one, 0, 100), Answer::kFailed);
    played_->start();
    EXPECT_EQ(read(one, 0, 100), Answer::kNotAsked);
    EXPECT_EQ(played_->connections_, 0);
}

TEST_F(CacheServersTest, a_server_that_came_is_found_after_the_pause) {
    make({.pause_min = 0ns, .pause_max = 0ns});
    const auto one = file();
    EXPECT_EQ(read(one, 0, 100), Answer::kFailed);
    played_->start();
    EXPECT_EQ(read(one, 0, 100), Answer::kYes);
}

TEST_F(CacheServersTest, a_restarted_server_is_asked_at_once) {
    played_->start();
    const auto one = file();
    EXPECT_EQ(read(one, 0, 100), Answer::kYes);
    played_->stop();
    played_->start();
    EXPECT_EQ(read(one, 0, 100), Answer::kYes);
    EXPECT_EQ(played_->connections_, 2);
}

TEST_F(CacheServersTest, a_refusal_leaves_the_session_to_other_files) {
    played_->interfere_ = [&, first = true](Connection& connection, const Connection::Frame& frame) mutable {
        if (frame.header.type != Type::kOpen || !std::exchange(first, false)) return true;
        (void)connection.send(Type::kFailed, frame.header.request, encode(Status(Code::kUnsupported, "no")));
        const auto next = connection.receive();   // the other file's OPEN
        if (!next) return false;
        EXPECT_EQ(next.value().header.type, Type::kOpen);
        (void)connection.send(Type::kOpened, next.value().header.request, encode(Opened{1 << 30, "/b/1-1"}));
        const auto read = connection.receive();
        if (!read) return false;
        Payload bytes(parse_read(read.value().payload).value().bytes);
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = content_at(i);
        (void)connection.send(Type::kData, read.value().header.request, bytes);
        return false;
    };
    played_->start();
    const auto one = file(), two = file();
    EXPECT_EQ(read(one, 0, 100), Answer::kRefused);
    EXPECT_EQ(read(two, 0, 100), Answer::kYes);
    EXPECT_EQ(played_->connections_, 1);
}

// At each place where a server can die or lie: the answer is no, and the next connection works.
TEST_F(CacheServersTest, a_server_that_dies_or_lies_at_any_place_gives_no_bytes) {
    const std::vector<std::pair<std::string, std::function<void(Connection&, const Connection::Frame&)>>> faults{
        {"hangs up", [](Connection&, const Connection::Frame&) {}},
        {"answers another request",
         [](Connection& connection, const Connection::Frame& frame) {
             (void)connection.send(Type::kDone, frame.header.request + 5, {});
         }},
        {"answers with another kind",
         [](Connection& connection, const Connection::Frame& frame) {
             (void)connection.send(Type::kDone, frame.header.request, {});
         }},
        {"answers with less",
         [](Connection& connection, const Connection::Frame& frame) {
             (void)connection.send(Type::kData, frame.header.request, Payload(3));
         }},
        {"sends half a frame",
         [](Connection& connection, const Connection::Frame& frame) {
             const HeaderBytes header = encode(Header{Type::kData, 1000, frame.header.request});
             const std::array<io::Bytes, 1> pieces{io::Bytes(header)};
             (void)connection.socket().send(pieces);
         }},
        {"sends what is no frame",
         [](Connection& connection, const Connection::Frame&) {
             const Payload nothing(kHeaderBytes, std::byte{9});
             const std::array<io::Bytes, 1> pieces{io::Bytes(nothing)};
             (void)connection.socket().send(pieces);
         }},
    };
    make({.pause_min = 0ns, .pause_max = 0ns});
    for (const auto& [what, fault] : faults)
        for (const Type place : {Type::kHello, Type::kOpen, Type::kRead}) {
            SCOPED_TRACE(what + " at " + std::to_string(static_cast<int>(place)));
            std::atomic<bool> faulty{true};
            played_->interfere_ = [&, &fault = fault](Connection& connection, const Connection::Frame& frame) {
                if (!faulty || frame.header.type != place) return true;
                fault(connection, frame);
                return false;
            };
            played_->start();
            const auto one = file();
            EXPECT_EQ(read(one, 0, 3 * kDataMax), Answer::kFailed);
            faulty = false;
            EXPECT_EQ(read(one, 0, 3 * kDataMax), Answer::kYes);
            played_->stop();
        }
}

TEST_F(CacheServersTest, a_silent_server_is_waited_for_so_long_and_then_left_alone) {
    make({.answer = 1s, .pause_min = std::chrono::hours(1), .pause_max = std::chrono::hours(1)});
    std::mutex silence;
    std::unique_lock silent(silence);
    played_->interfere_ = [&](Connection&, const Connection::Frame& frame) {
        if (frame.header.type != Type::kRead) return true;
        const std::lock_guard lock(silence);
        return false;
    };
    played_->start();
    const auto one = file();
    EXPECT_EQ(read(one, 0, 100), Answer::kFailed);
    EXPECT_EQ(read(one, 0, 100), Answer::kNotAsked);
    EXPECT_EQ(played_->connections_, 1);
    silent.unlock();
    played_->stop();
}

TEST_F(CacheServersTest, a_forked_child_makes_connections_of_its_own) {
    played_->start();
    const auto one = file();
    EXPECT_EQ(read(one, 0, 100), Answer::kYes);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(read(one, 7, 5000) == Answer::kYes && !testing::Test::HasFailure() ? 0 : 1);
    int ended = -1;
    EXPECT_EQ(::waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(read(one, 9, 100), Answer::kYes);
    EXPECT_EQ(played_->connections_, 2);
}

TEST_F(CacheServersTest, peers_divide_a_range_by_its_homes) {
    played_->start();
    cache::PeersWanted wanted;
    wanted.version.identity = {1, 77};
    wanted.version.size = 64 * kHomeStripeBytes;
    wanted.path = "/scratch/data.h5";
    wanted.replica = "/boot/3-4";
    const auto peers = find_peers(servers_)(wanted);
    ASSERT_NE(peers, nullptr);
    std::vector<cache::Peers::Run> runs;
    const ByteRange range{4096, 64 * kHomeStripeBytes};
    ASSERT_EQ(peers->tell(range, 0, runs), cache::PeerAnswer::kYes);
    std::uint64_t at = range.begin;
    Payload bytes;
    for (const auto& run : runs) {
        EXPECT_EQ(run.range.begin, at);
        for (std::uint64_t stripe = at / kHomeStripeBytes; stripe * kHomeStripeBytes < run.range.end; ++stripe)
            EXPECT_EQ(run.holder, home_of_stripe(servers_->names(), 77, stripe));
        at = run.range.end;
        bytes.assign(run.range.size(), std::byte{0});
        const auto answer = peers->read(run.holder, run.range, bytes, 0);
        if (run.holder == 0) {
            EXPECT_EQ(answer, cache::PeerAnswer::kYes);
            EXPECT_EQ(bytes.back(), content_at(run.range.end - 1));
        } else {
            EXPECT_NE(answer, cache::PeerAnswer::kYes);   // nobody is there
        }
    }
    EXPECT_EQ(at, range.end);
    EXPECT_GT(runs.size(), 2u);
    wanted.path = "relative";
    EXPECT_EQ(find_peers(servers_)(wanted), nullptr);
}

}   // namespace
}   // namespace forebay::wire
