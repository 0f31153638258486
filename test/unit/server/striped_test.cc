// Files that clients have staged, and that several servers write: each stripe one of them.
#include "wire/striped_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/served_lock.h"
#include "support/seeds.h"
#include "support/server_fixture.h"

namespace forebay::server {
namespace {

constexpr std::size_t kStripe = 64 << 10;

// A server beside others, with a staging area of its own.
class OneServer : public StagingServer {
  public:
    void TestBody() override {}
    using StagingServer::address_;
    using StagingServer::end_at_once;
    using StagingServer::server_;
    using StagingServer::start;
    using StagingServer::stop;
};

class StripedFiles : public testing::Test {
  protected:
    static constexpr std::size_t kServers = 3;

    void SetUp() override {
        for (auto& each : servers_) {
            each = std::make_unique<OneServer>();
            each->start();
        }
        std::string pattern = (std::filesystem::temp_directory_path() / "forebay-striped-XXXXXX").string();
        folder_ = ::mkdtemp(pattern.data());
        path_ = folder_ + "/file";
        std::ofstream(path_).flush();
    }
    ~StripedFiles() override { std::filesystem::remove_all(folder_); }

    std::unique_ptr<wire::StripedFile> open() {
        auto opened = io::open_existing(path_);
        EXPECT_TRUE(opened) << opened.status().message();
        const std::shared_ptr<io::Descriptor> descriptor = opened.value().descriptor;
        std::vector<wire::StripedFile::Part> parts;
        for (std::uint32_t number = 0; number < kServers; ++number) {
            std::unique_ptr<io::File> file = io::make_posix_file(descriptor, path_);
            wire::DrainFile::Setup setup{servers_[number]->address_, number, false, false, 4, 60};
            setup.await_unserved = [descriptor, number] {
                return io::await_unserved(*descriptor, std::chrono::seconds(5), number);
            };
            setup.gone = [this](const Status&) { ++gone_; };
            auto drain = wire::DrainFile::open(std::move(setup), file, true);
            EXPECT_TRUE(drain) << drain.status().message();
            parts.push_back({"server" + std::to_string(number), drain ? std::move(drain).value() : nullptr});
        }
        auto striped = std::make_unique<wire::StripedFile>(io::make_posix_file(descriptor, path_), std::move(parts),
                                                           opened.value().identity.inode, kStripe);
        striped->count_served(served_);
        return striped;
    }
    Content content() const {
        std::ifstream file(path_, std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        Content result(bytes.size());
        std::ranges::transform(bytes, result.begin(), [](char c) { return static_cast<std::byte>(c); });
        return result;
    }

    std::array<std::unique_ptr<OneServer>, kServers> servers_;
    std::string folder_, path_;
    std::atomic<std::uint64_t> served_{0};
    std::atomic<int> gone_{0};
};

// Several clients, as the nodes of a program: each byte is one thread's.
TEST_F(StripedFiles, what_several_clients_write_goes_to_all_servers_and_equals_a_byte_array) {
    for (const auto seed : test::seeds("striped.model", 4)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        constexpr std::size_t kClients = 2, kThreads = 2;
        const OwnUnits own_units{kClients * kThreads, 150'000, 12};
        Content model(own_units.bytes());
        std::vector<std::unique_ptr<wire::StripedFile>> clients;
        for (std::size_t i = 0; i < kClients; ++i) clients.push_back(open());
        ASSERT_TRUE(clients[0]->resize(0));
        ASSERT_TRUE(clients[0]->resize(model.size()));
        served_ = 0;
        std::atomic<std::uint64_t> written{0};
        {
            std::vector<std::jthread> threads;
            for (std::size_t own = 0; own < kClients * kThreads; ++own)
                threads.emplace_back([&, own] {
                    std::mt19937_64 random(seed + own);
                    wire::StripedFile& file = *clients[own / kThreads];
                    for (int turn = 0; turn < 30; ++turn) {
                        const auto [at, bytes] = own_units.write_one(
                            random, own, model, [&](std::uint64_t where, std::span<const io::Bytes> pieces) {
                                return file.write_gather_at(where, pieces);
                            });
                        Content got(bytes.size());
                        ASSERT_EQ(file.read_at(at, got).value(), got.size());
                        ASSERT_TRUE(got == bytes);
                        written += bytes.size();
                    }
                });
        }
        EXPECT_EQ(served_, written);
        ASSERT_TRUE(content() == model);
        for (const auto& client : clients) EXPECT_TRUE(client->leave());
    }
    for (const auto& each : servers_) {
        EXPECT_GT(each->server_->drained().requests, 0u);
        EXPECT_GT(each->server_->drained().bytes, 0u);
    }
    EXPECT_EQ(gone_, 0);
}

TEST_F(StripedFiles, a_server_that_ends_takes_its_own_stripes_from_the_servers_and_no_others) {
    auto file = open();
    std::mt19937_64 random(3);
    Content model;
    const auto write_all = [&] {
        model = random_bytes(random, 24 * kStripe + 17);
        ASSERT_TRUE(file->write_at(0, model));
        ASSERT_TRUE(content() == model);
    };
    write_all();
    EXPECT_EQ(served_, model.size());
    const std::uint64_t by_the_first = servers_[0]->server_->drained().bytes;
    servers_[0]->end_at_once();
    served_ = 0;
    write_all();
    EXPECT_EQ(gone_, 1);
    EXPECT_EQ(served_, model.size() - by_the_first);
    EXPECT_TRUE(file->sync());
    EXPECT_TRUE(file->leave());
}

TEST_F(StripedFiles, its_size_is_that_of_the_file) {
    auto file = open();
    std::mt19937_64 random(4);
    const Content bytes = random_bytes(random, 5 * kStripe);
    ASSERT_TRUE(file->write_at(kStripe / 2, bytes));
    EXPECT_EQ(file->size().value(), kStripe / 2 + bytes.size());
    ASSERT_TRUE(file->resize(kStripe + 3));
    EXPECT_EQ(file->size().value(), kStripe + 3);
    EXPECT_EQ(content().size(), kStripe + 3);
    Content got(2 * kStripe);
    EXPECT_EQ(file->read_at(0, got).value(), kStripe + 3);
    ASSERT_TRUE(file->resize(9 * kStripe));
    EXPECT_EQ(file->size().value(), 9 * kStripe);
}

// A client whose server has gone waits for that one's last write, and not for servers that have the file still.
TEST_F(StripedFiles, each_server_marks_the_file_by_its_own_number) {
    auto opened = io::open_existing(path_);
    ASSERT_TRUE(opened);
    io::Descriptor& descriptor = *opened.value().descriptor;
    const auto is_marked = [&](std::optional<std::uint32_t> server) {
        return !io::await_unserved(descriptor, std::chrono::milliseconds(0), server);
    };
    EXPECT_FALSE(is_marked({}));
    auto file = open();
    for (const std::uint32_t number : {0u, 1u, 2u}) EXPECT_TRUE(is_marked(number));
    EXPECT_FALSE(is_marked(3));
    EXPECT_FALSE(is_marked(io::kServersMax - 1));
    servers_[1]->end_at_once();
    EXPECT_TRUE(is_marked(0));
    EXPECT_FALSE(is_marked(1));
    EXPECT_TRUE(is_marked(2));
    EXPECT_TRUE(is_marked({}));
    // The last one that there may be is seen by who asks for any.
    ASSERT_TRUE(file->leave());
    file.reset();
    for (const std::size_t server : {0u, 2u}) servers_[server]->end_at_once();
    EXPECT_FALSE(is_marked({}));
    auto other = io::open_existing(path_);
    ASSERT_TRUE(io::mark_served(*other.value().descriptor, io::kServersMax - 1));
    EXPECT_TRUE(is_marked({}));
    EXPECT_FALSE(is_marked(0));
}

TEST(StripedFile, a_stripe_is_a_multiple_of_what_the_file_system_likes) {
    constexpr std::uint64_t kMiB = 1 << 20;
    EXPECT_EQ(wire::StripedFile::stripe_bytes_of(0), 4 * kMiB);
    EXPECT_EQ(wire::StripedFile::stripe_bytes_of(4096), 4 * kMiB);
    EXPECT_EQ(wire::StripedFile::stripe_bytes_of(kMiB), 4 * kMiB);
    EXPECT_EQ(wire::StripedFile::stripe_bytes_of(3 * kMiB), 6 * kMiB);
    EXPECT_EQ(wire::StripedFile::stripe_bytes_of(16 * kMiB), 16 * kMiB);
    EXPECT_EQ(wire::StripedFile::stripe_bytes_of(std::uint64_t{1} << 62), 4 * kMiB);
}

}   // namespace
}   // namespace forebay::server
