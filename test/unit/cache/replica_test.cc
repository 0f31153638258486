// What a replica does when its device fails, when owners die, and when its bytes are not what was stored.
#include "cache/replica.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "cache/replica_files.h"
#include "io/fault_file.h"
#include "io/forwarding_file.h"
#include "io/memory_file.h"
#include "io/posix_file.h"
#include "support/faults.h"
#include "support/forwarding_directory.h"
#include "support/scratch_folder.h"
#include "support/team_files.h"

namespace forebay::cache {
namespace {

using test::bytes_of;

// A file whose device loses its bytes from an offset on, once they are mapped.
class LosingFile final : public io::ForwardingFile {
  public:
    LosingFile(std::unique_ptr<io::File> file, std::uint64_t kept_bytes)
        : ForwardingFile(std::move(file)), kept_bytes_(kept_bytes) {}
    Result<std::unique_ptr<io::Mapping>> map(std::uint64_t offset, std::size_t length) override {
        auto mapping = file().map(offset, length);
        EXPECT_TRUE(file().resize(kept_bytes_));
        return mapping;
    }

  private:
    const std::uint64_t kept_bytes_;
};

// A folder in which maps lose their pages, and holds fail with an error.
class FailingFolder final : public test::ForwardingDirectory {
  public:
    FailingFolder(std::unique_ptr<io::Directory> folder, int& holds)
        : ForwardingDirectory(std::move(folder)), holds_(holds) {}
    Result<std::unique_ptr<io::File>> open_file(const std::string& name, io::OpenMode mode) override {
        auto file = ForwardingDirectory::open_file(name, mode);
        if (!file || name != kPresenceFile || !kept_bytes) return file;
        return std::unique_ptr<io::File>(std::make_unique<LosingFile>(std::move(file).value(), *kept_bytes));
    }
    Result<std::unique_ptr<io::Lock>> hold(const std::string& name) override {
        ++holds_;
        if (error != 0) return Status::from_errno(error, "hold");
        return ForwardingDirectory::hold(name);
    }

    std::optional<std::uint64_t> kept_bytes;   // none: all
    int error = 0;                             // 0: none

  private:
    int& holds_;
};

class Counting final : public Account {
  public:
    bool take(std::uint64_t bytes) noexcept override {
        if (taken + bytes > capacity) return false;
        taken += bytes;
        return true;
    }
    void give_back(std::uint64_t bytes) noexcept override { taken -= bytes; }
    void temporal_closed() noexcept override { ++temporal; }
    std::uint64_t taken = 0, capacity = std::uint64_t{1} << 40;
    int temporal = 0;
};

class ReplicaTest : public testing::Test {
  protected:
    static constexpr std::uint64_t kSize = 3 * kUnitBytes + 5000;

    std::unique_ptr<io::Directory> folder() {
        auto made = root_->create_directory("7-1");
        if (!made) made = root_->open_directory("7-1");
        return io::make_fault_directory(std::move(made).value(), faults_);
    }
    Result<std::shared_ptr<Replica>> open(const Keeping& keeping = {}) {
        return Replica::open(folder(), {{7, 1}, 1, 2, kSize, 3, 4}, {}, 1, account_, keeping);
    }
    Status fill(const std::shared_ptr<Replica>& replica, std::uint64_t unit) {
        const auto claim = Replica::claim(replica, unit);
        if (!claim) return {Code::kUnavailable, "the unit is claimed"};
        return replica->store(*claim, unit * kUnitBytes, bytes(unit));
    }
    io::Bytes bytes(std::uint64_t unit) const {
        return io::Bytes(content_).subspan(unit * kUnitBytes, std::min(kUnitBytes, kSize - unit * kUnitBytes));
    }

    std::vector<std::byte> content_ = bytes_of(kSize, 3);
    std::shared_ptr<io::FaultPlan> faults_ = std::make_shared<io::FaultPlan>();
    std::unique_ptr<io::Directory> root_ = io::make_memory_directory("/local/forebay-0/cache");
    std::shared_ptr<Counting> account_ = std::make_shared<Counting>();
};

TEST_F(ReplicaTest, the_map_is_counted_and_given_back_when_it_cannot_be_made) {
    {
        const auto replica = open();
        ASSERT_TRUE(replica);
        EXPECT_EQ(account_->taken, Presence::bytes_for(kSize));
    }
    EXPECT_EQ(account_->taken, Presence::bytes_for(kSize)) << "it stays";
    root_ = io::make_memory_directory("/local/forebay-0/cache");
    account_->taken = 0;
    faults_->fail(io::Operation::kAllocate, 1, 1, ENOSPC);
    EXPECT_EQ(open().status().code(), Code::kNoSpace);
    EXPECT_EQ(account_->taken, 0u);
    account_->capacity = 100;
    EXPECT_EQ(open().status().code(), Code::kNoSpace);
}

TEST_F(ReplicaTest, a_full_device_is_no_fault_and_what_is_there_is_read) {
    const auto replica = open().value();
    ASSERT_TRUE(fill(replica, 0));
    const std::uint64_t taken = account_->taken;
    faults_->fail(io::Operation::kWrite, 1, 1, ENOSPC, 1000);
    EXPECT_EQ(fill(replica, 1).code(), Code::kNoSpace);
    EXPECT_EQ(account_->taken, taken);
    EXPECT_FALSE(replica->unusable());
    std::vector<std::byte> into(2 * kUnitBytes);
    EXPECT_EQ(replica->read(0, into), kUnitBytes);
    faults_->fail(io::Operation::kWrite, 1, 1, EIO);
    EXPECT_EQ(fill(replica, 1).code(), Code::kIo);
    EXPECT_TRUE(replica->unusable());
}

TEST_F(ReplicaTest, a_number_that_is_taken_again_frees_what_a_dead_process_had_claimed_by_it) {
    {
        ASSERT_TRUE(open());
    }
    const auto place = root_->open_directory("7-1").value();
    const auto map = place->open_file("presence", io::OpenMode::kReadWrite).value()->map(0, 8192).value();
    auto* const entries = reinterpret_cast<UnitEntry*>(map->bytes().data() + 4096);
    const auto replica = open().value();
    std::uint32_t mine = 0;
    {
        const auto claim = Replica::claim(replica, 1);
        ASSERT_TRUE(claim);
        mine = entries[1].owner;
    }
    // The number that comes next, as if its process had died with the claim; and one that lives.
    const std::uint32_t next = 1 + mine % kOwnersMax;
    ASSERT_TRUE(place->hold("owner-" + std::to_string(next)));
    entries[1].owner = next;
    entries[2].owner = mine;
    const auto other = open().value();
    EXPECT_EQ(entries[1].owner, 0u);
    EXPECT_EQ(entries[2].owner, mine);
    const auto claim = Replica::claim(other, 1);
    ASSERT_TRUE(claim);
    EXPECT_EQ(entries[1].owner, next);
}

TEST_F(ReplicaTest, a_failed_open_leaves_a_good_replica_where_it_is) {
    for (const auto& [operation, error] : {std::pair{io::Operation::kOpen, EMFILE},
                                           {io::Operation::kOpen, ENFILE},
                                           {io::Operation::kOpen, EIO},
                                           {io::Operation::kMap, ENOMEM},
                                           {io::Operation::kSize, EIO}}) {
        {
            const auto replica = open();
            ASSERT_TRUE(replica);
            ASSERT_TRUE(fill(replica.value(), 1));
        }
        const std::uint64_t taken = account_->taken;
        bool failed = true;
        for (std::uint64_t nth = 1; failed; ++nth) {
            faults_->fail(operation, nth, 1, error);
            failed = !open();
            faults_->clear();
            const auto replica = open();
            ASSERT_TRUE(replica);
            std::vector<std::byte> read(kUnitBytes);
            EXPECT_EQ(replica.value()->read(kUnitBytes, read), kUnitBytes) << nth << ", errno " << error;
            EXPECT_EQ(account_->taken, taken) << nth << ", errno " << error;
            ASSERT_LT(nth, 20u);
        }
    }
}

TEST_F(ReplicaTest, without_a_descriptor_for_a_moment_it_is_no_failed_one) {
    const auto replica = open().value();
    ASSERT_TRUE(fill(replica, 0));
    const std::uint64_t taken = account_->taken;
    faults_->fail(io::Operation::kOpen, 1, 100, EMFILE);
    EXPECT_EQ(fill(replica, 1).sys_errno(), EMFILE);
    EXPECT_EQ(account_->taken, taken);
    EXPECT_EQ(replica->evict(*Replica::claim(replica, 0)).status().sys_errno(), EMFILE);
    faults_->clear();
    EXPECT_FALSE(replica->unusable());
    EXPECT_TRUE(fill(replica, 1));
    std::vector<std::byte> read(2 * kUnitBytes);
    EXPECT_EQ(replica->read(0, read), 2 * kUnitBytes);
}

// The number of the inode is used again, as it is on ext4.
TEST_F(ReplicaTest, nothing_is_read_from_or_written_to_another_replica_of_its_name) {
    const auto old = open().value();
    ASSERT_TRUE(fill(old, 0));
    const auto newer = Replica::open(folder(), {{7, 1}, 1, 2, kSize, 30, 40}, {}, 1, account_).value();
    ASSERT_TRUE(old->unusable());
    std::vector<std::byte> read(kUnitBytes);
    EXPECT_EQ(old->read(0, read), 0u);
    EXPECT_FALSE(fill(old, 1));
    EXPECT_FALSE(old->map_bytes());
    EXPECT_EQ(newer->stored_bytes(), 0u);
}

TEST_F(ReplicaTest, a_forked_child_owns_nothing_of_its_parents) {
    const auto replica = open().value();
    const auto claim = Replica::claim(replica, 1);
    ASSERT_TRUE(claim);
    const pid_t child = ::fork();
    if (child == 0) {
        const bool claimed = Replica::claim(replica, 2).has_value();
        {
            const Replica::Claim copy(replica, 1);
        }
        ::_exit(claimed ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(Replica::claim(replica, 1)) << "it is the parent's still";
}

TEST_F(ReplicaTest, a_closed_replica_leaves_no_file_of_its_number) {
    {
        ASSERT_TRUE(open());
    }
    const auto place = root_->open_directory("7-1");
    const auto names = place.value()->list();
    for (const std::string& name : names.value()) EXPECT_FALSE(name.starts_with("owner-")) << name;
}

TEST_F(ReplicaTest, the_account_learns_of_temporal_ones_that_are_closed) {
    {
        ASSERT_TRUE(open({.permanent = false}));
    }
    EXPECT_EQ(account_->temporal, 1);
    {
        ASSERT_TRUE(open());
    }
    EXPECT_EQ(account_->temporal, 1);
}

TEST_F(ReplicaTest, damaged_blocks_and_those_that_differ_from_the_file_are_taken_away) {
    const auto replica = open().value();
    for (std::uint64_t unit = 0; unit < replica->units(); ++unit) ASSERT_TRUE(fill(replica, unit));
    const auto source = io::make_memory_file("/scratch/data.h5");
    ASSERT_TRUE(source->write_at(0, content_));
    const auto verify = [&](std::uint64_t unit, io::File* against) {
        const auto claim = Replica::claim(replica, unit);
        return replica->verify(*claim, against).value();
    };
    EXPECT_EQ(verify(0, source.get()).checked_bytes, kUnitBytes);
    EXPECT_EQ(verify(3, source.get()).checked_bytes, 5000u);
    EXPECT_EQ(replica->stored_bytes(), 3 * kUnitBytes + 2 * kBlockBytes);

    const auto bytes = root_->open_directory("7-1").value()->open_file("replica", io::OpenMode::kReadWrite).value();
    ASSERT_TRUE(bytes->write_at(kUnitBytes + 3 * kBlockBytes + 7, bytes_of(1, 99)));
    ASSERT_TRUE(source->write_at(kUnitBytes + 9 * kBlockBytes, bytes_of(10, 98)));
    const std::uint64_t taken = account_->taken;
    const Replica::Verified found = verify(1, source.get());
    EXPECT_EQ(found.damaged_bytes, kBlockBytes);
    EXPECT_EQ(found.different_bytes, kBlockBytes);
    EXPECT_EQ(account_->taken, taken - 2 * kBlockBytes);
    std::vector<std::byte> into(kUnitBytes);
    EXPECT_EQ(replica->read(kUnitBytes, into), 3 * kBlockBytes);
    EXPECT_EQ(verify(1, source.get()).damaged_bytes, 0u);

    ASSERT_TRUE(source->resize(kUnitBytes / 2));
    EXPECT_EQ(verify(0, source.get()).different_bytes, kUnitBytes / 2) << "the file is shorter";
}

TEST_F(ReplicaTest, one_that_is_there_is_opened_without_counting_as_a_use) {
    EXPECT_EQ(Replica::open_existing(folder(), {}, account_).status().code(), Code::kNotFound);
    {
        ASSERT_TRUE(fill(open().value(), 0));
    }
    {
        const auto replica = Replica::open_existing(folder(), {}, account_);
        ASSERT_TRUE(replica);
        EXPECT_EQ(replica.value()->stored_bytes(), kUnitBytes);
        replica.value()->make_void();
    }
    EXPECT_EQ(Replica::open_existing(folder(), {}, account_).status().code(), Code::kNotFound);
}

TEST_F(ReplicaTest, a_lack_of_memory_or_of_descriptors_is_no_number_that_another_process_has) {
    for (const int error : {ENOMEM, EMFILE, ENFILE}) {
        int holds = 0;
        auto failing = std::make_unique<FailingFolder>(folder(), holds);
        failing->error = error;
        const auto opened = Replica::open(std::move(failing), {{7, 1}, 1, 2, kSize, 3, 4}, {}, 1, account_);
        EXPECT_EQ(opened.status().sys_errno(), error);
        EXPECT_EQ(holds, 1);
    }
    EXPECT_TRUE(open());
}

// Real files, whose mappings fault.
class LostMapTest : public ReplicaTest {
  protected:
    static constexpr std::uint64_t kLarge = 4096 * kUnitBytes;   // the entries of its units fill many pages
    LostMapTest() { EXPECT_NE(path_, ""); }
    ~LostMapTest() override { std::filesystem::remove_all(path_); }

    static Version version(std::uint64_t changed_ns = 4) { return {{7, 1}, 1, 2, kLarge, 3, changed_ns}; }
    std::unique_ptr<FailingFolder> losing(std::optional<std::uint64_t> kept_bytes) {
        auto made = std::make_unique<FailingFolder>(std::move(io::open_posix_directory(path_)).value(), holds_);
        made->kept_bytes = kept_bytes;
        return made;
    }
    Result<std::shared_ptr<Replica>> open(std::optional<std::uint64_t> kept_bytes, const Version& source,
                                          const area::BootId& boot_id = {}) {
        return Replica::open(losing(kept_bytes), source, boot_id, 1, account_);
    }

    const std::string path_ = test::make_scratch_folder();
    int holds_ = 0;
};

TEST_F(LostMapTest, a_map_that_faults_while_it_is_opened_is_an_error) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    const area::BootId rebooted{std::byte{1}};
    const auto make = [&] {
        std::filesystem::remove(path_ + "/" + kPresenceFile);
        EXPECT_TRUE(open(std::nullopt, version()));
    };
    make();
    EXPECT_EQ(open(0, version()).status().code(), Code::kIo) << "its header";
    make();
    EXPECT_EQ(open(kMapHeaderBytes, version(), rebooted).status().code(), Code::kIo) << "the entries of its units";
    make();
    EXPECT_EQ(open(0, version(5)).status().code(), Code::kIo) << "of another version";
    make();
    EXPECT_EQ(Replica::open_existing(losing(0), {}, account_).status().code(), Code::kIo);
    make();
    EXPECT_EQ(Replica::open_existing(losing(kMapHeaderBytes), rebooted, account_).status().code(), Code::kIo);
    make();
    EXPECT_TRUE(open(std::nullopt, version()));
}

TEST_F(LostMapTest, a_map_that_faults_while_it_is_made_is_an_error_and_takes_no_room) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    EXPECT_EQ(open(0, version()).status().code(), Code::kIo);
    EXPECT_EQ(account_->taken, 0u);
    EXPECT_FALSE(std::filesystem::exists(path_ + "/" + kPresenceFile));
    EXPECT_TRUE(open(std::nullopt, version()));
}

}   // namespace
}   // namespace forebay::cache
