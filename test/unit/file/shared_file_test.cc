// What is collective over a team: opening, truncating, committing, stepping aside, closing, and failing at it.
#include "file/shared_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "ledger/ledger.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::bytes_of;
using test::same;
using test::Scratch;
using test::TeamMember;
using test::ThreadTeam;

// What every member found, by rank.
class Outcomes {
  public:
    explicit Outcomes(std::size_t members) : of_(members) {}
    void set(int rank, const Status& outcome) {
        const std::lock_guard lock(mutex_);
        of_[static_cast<std::size_t>(rank)] = outcome;
    }
    const std::vector<Status>& all() const { return of_; }

  private:
    std::mutex mutex_;
    std::vector<Status> of_;
};

TEST(SharedFile, members_read_each_others_writes_after_a_meeting_and_all_is_in_the_target_after_close) {
    Scratch scratch;
    ThreadTeam::run(4, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        TeamMember member(team, scratch, test::small_options());
        ASSERT_TRUE(member.opened()) << member.opened().message();
        for (std::uint64_t round = 0; round < 5; ++round) {
            const std::uint64_t place = (rank + round) % 4;   // everybody overwrites everybody
            ASSERT_TRUE(member.write(place * 5000, bytes_of(5000, 10 * round + place)));
            ASSERT_TRUE(member.file().meet());
            for (std::uint64_t i = 0; i < 4; ++i)
                ASSERT_TRUE(same(member.read(i * 5000, 5000), bytes_of(5000, 10 * round + i))) << "round " << round;
            ASSERT_TRUE(member.file().meet());
        }
        ASSERT_TRUE(member.close());
        EXPECT_EQ(member.counters().staged, 25000u);
        EXPECT_EQ(member.counters().through, 0u);
    });
    std::vector<std::byte> expected;
    for (std::uint64_t i = 0; i < 4; ++i) {
        const auto bytes = bytes_of(5000, 40 + i);
        expected.insert(expected.end(), bytes.begin(), bytes.end());
    }
    EXPECT_TRUE(same(scratch.contents(), expected));
    EXPECT_TRUE(scratch.left().empty());
}

TEST(SharedFile, a_team_of_one_is_staged) {
    Scratch scratch;
    ThreadTeam::run(1, [&](std::shared_ptr<file::Team> team) {
        TeamMember member(team, scratch, test::small_options());
        ASSERT_TRUE(member.opened());
        ASSERT_TRUE(member.write(0, bytes_of(1000, 1), ByteClass::kMetadata));
        ASSERT_TRUE(member.file().truncate(2000));
        ASSERT_TRUE(member.file().settle());
        ASSERT_TRUE(member.file().commit());
        ASSERT_TRUE(member.close());
        EXPECT_EQ(member.counters().staged, 1000u);
    });
    EXPECT_EQ(scratch.contents().size(), 2000u);
}

TEST(SharedFile, truncating_is_seen_by_all_and_what_was_cut_does_not_come_back) {
    Scratch scratch(bytes_of(50000, 7));
    ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        TeamMember member(team, scratch, test::small_options());
        ASSERT_TRUE(member.opened());
        EXPECT_EQ(member.file().size(), 50000u);
        ASSERT_TRUE(member.file().meet());
        ASSERT_TRUE(member.write(40000 + rank * 10000, bytes_of(10000, rank)));
        ASSERT_TRUE(member.file().truncate(45000));
        EXPECT_EQ(member.file().size(), 45000u);
        ASSERT_TRUE(member.file().truncate(60000));
        EXPECT_EQ(member.file().size(), 60000u);
        test::PlainBytes expected{bytes_of(50000, 7)};
        expected.write(40000, bytes_of(10000, 0));
        expected.content.resize(45000);
        expected.content.resize(60000);
        EXPECT_TRUE(same(member.read(0, 60000), expected.content));
        ASSERT_TRUE(member.close());
    });
    const auto contents = scratch.contents();
    ASSERT_EQ(contents.size(), 60000u);
    EXPECT_TRUE(same({contents.begin() + 45000, contents.end()}, std::vector<std::byte>(15000)));
}

TEST(SharedFile, a_commit_leaves_everything_in_the_file) {
    Scratch scratch;
    ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        TeamMember member(team, scratch, test::small_options());
        ASSERT_TRUE(member.opened());
        ASSERT_TRUE(member.write(rank * 1000, bytes_of(1000, rank), ByteClass::kMetadata));
        ASSERT_TRUE(member.file().commit());
        const auto contents = scratch.contents();
        ASSERT_EQ(contents.size(), 3000u);
        for (std::uint64_t i = 0; i < 3; ++i)
            EXPECT_TRUE(std::equal(contents.begin() + static_cast<std::ptrdiff_t>(i * 1000),
                                   contents.begin() + static_cast<std::ptrdiff_t>(i * 1000 + 1000),
                                   bytes_of(1000, i).begin()));
        ASSERT_TRUE(member.close());
    });
}

TEST(SharedFile, after_stepping_aside_every_member_writes_straight_to_the_target) {
    Scratch scratch;
    ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        TeamMember member(team, scratch, test::small_options());
        ASSERT_TRUE(member.opened());
        ASSERT_TRUE(member.write(rank * 1000, bytes_of(1000, rank)));
        ASSERT_TRUE(member.file().step_aside(ledger::AsideReason::kSwmr));
        EXPECT_EQ(scratch.contents().size(), 3000u);
        ASSERT_TRUE(team->barrier());
        ASSERT_TRUE(member.write(3000 + rank * 1000, bytes_of(1000, 3 + rank)));
        ASSERT_TRUE(member.file().meet());
        EXPECT_EQ(scratch.contents().size(), 6000u);
        for (std::uint64_t i = 0; i < 6; ++i) EXPECT_TRUE(same(member.read(i * 1000, 1000), bytes_of(1000, i)));
        ASSERT_TRUE(member.close());
        EXPECT_EQ(member.counters().staged, 1000u);
        EXPECT_EQ(member.counters().through, 1000u);
    });
    EXPECT_EQ(scratch.contents().size(), 6000u);
    EXPECT_TRUE(scratch.left().empty());
}

// A reader of the process keeps the file's entry in the engine from the shared open to the next one.
TEST(SharedFile, after_stepping_aside_and_the_close_each_process_stages_alone_again_while_a_reader_stays) {
    Scratch scratch;
    ThreadTeam::run(2, [&](std::shared_ptr<file::Team> team) {
        const std::shared_ptr<stage::Engine> engine = stage::Engine::create(test::small_options(), scratch.opener());
        const auto open = [&](bool writable) {
            const int descriptor = ::open(scratch.target().c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
            auto attached = engine->attach({io::adopt_posix_file(descriptor, scratch.target()), writable});
            EXPECT_TRUE(attached) << attached.status().message();
            return attached.value().file;
        };
        const auto reader = open(false);
        for (std::uint64_t round = 0; round < 2; ++round) {
            TeamMember member(team, scratch, engine);
            ASSERT_TRUE(member.opened()) << member.opened().message();
            ASSERT_TRUE(member.write(static_cast<std::uint64_t>(team->rank()) * 1000, bytes_of(1000, round)));
            ASSERT_TRUE(member.file().step_aside(ledger::AsideReason::kSwmr));
            ASSERT_TRUE(member.close());
        }
        if (team->rank() == 0) {
            const auto alone = open(true);
            EXPECT_TRUE(alone->staged());
            EXPECT_FALSE(alone->membership().shared());
            ASSERT_TRUE(alone->write(2000, bytes_of(1000, 2), ByteClass::kRaw));
            ASSERT_TRUE(alone->commit());
            std::vector<std::byte> bytes(1000);
            ASSERT_TRUE(reader->read(2000, bytes));
            EXPECT_TRUE(same(bytes, bytes_of(1000, 2)));
            EXPECT_EQ(scratch.recovered().size(), 3000u);   // as if all had died now
            ASSERT_TRUE(engine->detach(alone, true));
        }
        ASSERT_TRUE(team->barrier());
        ASSERT_TRUE(engine->detach(reader, false));
    });
    EXPECT_EQ(scratch.contents().size(), 3000u);
    EXPECT_TRUE(scratch.left().empty());
}

// What `forebay wait` and `forebay status` go by. Metadata that is not committed stays staged.
TEST(SharedFile, what_is_not_in_the_target_is_counted_or_on_the_board_as_soon_as_it_is_written) {
    Scratch scratch;
    const auto pending = [&] {
        const auto area = std::move(io::open_posix_directory(scratch.area())).value();
        std::uint64_t bytes = 0;
        for (const ledger::ProcessView& process : ledger::scan_ledgers(*area).processes) {
            for (const ledger::SharedFile& shared : process.shared) bytes += shared.unfollowed_bytes;
            for (const ledger::FileCounters& file : process.files) bytes += file.pending;
        }
        return bytes;
    };
    ThreadTeam::run(2, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        TeamMember member(team, scratch, test::small_options());
        ASSERT_TRUE(member.opened()) << member.opened().message();
        for (std::uint64_t round = 0; round < 10; ++round) {
            for (std::uint64_t writer = 0; writer < 2; ++writer) {
                if (writer == rank) {
                    ASSERT_TRUE(member.write((2 * round + rank) * 1000, bytes_of(1000, rank), ByteClass::kMetadata));
                    EXPECT_GE(pending(), 1000 * (writer + 1)) << "round " << round << ", rank " << rank;
                }
                ASSERT_TRUE(team->barrier());
            }
            ASSERT_TRUE(member.file().commit());
            ASSERT_TRUE(team->barrier());
            if (rank == 0) {
                EXPECT_EQ(pending(), 0u) << "round " << round;
            }
            ASSERT_TRUE(team->barrier());
        }
        ASSERT_TRUE(member.close());
    });
}

// ---- failures ----------------------------------------------------------------------------------------

TEST(SharedFile, what_one_member_cannot_open_nobody_opens) {
    Scratch scratch;
    Outcomes outcomes(3);
    ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        std::shared_ptr<stage::Engine> engine = stage::Engine::create(test::small_options(), scratch.opener());
        Result<stage::OpenTarget> opened = Status::from_errno(ENOENT, "open it");
        const int descriptor = ::open(scratch.target().c_str(), O_RDWR | O_CLOEXEC);
        auto file = io::adopt_posix_file(descriptor, scratch.target());
        if (team->rank() != 1) opened = stage::OpenTarget{std::move(file), true};
        outcomes.set(team->rank(), file::SharedFile::open(engine, std::move(opened), team).status());
    });
    for (const Status& outcome : outcomes.all()) EXPECT_EQ(outcome.sys_errno(), ENOENT) << outcome.message();
    EXPECT_THAT(outcomes.all()[0].message(), testing::HasSubstr("rank 1"));
    EXPECT_TRUE(scratch.left().empty());
}

TEST(SharedFile, where_one_member_cannot_stage_all_write_through) {
    Scratch scratch;
    ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        LoadedOptions options = test::small_options();
        options.options.stage = rank != 2;
        TeamMember member(team, scratch, options);
        ASSERT_TRUE(member.opened()) << member.opened().message();
        ASSERT_TRUE(member.write(rank * 1000, bytes_of(1000, rank)));
        ASSERT_TRUE(member.file().meet());
        EXPECT_TRUE(same(member.read((rank + 1) % 3 * 1000, 1000), bytes_of(1000, (rank + 1) % 3)));
        EXPECT_EQ(member.counters().staged, 0u);
        EXPECT_EQ(member.counters().through, 1000u);
        ASSERT_TRUE(member.close());
    });
    EXPECT_EQ(scratch.contents().size(), 3000u);
}

TEST(SharedFile, a_target_that_cannot_be_written_fails_every_members_close_alike_and_the_logs_stay) {
    Scratch scratch;
    Outcomes committed(3), closed(3);
    ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        TeamMember member(team, scratch, test::small_options(), rank == 0 ? O_RDONLY : O_RDWR);
        ASSERT_TRUE(member.opened());
        ASSERT_TRUE(member.write(rank * 50000, bytes_of(50000, rank)));
        committed.set(team->rank(), member.file().commit());
        EXPECT_TRUE(same(member.read(50000, 50000), bytes_of(50000, 1))) << "staged bytes stay readable";
        closed.set(team->rank(), member.close());
    });
    for (const Status& outcome : committed.all()) EXPECT_EQ(outcome.sys_errno(), EBADF) << outcome.message();
    for (const Status& outcome : closed.all()) {
        EXPECT_EQ(outcome.sys_errno(), EBADF) << outcome.message();
        EXPECT_THAT(outcome.message(), testing::HasSubstr("stay in the staging log"));
    }
    EXPECT_EQ(scratch.left().size(), 3u);
    std::vector<std::byte> expected;
    for (std::uint64_t i = 0; i < 3; ++i) {
        const auto bytes = bytes_of(50000, i);
        expected.insert(expected.end(), bytes.begin(), bytes.end());
    }
    EXPECT_TRUE(same(scratch.recovered(), expected)) << "and can be brought home";
}

// Without staging the failure of a write is nobody's but the rank's that made it.
TEST(SharedFile, a_write_that_failed_on_one_rank_fails_the_next_commit_of_all_once_and_the_close) {
    Scratch scratch;
    Outcomes first(3), second(3), closed(3);
    ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        LoadedOptions options = test::small_options();
        options.options.stage = false;
        TeamMember member(team, scratch, options, rank == 1 ? O_RDONLY : O_RDWR);
        ASSERT_TRUE(member.opened()) << member.opened().message();
        const auto write = [&](std::uint64_t offset) {
            EXPECT_EQ(bool(member.write(offset, bytes_of(5000, rank))), rank != 1);
        };
        write(rank * 5000);
        first.set(team->rank(), member.file().commit());
        second.set(team->rank(), member.file().commit());
        write(rank * 5000);
        closed.set(team->rank(), member.close());
    });
    for (const Outcomes* told : {&first, &closed})
        for (const Status& outcome : told->all()) EXPECT_EQ(outcome.sys_errno(), EBADF) << "every rank hears of it";
    for (const Status& outcome : second.all()) EXPECT_TRUE(outcome) << outcome.message();
    std::vector<std::byte> expected(15000);
    for (const std::uint64_t rank : {0, 2}) {
        const auto bytes = bytes_of(5000, rank);
        std::copy(bytes.begin(), bytes.end(), expected.begin() + static_cast<std::ptrdiff_t>(rank * 5000));
    }
    EXPECT_TRUE(same(scratch.contents(), expected)) << "what was written is in the file";
    EXPECT_TRUE(scratch.left().empty()) << "nothing is left to be recovered";
}

// A later collective write does not show that the earlier one was repeated, whether it succeeds or fails.
TEST(SharedFile, a_collective_write_forgets_no_earlier_failure_of_one_rank) {
    for (const bool later_fails : {false, true}) {
        SCOPED_TRACE(later_fails ? "the later write fails" : "the later write succeeds");
        Scratch scratch;
        Outcomes together(3), first(3), second(3), alone(3), third(3), closed(3);
        ThreadTeam::run(3, [&](const std::shared_ptr<file::Team>& team) {
            const int rank = team->rank();
            TeamMember member(team, scratch, test::small_options());
            ASSERT_TRUE(member.opened()) << member.opened().message();
            const auto write = [&](bool fails) {
                return member.file().write_collectively([&]() -> Status {
                    const auto place = static_cast<std::uint64_t>(rank) * 5000;
                    const auto bytes = bytes_of(5000, static_cast<std::uint64_t>(rank));
                    const stage::StagedFile::Part part{place, bytes};
                    FOREBAY_TRY(member.file().write_together({&part, 1}, ByteClass::kRaw));
                    if (!fails || rank != 2) return Status::ok();
                    const Status why(Code::kUnavailable, "no memory", ENOMEM);
                    member.file().defer_error(why, ByteClass::kRaw);   // as `write_together` does
                    return why;
                });
            };
            if (rank == 1) member.file().defer_error(Status(Code::kIo, "a device failed", EIO), ByteClass::kRaw);
            together.set(rank, write(later_fails));
            first.set(rank, member.file().commit());
            second.set(rank, member.file().commit());
            alone.set(rank, write(true));
            third.set(rank, member.file().commit());
            closed.set(rank, member.close());
        });
        for (const Status& outcome : together.all()) EXPECT_EQ(outcome.sys_errno(), later_fails ? ENOMEM : 0);
        for (const Status& outcome : first.all()) EXPECT_EQ(outcome.sys_errno(), EIO) << "the earlier failure";
        for (const Status& outcome : second.all()) EXPECT_TRUE(outcome) << "told once: " << outcome.message();
        for (const Status& outcome : alone.all()) EXPECT_EQ(outcome.sys_errno(), ENOMEM);
        for (const Status& outcome : third.all()) EXPECT_TRUE(outcome) << "all knew it: " << outcome.message();
        for (const Status& outcome : closed.all()) EXPECT_TRUE(outcome) << outcome.message();
    }
}

// HDF5 takes such metadata for written.
TEST(SharedFile, metadata_that_one_rank_could_not_write_are_never_committed_and_fail_every_commit_and_the_close) {
    Scratch scratch;
    Outcomes first(2), second(2), closed(2);
    ThreadTeam::run(2, [&](const std::shared_ptr<file::Team>& team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        TeamMember member(team, scratch, test::small_options());
        ASSERT_TRUE(member.opened()) << member.opened().message();
        const auto commits = [&] { return member.file().staged().counters().commits; };
        ASSERT_TRUE(member.write(rank * 5000, bytes_of(5000, rank)));
        ASSERT_TRUE(member.file().commit());
        const std::uint64_t made = commits();
        EXPECT_EQ(made > 0, rank == 0) << "who drains commits";
        ASSERT_TRUE(member.write(rank * 5000, bytes_of(5000, rank + 2)));
        if (rank == 1)
            member.file().defer_error(Status(Code::kUnavailable, "no memory", ENOMEM), stage::ByteClass::kMetadata);
        first.set(team->rank(), member.file().commit());
        second.set(team->rank(), member.file().commit());
        EXPECT_EQ(commits(), made);
        closed.set(team->rank(), member.close());
    });
    for (const Outcomes* told : {&first, &second, &closed})
        for (const Status& outcome : told->all()) EXPECT_EQ(outcome.sys_errno(), ENOMEM) << outcome.message();
    EXPECT_THAT(closed.all().front().message(), testing::HasSubstr("stays in the staging log"));
    EXPECT_EQ(scratch.left().size(), 2u);
    std::vector<std::byte> expected = bytes_of(5000, 0);
    const auto second_half = bytes_of(5000, 1);
    expected.insert(expected.end(), second_half.begin(), second_half.end());
    EXPECT_TRUE(same(scratch.recovered(), expected)) << "the last commit";
}

TEST(SharedFile, whoever_waits_for_room_hears_that_the_target_cannot_be_written) {
    Scratch scratch;
    Outcomes written(2), closed(2);
    ThreadTeam::run(2, [&](std::shared_ptr<file::Team> team) {
        TeamMember member(team, scratch, test::tiny_options(), team->rank() == 0 ? O_RDONLY : O_RDWR);
        ASSERT_TRUE(member.opened());
        Status outcome;
        if (team->rank() == 1)
            for (std::uint64_t i = 0; i < 100 && outcome; ++i) outcome = member.write(i * 3000, bytes_of(3000, i));
        written.set(team->rank(), outcome);
        closed.set(team->rank(), member.close());
    });
    EXPECT_EQ(written.all()[1].sys_errno(), EBADF) << written.all()[1].message();
    for (const Status& outcome : closed.all()) EXPECT_EQ(outcome.sys_errno(), EBADF) << outcome.message();
    EXPECT_EQ(scratch.left().size(), 2u);
}

TEST(SharedFile, a_file_is_written_by_one_team_at_a_time) {
    Scratch scratch;
    ThreadTeam::run(2, [&](std::shared_ptr<file::Team> team) {
        std::shared_ptr<stage::Engine> engine = stage::Engine::create(test::small_options(), scratch.opener());
        const auto open = [&] {
            const int descriptor = ::open(scratch.target().c_str(), O_RDWR | O_CLOEXEC);
            stage::OpenTarget target{io::adopt_posix_file(descriptor, scratch.target()), true};
            return file::SharedFile::open(engine, std::move(target), team);
        };
        auto first = open();
        ASSERT_TRUE(first);
        const auto second = open();
        EXPECT_EQ(second.status().code(), Code::kUnsupported);
        const auto bytes = bytes_of(1000, 1);
        const stage::StagedFile::Part part{static_cast<std::uint64_t>(team->rank()) * 1000, bytes};
        ASSERT_TRUE(first.value().file->write({&part, 1}, ByteClass::kRaw));
        EXPECT_TRUE(first.value().file->close());
    });
    EXPECT_EQ(scratch.contents().size(), 2000u);
    EXPECT_TRUE(scratch.left().empty());
}

// ---- several nodes -----------------------------------------------------------------------------------

TEST(SharedFile, a_read_waits_for_what_another_node_has_not_drained) {
    Scratch scratch;
    ThreadTeam::run(4, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        LoadedOptions options = test::small_options();
        options.options.node = rank < 2 ? "one" : "other";
        TeamMember member(team, scratch, options);
        ASSERT_TRUE(member.opened()) << member.opened().message();
        for (std::uint64_t round = 0; round < 5; ++round) {
            const std::uint64_t place = (rank + round) % 4;
            ASSERT_TRUE(member.file().settle());   // the bytes of another node's last round may be overwritten now
            ASSERT_TRUE(member.write(place * 5000, bytes_of(5000, 10 * round + place)));
            ASSERT_TRUE(member.write(30000 + rank * 100, bytes_of(100, 10 * round + rank), ByteClass::kMetadata));
            ASSERT_TRUE(member.file().meet());
            for (std::uint64_t i = 0; i < 4; ++i) {
                ASSERT_TRUE(same(member.read(i * 5000, 5000), bytes_of(5000, 10 * round + i))) << "round " << round;
                ASSERT_TRUE(same(member.read(30000 + i * 100, 100), bytes_of(100, 10 * round + i)))
                    << "round " << round;
            }
            ASSERT_TRUE(member.file().meet());
        }
        ASSERT_TRUE(member.file().truncate(30300));
        EXPECT_EQ(member.file().size(), 30300u);
        ASSERT_TRUE(member.close());
        EXPECT_EQ(member.counters().staged, 25000u);
    });
    EXPECT_EQ(scratch.contents().size(), 30300u);
    EXPECT_TRUE(scratch.left().empty());
}

// The staging device has no room left for what the member asks of it when it opens a file: segments, and the board.
std::shared_ptr<stage::Engine> engine_without_room(const Scratch& scratch, LoadedOptions options) {
    auto plan = std::make_shared<io::FaultPlan>();
    std::shared_ptr<stage::Engine> engine = stage::Engine::create(
        std::move(options), [open = scratch.opener(), plan]() -> Result<std::unique_ptr<io::Directory>> {
            auto area = open();
            if (!area) return area;
            return io::make_fault_directory(std::move(area).value(), plan);
        });
    EXPECT_TRUE(!engine->area().obstacle());
    plan->fail(io::Operation::kAllocate, 1, UINT64_MAX / 2, ENOSPC);
    return engine;
}

class WithoutRoom : public testing::TestWithParam<int> {};

TEST_P(WithoutRoom, one_member_keeps_all_from_staging_and_none_from_writing) {
    Scratch scratch;
    std::mutex mutex;
    int warnings = 0;
    ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const int rank = team->rank();
        const bool lacks = rank == GetParam();
        TeamMember member(team, scratch,
                          lacks ? engine_without_room(scratch, test::small_options())
                                : std::shared_ptr<stage::Engine>(stage::Engine::create(test::small_options(),
                                                                                       scratch.opener())));
        ASSERT_TRUE(member.opened()) << member.opened().message();
        {
            const std::lock_guard lock(mutex);
            warnings += member.warning().empty() ? 0 : 1;
            EXPECT_EQ(member.warning().empty(), !lacks);
        }
        const auto place = static_cast<std::uint64_t>(rank);
        ASSERT_TRUE(member.write(place * 1000, bytes_of(1000, place)));
        ASSERT_TRUE(member.file().meet());
        EXPECT_TRUE(same(member.read((place + 1) % 3 * 1000, 1000), bytes_of(1000, (place + 1) % 3)));
        ASSERT_TRUE(member.file().truncate(5000));
        ASSERT_TRUE(member.file().commit());
        ASSERT_TRUE(member.file().settle());
        ASSERT_TRUE(member.close());
        EXPECT_EQ(member.counters().staged, 0u);
        EXPECT_EQ(member.counters().through, 1000u);
        EXPECT_EQ(member.counters().aside,
                  std::uint64_t{1} << static_cast<unsigned>(ledger::AsideReason::kStagingArea));
    });
    EXPECT_EQ(warnings, 1);
    EXPECT_EQ(scratch.contents().size(), 5000u);
    EXPECT_TRUE(scratch.left().empty()) << "something was left on the staging area";
}

TEST_P(WithoutRoom, is_an_error_on_all_members_if_that_one_is_strict) {
    Scratch scratch;
    Outcomes outcomes(3);
    ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const int rank = team->rank();
        LoadedOptions options = test::small_options();
        options.options.strict = rank == GetParam();
        TeamMember member(team, scratch,
                          options.options.strict
                              ? engine_without_room(scratch, options)
                              : std::shared_ptr<stage::Engine>(stage::Engine::create(options, scratch.opener())));
        outcomes.set(rank, member.opened());
    });
    for (const Status& outcome : outcomes.all()) EXPECT_EQ(outcome.sys_errno(), ENOSPC) << outcome.message();
    EXPECT_TRUE(scratch.left().empty());
}

INSTANTIATE_TEST_SUITE_P(SharedFile, WithoutRoom, testing::Values(0, 1, 2));

// The one that drains has a segment, but no room for the board.
TEST(SharedFile, without_room_for_the_board_nobody_stages) {
    for (const bool strict : {false, true}) {
        Scratch scratch;
        Outcomes outcomes(2);
        ThreadTeam::run(2, [&](std::shared_ptr<file::Team> team) {
            LoadedOptions options = test::small_options();
            options.options.strict = strict;
            auto plan = std::make_shared<io::FaultPlan>();
            std::shared_ptr<stage::Engine> engine = stage::Engine::create(
                options, [&scratch, plan]() -> Result<std::unique_ptr<io::Directory>> {
                    return io::make_fault_directory(std::move(scratch.opener()()).value(), plan);
                });
            ASSERT_TRUE(!engine->area().obstacle());
            if (team->rank() == 0) plan->fail(io::Operation::kAllocate, 2, 1, ENOSPC);
            TeamMember member(team, scratch, engine);
            outcomes.set(team->rank(), member.opened());
            if (strict) return;
            EXPECT_EQ(plan->fired(), team->rank() == 0 ? 1u : 0u);
            EXPECT_EQ(member.warning().empty(), team->rank() != 0);
            ASSERT_TRUE(member.write(static_cast<std::uint64_t>(team->rank()) * 100, bytes_of(100, 1)));
            ASSERT_TRUE(member.file().commit());
            ASSERT_TRUE(member.close());
            EXPECT_EQ(member.counters().staged, 0u);
        });
        for (const Status& outcome : outcomes.all()) EXPECT_EQ(outcome.is_ok(), !strict) << outcome.message();
        EXPECT_TRUE(scratch.left().empty());
        EXPECT_EQ(scratch.contents().size(), strict ? 0u : 200u);
    }
}

}   // namespace
}   // namespace forebay
