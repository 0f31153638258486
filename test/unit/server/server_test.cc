// A staging server in this process, and files that are written through it: compared with a plain byte array; clients
// that send what they must not.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/open_existing.h"
#include "io/posix_file.h"
#include "support/seeds.h"
#include "support/server_fixture.h"
#include "wire/commit_stream.h"
#include "wire/remote_file.h"
#include "wire/snapshot_file.h"

namespace forebay::server {
namespace {

TEST_F(StagingServer, a_file_written_through_it_equals_a_byte_array) {
    start();
    for (const auto seed : test::seeds("server.model", 6)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        const std::string path = make_file("file" + std::to_string(seed));
        Content model;
        for (int opening = 0; opening < 3; ++opening) {
            auto file = open(path);
            ASSERT_TRUE(file) << file.status().message();
            ASSERT_EQ(file.value()->size().value(), model.size());
            drive(*file.value(), model, random, 150);
            ASSERT_TRUE(file.value()->close());
            ASSERT_TRUE(content(path) == model);
            // Now it is read as it is.
            Content got(model.size());
            ASSERT_EQ(file.value()->read_at(0, got).value(), model.size());
            ASSERT_TRUE(got == model);
        }
    }
    stop();
    EXPECT_THAT(left(), testing::IsEmpty());
}

// The log takes a fraction of what is written: the server stops answering, and the client waits for credit.
TEST_F(StagingServer, a_full_log_stops_its_client_and_no_byte_is_lost) {
    start(4 << 20, 1);
    const std::string path = make_file("large");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    std::mt19937_64 random(1);
    const Content block = random_bytes(random, 1 << 20);
    for (std::uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(file.value()->write_at(i << 20, block));
    ASSERT_TRUE(file.value()->close());
    const Content got = content(path);
    ASSERT_EQ(got.size(), 64u << 20);
    for (std::size_t i = 0; i < 64; ++i)
        ASSERT_TRUE(std::equal(block.begin(), block.end(), got.begin() + static_cast<std::ptrdiff_t>(i << 20)));
}

TEST_F(StagingServer, a_client_that_goes_leaves_the_last_commit) {
    start();
    for (const auto seed : test::seeds("server.abandon", 6)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        const std::string path = make_file("file" + std::to_string(seed));
        Content committed;
        for (int opening = 0; opening < 3; ++opening) {
            auto file = open(path);   // waits for the end of the one before
            ASSERT_TRUE(file) << file.status().message();
            ASSERT_EQ(file.value()->size().value(), committed.size());
            drive(*file.value(), committed, random, 60);
            ASSERT_TRUE(file.value()->commit());
            Content lost = committed;
            for (int i = 0; i < 40; ++i) {
                const Content bytes = random_bytes(random, 1 + random() % 5000);
                ASSERT_TRUE(file.value()->write_at(random() % (3 << 20), bytes));
            }
            ASSERT_TRUE(file.value()->size());
            (void)file.value()->read_at(0, lost);   // all has been sent
        }
        auto file = open(path);
        ASSERT_TRUE(file) << file.status().message();
        ASSERT_TRUE(content(path) == committed);
        ASSERT_TRUE(file.value()->close());
        ASSERT_TRUE(content(path) == committed);
    }
    stop();
    EXPECT_THAT(left(), testing::IsEmpty());
}

TEST_F(StagingServer, one_client_writes_a_file_at_a_time_and_a_missing_one_is_told) {
    start();
    const auto missing = [&] {
        const std::string path = make_file("moved");
        auto opened = io::open_existing(path);
        wire::RemoteFile::Setup setup{
            {address_, 60}, io::make_posix_file(opened.value().descriptor, path), false, false};
        std::filesystem::remove(path);
        return wire::RemoteFile::open(setup).status();
    }();
    EXPECT_EQ(missing.code(), Code::kUnsupported) << missing.message();
    const std::string path = make_file("file");
    auto first = open(path);
    ASSERT_TRUE(first);
    impatient_ = true;
    const auto second = open(path);
    impatient_ = false;
    ASSERT_FALSE(second);
    EXPECT_EQ(second.status().sys_errno(), EBUSY) << second.status().message();
    EXPECT_TRUE(first.value()->close());
}

// One reader opens commit after commit, and reads old ones again, while the writer goes on; a second one reads without
// a pause.
TEST_F(StagingServer, a_reader_sees_one_commit_whatever_is_written_meanwhile) {
    start(512 << 20);
    for (const auto seed : test::seeds("server.readers", 3)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        const std::string path = make_file("file" + std::to_string(seed));
        Content model, committed;
        auto file = open(path);
        ASSERT_TRUE(file) << file.status().message();
        EXPECT_EQ(open_to_read(path).status().code(), Code::kUnavailable) << "nothing has been committed";
        ASSERT_TRUE(file.value()->write_at(0, random_bytes(random, 1'000'000)));
        ASSERT_TRUE(file.value()->resize(0));
        drive(*file.value(), model, random, 30, &committed);
        ASSERT_TRUE(file.value()->write_at(5, random_bytes(random, 10)));
        model.resize(std::max<std::size_t>(model.size(), 15));
        ASSERT_TRUE(file.value()->read_at(5, io::MutableBytes(model).subspan(5, 10)));
        ASSERT_TRUE(file.value()->commit());
        committed = model;
        struct Reader {
            std::unique_ptr<wire::SnapshotFile> file;
            Content bytes;
        };
        std::vector<Reader> readers;
        for (int round = 0; round < 20; ++round) {
            drive(*file.value(), model, random, static_cast<int>(random() % 30), &committed);
            if (!committed.empty()) {
                auto reader = open_to_read(path);
                ASSERT_TRUE(reader) << reader.status().message();
                if (readers.size() == 4) readers.erase(readers.begin() + static_cast<std::ptrdiff_t>(random() % 4));
                readers.push_back({std::move(reader).value(), committed});
            }
            const Reader* const steady = readers.empty() ? nullptr : &readers.front();
            std::atomic<bool> over{false};
            std::jthread beside;
            if (steady != nullptr)
                beside = start_background_thread([steady, &over] {
                    do EXPECT_TRUE(all_of(*steady->file) == steady->bytes);
                    while (!over);
                });
            drive(*file.value(), model, random, 10, &committed);
            over = true;
            if (beside.joinable()) beside.join();
            for (const Reader& reader : readers) ASSERT_TRUE(all_of(*reader.file) == reader.bytes);
        }
        ASSERT_TRUE(file.value()->close());
        ASSERT_TRUE(content(path) == model);
        for (const Reader& reader : readers) ASSERT_TRUE(all_of(*reader.file) == reader.bytes);
        EXPECT_EQ(open_to_read(path).status().code(), Code::kUnsupported) << "now it is read as it is";
        // The next writer.
        auto again = open(path, true);
        ASSERT_TRUE(again) << again.status().message();
        for (const Reader& reader : readers) ASSERT_TRUE(all_of(*reader.file) == reader.bytes);
        ASSERT_TRUE(again.value()->close());
    }
    stop();
    EXPECT_THAT(left(), testing::IsEmpty());
}

TEST_F(StagingServer, a_snapshot_that_would_take_too_much_is_given_up_and_the_writer_goes_on) {
    start(4 << 20, 1);   // 4 MiB for the file
    const std::string path = make_file("large");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    std::mt19937_64 random(1);
    const Content before = random_bytes(random, 8 << 20), after = random_bytes(random, 8 << 20);
    ASSERT_TRUE(file.value()->write_at(0, before));
    ASSERT_TRUE(file.value()->commit());
    ASSERT_TRUE(file.value()->drain());
    auto reader = open_to_read(path);
    ASSERT_TRUE(reader) << reader.status().message();
    ASSERT_TRUE(all_of(*reader.value()) == before);
    ASSERT_TRUE(file.value()->write_at(0, after));
    ASSERT_TRUE(file.value()->close());
    EXPECT_TRUE(content(path) == after);
    Content bytes(before.size());
    const auto read = reader.value()->read_at(0, bytes);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.status().code(), Code::kUnavailable) << read.status().message();
}

TEST_F(StagingServer, a_reader_keeps_the_last_commit_of_a_writer_that_goes) {
    start();
    const std::string path = make_file("file");
    std::mt19937_64 random(2);
    const Content first = random_bytes(random, 1 << 20), second = random_bytes(random, 1 << 20);
    std::unique_ptr<wire::SnapshotFile> earlier, last;
    {
        auto file = open(path);
        ASSERT_TRUE(file) << file.status().message();
        ASSERT_TRUE(file.value()->write_metadata_at(0, first));
        ASSERT_TRUE(file.value()->commit());
        earlier = open_to_read(path).value();
        ASSERT_TRUE(file.value()->write_metadata_at(0, second));
        ASSERT_TRUE(file.value()->commit());
        last = open_to_read(path).value();
        ASSERT_TRUE(file.value()->write_metadata_at(1000, first));
        ASSERT_TRUE(file.value()->size());
        Content sent(10);
        ASSERT_TRUE(file.value()->read_at(0, sent));
        EXPECT_TRUE(all_of(*earlier) == first);
    }
    auto next = open(path);   // waits for its end
    ASSERT_TRUE(next) << next.status().message();
    EXPECT_TRUE(content(path) == second);
    EXPECT_TRUE(all_of(*last) == second);
    Content bytes(first.size());
    EXPECT_FALSE(earlier->read_at(0, bytes));
    ASSERT_TRUE(next.value()->write_at(7, first));
    ASSERT_TRUE(next.value()->close());
    EXPECT_TRUE(all_of(*last) == second);
}

// A client that has gone while its OPEN waited may have written the file itself since.
TEST_F(StagingServer, an_open_whose_client_has_gone_empties_nothing) {
    start();
    const std::string path = make_file("file");
    std::mt19937_64 random(5);
    const Content bytes = random_bytes(random, 100'000);
    auto writer = open(path);
    ASSERT_TRUE(writer) << writer.status().message();
    ASSERT_TRUE(writer.value()->write_at(0, bytes));
    {
        wire::Connection waits(io::Socket::connect(address_).value());
        ASSERT_TRUE(waits.send(wire::Type::kHello, 1, wire::encode(wire::Hello{})));
        ASSERT_TRUE(waits.receive());
        const wire::Open request{true, false, io::identify(path).value(), path, wire::Purpose::kWrite, {}, {}};
        ASSERT_TRUE(waits.send(wire::Type::kOpen, 2, wire::encode(request)));
    }
    ASSERT_TRUE(writer.value()->close());
    stop();
    EXPECT_TRUE(content(path) == bytes);
}

TEST_F(StagingServer, a_server_that_hangs_up_may_open_the_file_yet) {
    const std::string path = make_file("file");
    const auto opened = io::open_existing(path);
    const auto open_to_empty = [&] {
        wire::RemoteFile::Setup setup{
            {address_, 60}, io::make_posix_file(opened.value().descriptor, path), true, false};
        const Status why = wire::RemoteFile::open(setup).status();
        return std::pair(why.code(), setup.unanswered);
    };
    EXPECT_EQ(open_to_empty(), std::pair(Code::kNotFound, false));
    EXPECT_EQ(open_to_read(path).status().code(), Code::kNotFound);
    auto listener = io::Listener::open(address_);
    ASSERT_TRUE(listener) << listener.status().message();
    // Hangs up at once, after HELLO, after OPEN, and after OPEN refuses.
    const auto serves = [&](int frames, bool refuses) {
        return start_background_thread([&, frames, refuses] {
            wire::Connection connection(listener.value()->accept(wake_[0]).value());
            if (frames >= 1) {
                EXPECT_TRUE(connection.receive());
            }
            if (frames >= 2) {
                const wire::Welcome welcome{wire::kVersion, 64, 8 << 20, 1};
                EXPECT_TRUE(connection.send(wire::Type::kWelcome, 1, wire::encode(welcome)));
                EXPECT_TRUE(connection.receive());
            }
            if (refuses) {
                EXPECT_TRUE(connection.send(wire::Type::kFailed, 2, wire::encode(Status(Code::kUnsupported, "no"))));
            }
        });
    };
    for (const int frames : {0, 1, 2}) {
        SCOPED_TRACE(frames);
        std::jthread server = serves(frames, false);
        const auto [code, unanswered] = open_to_empty();
        server.join();
        EXPECT_NE(code, Code::kOk);
        EXPECT_NE(code, Code::kNotFound);
        EXPECT_EQ(unanswered, frames == 2);
        server = serves(frames, false);
        const Code reader = open_to_read(path).status().code();
        server.join();
        EXPECT_NE(reader, Code::kOk);
        EXPECT_NE(reader, Code::kNotFound);
    }
    std::jthread server = serves(2, true);
    EXPECT_EQ(open_to_empty(), std::pair(Code::kUnsupported, false));
}

// It cannot bring the file home itself.
TEST_F(StagingServer, a_client_that_sees_no_log_waits_until_the_next_server_has_room) {
    start(64 << 20, 1);
    const std::string path = make_file("file"), another = make_file("another");
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    const Content one(1000, std::byte{1}), two(1000, std::byte{2});
    ASSERT_TRUE(file.value()->write_at(0, one) && file.value()->commit() && file.value()->write_at(1000, two));
    end_at_once();
    start(64 << 20, 1);
    auto other = open(another);
    ASSERT_TRUE(other) << other.status().message();
    std::jthread waiting([&] { EXPECT_TRUE(file.value()->commit()); });
    ASSERT_TRUE(other.value()->close());
    waiting.join();
    ASSERT_TRUE(file.value()->close());
    Content both = one;
    put(both, 1000, two);
    EXPECT_TRUE(content(path) == both);
}

TEST_F(StagingServer, its_end_does_not_wait_for_readers_and_followers) {
    start();
    const std::string path = make_file("file");
    const Content bytes(1000, std::byte{7});
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    ASSERT_TRUE(file.value()->write_at(0, bytes));
    ASSERT_TRUE(file.value()->commit());
    auto reader = open_to_read(path);
    ASSERT_TRUE(reader) << reader.status().message();
    auto follower = wire::CommitStream::open(address_, path, io::identify(path).value(), 60);
    ASSERT_TRUE(follower) << follower.status().message();
    ASSERT_TRUE(file.value()->close());
    stop();
    Content got(bytes.size());
    EXPECT_FALSE(reader.value()->read_at(0, got));
    EXPECT_TRUE(content(path) == bytes);
}

TEST_F(StagingServer, a_follower_is_told_of_its_writers_end_although_another_one_writes_already) {
    start();
    const std::string path = make_file("file");
    const auto write = [&](wire::RemoteFile& file, std::uint64_t offset) {
        return file.write_at(offset, Content(1000, std::byte{1})).is_ok() && file.commit().is_ok();
    };
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    auto early = wire::CommitStream::open(address_, path, io::identify(path).value(), 60);
    ASSERT_TRUE(early) << early.status().message();
    ASSERT_TRUE(write(*file.value(), 0) && write(*file.value(), 500) && file.value()->close());
    auto next = open(path);
    ASSERT_TRUE(next) << next.status().message();
    ASSERT_TRUE(write(*next.value(), 2000));
    auto late = wire::CommitStream::open(address_, path, io::identify(path).value(), 60);
    ASSERT_TRUE(late) << late.status().message();
    using Writer = wire::Commits::Writer;
    const auto of_first = early.value().next(wake_[0]), of_next = late.value().next(wake_[0]);
    ASSERT_TRUE(of_first && of_next);
    EXPECT_EQ(of_first.value()->commits.size(), 2u);
    EXPECT_EQ(of_first.value()->writer, Writer::kClosed);
    EXPECT_EQ(of_next.value()->commits.size(), 1u);
    EXPECT_EQ(of_next.value()->writer, Writer::kWrites);
    ASSERT_TRUE(next.value()->close());
    EXPECT_EQ(late.value().next(wake_[0]).value()->writer, Writer::kClosed);
}

// The file is written up to a limit of this process.
TEST_F(StagingServer, readers_are_told_when_a_close_has_failed) {
    start();
    const std::string path = make_file("file");
    std::mt19937_64 random(6);
    const Content first = random_bytes(random, 1 << 20), second = random_bytes(random, 1 << 20);
    auto file = open(path);
    ASSERT_TRUE(file) << file.status().message();
    ASSERT_TRUE(file.value()->write_at(0, first));
    ASSERT_TRUE(file.value()->commit());
    ASSERT_TRUE(file.value()->drain());
    auto reader = open_to_read(path);
    ASSERT_TRUE(reader) << reader.status().message();
    EXPECT_TRUE(all_of(*reader.value()) == first);
    struct Limit {
        explicit Limit(rlim_t most) {
            ::getrlimit(RLIMIT_FSIZE, &before);
            const rlimit lower{most, before.rlim_max};
            ::setrlimit(RLIMIT_FSIZE, &lower);
        }
        ~Limit() {
            ::setrlimit(RLIMIT_FSIZE, &before);
            std::signal(SIGXFSZ, handled);
        }
        void (*const handled)(int) = std::signal(SIGXFSZ, SIG_IGN);
        rlimit before{};
    };
    {
        const Limit limit(128 << 20);
        ASSERT_TRUE(file.value()->write_at(200 << 20, second));
        ASSERT_FALSE(file.value()->drain());
        (void)file.value()->write_at(0, second);
        ASSERT_FALSE(file.value()->close());
    }
    Content bytes(first.size());
    const auto read = reader.value()->read_at(0, bytes);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.status().code(), Code::kUnavailable) << read.status().message();
}

// What a client may send at any time, and what nobody may.
class Attacker {
  public:
    Attacker(const io::Address& address, std::uint64_t seed)
        : connection_(io::Socket::connect(address).value()), random_(seed) {
        (void)connection_.socket().set_patience(std::chrono::seconds(60), std::chrono::seconds(60));
    }
    bool greet(const std::string& path, io::Identity identity, wire::Purpose purpose) {
        return ask(wire::Type::kHello, wire::encode(wire::Hello{}), ++request_) &&
               ask(wire::Type::kOpen, wire::encode(wire::Open{false, false, identity, path, purpose, {}, {}}),
                   ++request_);
    }
    // Until the server ends the session.
    void attack() {
        for (int turn = 0; turn < 200; ++turn) {
            wire::Payload payload = any_payload();
            for (auto changes = random_() % 3; changes > 0 && !payload.empty(); --changes)
                payload[random_() % payload.size()] = static_cast<std::byte>(random_());
            if (random_() % 6 == 0) payload.resize(random_() % (payload.size() + 1));
            auto type = static_cast<wire::Type>(1 + random_() % 21);
            if (random_() % 2) type = wire::Type::kWrite;
            if (!ask(type, payload)) return;
        }
        const Content noise = random_bytes(random_, random_() % 300);
        const std::array<io::Bytes, 1> pieces{io::Bytes(noise)};
        (void)connection_.socket().send(pieces);
    }

  private:
    bool ask(wire::Type type, io::Bytes payload) {
        return ask(type, payload, random_() % 50 == 0 ? random_() : ++request_);
    }
    bool ask(wire::Type type, io::Bytes payload, std::uint64_t id) {
        return connection_.send(type, id, payload).is_ok() && connection_.receive().is_ok();
    }
    wire::Payload any_payload() {
        switch (random_() % 4) {
            case 0: return wire::encode(wire::Read{random_() % 100'000, static_cast<std::uint32_t>(random_() % 5000)});
            case 1: return wire::encode_size(random_() % 100'000);
            case 2: return {};
            default: {
                const std::array<wire::Part, 2> parts{
                    {{random_() % 100'000, 100, wire::Class::kRaw}, {random_() % 100'000, 50, wire::Class::kMetadata}}};
                wire::Payload payload = wire::encode(parts);
                payload.insert(payload.end(), 150, std::byte{1});
                return payload;
            }
        }
    }

    wire::Connection connection_;
    std::mt19937_64 random_;
    std::uint64_t request_ = 0;
};

TEST_F(StagingServer, a_client_that_sends_what_it_must_not_ends_its_own_session_only) {
    start(256 << 20, 64);
    const std::string good_path = make_file("good");
    auto good = open(good_path);
    ASSERT_TRUE(good);
    Content model;
    std::mt19937_64 random(3);
    for (const auto seed : test::seeds("server.attack", 12)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const std::string path = make_file("bad" + std::to_string(seed));
        Attacker attacker(address_, seed);
        if (seed % 4 != 0) {
            ASSERT_TRUE(attacker.greet(path, io::identify(path).value(), wire::Purpose::kWrite));
        } else if (seed % 8 != 0 && good.value()->commit()) {
            const auto purpose = seed % 3 == 0 ? wire::Purpose::kRead : wire::Purpose::kFollow;
            (void)attacker.greet(good_path, io::identify(good_path).value(), purpose);
        }
        attacker.attack();
        drive(*good.value(), model, random, 20);
    }
    ASSERT_TRUE(good.value()->close());
    EXPECT_TRUE(content(good_path) == model);
}

}   // namespace
}   // namespace forebay::server
