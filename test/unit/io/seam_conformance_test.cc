// What every implementation of the seam to the operating system promises: one suite, run by all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <atomic>
#include <chrono>

#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>
#include <thread>

#include "io/fault_file.h"
#include "io/memory_file.h"
#include "io/posix_file.h"

namespace forebay::io {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kPage = 4096;

std::vector<std::byte> bytes_of(std::string_view text) {
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
}

// A directory of one implementation, and whatever has to be removed afterwards.
struct Place {
    std::unique_ptr<Directory> directory;
    std::shared_ptr<void> cleanup;
};

Place posix_place() {
    std::string path = (std::filesystem::temp_directory_path() / "forebay_seam_XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    auto directory = open_posix_directory(path);
    EXPECT_TRUE(directory) << directory.status().message();
    return {std::move(directory).value(),
            std::shared_ptr<void>(nullptr, [path](void*) { std::filesystem::remove_all(path); })};
}

struct Implementation {
    const char* name;
    std::function<Place()> make;
};
std::ostream& operator<<(std::ostream& out, const Implementation& it) { return out << it.name; }

class SeamConformance : public testing::TestWithParam<Implementation> {
  protected:
    SeamConformance() : place_(GetParam().make()) {}

    Directory& directory() { return *place_.directory; }
    std::unique_ptr<File> open(const std::string& name, OpenMode mode) {
        auto file = directory().open_file(name, mode);
        EXPECT_TRUE(file) << file.status().message();
        return std::move(file).value();
    }
    std::unique_ptr<File> create(const std::string& name = "file") { return open(name, OpenMode::kCreateNew); }

    static std::string content(File& file) {
        std::string text(file.size().value(), '?');
        const auto got = file.read_at(0, std::as_writable_bytes(std::span(text)));
        EXPECT_TRUE(got);
        EXPECT_EQ(got.value(), text.size());
        return text;
    }

    Place place_;
};

// ---- files -----------------------------------------------------------------------------------------

TEST_P(SeamConformance, a_new_file_is_empty_and_named_by_its_path) {
    auto file = create("fresh");
    EXPECT_EQ(file->size().value(), 0u);
    EXPECT_EQ(file->name(), directory().name() + "/fresh");
}

TEST_P(SeamConformance, what_was_written_is_read_also_through_another_handle) {
    auto file = create();
    ASSERT_TRUE(file->write_at(3, bytes_of("abcdef")));
    EXPECT_EQ(content(*file), std::string("\0\0\0abcdef", 9));
    auto other = open("file", OpenMode::kRead);
    EXPECT_EQ(content(*other), content(*file));
    ASSERT_TRUE(file->sync());
}

TEST_P(SeamConformance, a_read_ends_where_the_file_ends) {
    auto file = create();
    ASSERT_TRUE(file->write_at(0, bytes_of("0123456789")));
    std::array<std::byte, 8> into{};
    EXPECT_EQ(file->read_at(6, into).value(), 4u);
    EXPECT_EQ(into[3], std::byte{'9'});
    EXPECT_EQ(file->read_at(10, into).value(), 0u);
    EXPECT_EQ(file->read_at(1000000, into).value(), 0u);
    EXPECT_EQ(file->read_at(2, {}).value(), 0u);
}

TEST_P(SeamConformance, a_later_write_wins_where_two_overlap) {
    auto file = create();
    ASSERT_TRUE(file->write_at(0, bytes_of("aaaaaa")));
    ASSERT_TRUE(file->write_at(2, bytes_of("bb")));
    EXPECT_EQ(content(*file), "aabbaa");
}

TEST_P(SeamConformance, writing_nothing_beyond_the_end_does_not_grow_the_file) {
    auto file = create();
    ASSERT_TRUE(file->write_at(0, bytes_of("ab")));
    ASSERT_TRUE(file->write_at(100, {}));
    const std::array<Bytes, 3> nothing{};
    ASSERT_TRUE(file->write_gather_at(100, nothing));
    ASSERT_TRUE(file->write_gather_at(100, {}));
    EXPECT_EQ(file->size().value(), 2u);
}

TEST_P(SeamConformance, gathered_pieces_are_written_one_after_the_other) {
    auto file = create();
    const auto first = bytes_of("first"), second = bytes_of("second");
    const std::array<Bytes, 5> pieces{Bytes{}, first, Bytes{}, second, Bytes{}};
    ASSERT_TRUE(file->write_gather_at(2, pieces));
    EXPECT_EQ(content(*file), std::string("\0\0firstsecond", 13));
}

TEST_P(SeamConformance, more_pieces_than_one_system_call_takes_are_written_all_the_same) {
    for (const std::size_t count : {1023u, 1024u, 1025u, 2048u, 5000u}) {
        SCOPED_TRACE(count);
        auto file = create("many" + std::to_string(count));
        std::vector<std::byte> source(3 * count);
        for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7 + i / 256);
        std::vector<Bytes> pieces;
        std::size_t at = 0;
        // Sizes 0 to 3, so that empty pieces lie at every place, the limit of a call included.
        for (std::size_t i = 0; i < count; ++i) {
            pieces.push_back(Bytes(source).subspan(at, i % 4));
            at += i % 4;
        }
        ASSERT_TRUE(file->write_gather_at(5, pieces));
        ASSERT_EQ(file->size().value(), 5 + at);
        std::vector<std::byte> got(at);
        ASSERT_EQ(file->read_at(5, got).value(), at);
        EXPECT_TRUE(std::equal(got.begin(), got.end(), source.begin()));
    }
}

TEST_P(SeamConformance, more_empty_pieces_than_one_system_call_takes_come_before_and_after_the_bytes) {
    auto file = create();
    const auto text = bytes_of("x");
    std::vector<Bytes> pieces(3000);
    pieces[1500] = text;
    ASSERT_TRUE(file->write_gather_at(0, pieces));
    EXPECT_EQ(content(*file), "x");
}

TEST_P(SeamConformance, a_file_cut_and_grown_again_reads_as_zeros_behind_the_cut) {
    auto file = create();
    ASSERT_TRUE(file->write_at(0, bytes_of("0123456789")));
    ASSERT_TRUE(file->resize(4));
    EXPECT_EQ(content(*file), "0123");
    ASSERT_TRUE(file->resize(8));
    EXPECT_EQ(content(*file), std::string("0123\0\0\0\0", 8));
}

TEST_P(SeamConformance, allocation_grows_the_file_and_changes_no_byte) {
    auto file = create();
    ASSERT_TRUE(file->write_at(0, bytes_of("abc")));
    ASSERT_TRUE(file->allocate(0, 2));
    EXPECT_EQ(content(*file), "abc");
    ASSERT_TRUE(file->allocate(2 * kPage, kPage));
    EXPECT_EQ(file->size().value(), 3 * kPage);
    const std::string grown = content(*file);
    EXPECT_EQ(grown.substr(0, 3), "abc");
    EXPECT_EQ(grown.find_first_not_of('\0', 3), std::string::npos);
}

TEST_P(SeamConformance, a_punched_range_reads_as_zeros_and_the_size_stays) {
    auto file = create();
    ASSERT_TRUE(file->write_at(0, std::vector(3 * kPage, std::byte{'x'})));
    ASSERT_TRUE(file->punch(kPage, kPage));
    EXPECT_EQ(content(*file), std::string(kPage, 'x') + std::string(kPage, '\0') + std::string(kPage, 'x'));
    ASSERT_TRUE(file->punch(2 * kPage + 10, 10 * kPage));
    EXPECT_EQ(content(*file), std::string(kPage, 'x') + std::string(kPage, '\0') + std::string(10, 'x') +
                                  std::string(kPage - 10, '\0'));
    ASSERT_TRUE(file->punch(100 * kPage, kPage));
    EXPECT_EQ(file->size().value(), 3 * kPage);
}

TEST_P(SeamConformance, a_mapping_sees_writes_and_writes_are_seen_through_it) {
    auto file = create();
    ASSERT_TRUE(file->allocate(0, 3 * kPage));
    auto mapped = file->map(kPage, 2 * kPage);
    ASSERT_TRUE(mapped) << mapped.status().message();
    const MutableBytes bytes = mapped.value()->bytes();
    ASSERT_EQ(bytes.size(), 2 * kPage);
    ASSERT_TRUE(file->write_at(kPage + 5, bytes_of("written")));
    EXPECT_EQ(std::memcmp(bytes.data() + 5, "written", 7), 0);
    std::memcpy(bytes.data() + kPage, "stored", 6);
    std::array<std::byte, 6> got{};
    ASSERT_EQ(open("file", OpenMode::kRead)->read_at(2 * kPage, got).value(), 6u);
    EXPECT_EQ(std::memcmp(got.data(), "stored", 6), 0);
}

TEST_P(SeamConformance, a_mapping_outlives_its_file_handle_and_the_growth_of_the_file) {
    auto file = create();
    ASSERT_TRUE(file->allocate(0, kPage));
    auto mapped = file->map(0, kPage);
    ASSERT_TRUE(mapped);
    ASSERT_TRUE(file->allocate(kPage, 64 * kPage));
    file.reset();
    std::memcpy(mapped.value()->bytes().data(), "late", 4);
    EXPECT_EQ(content(*open("file", OpenMode::kRead)).substr(0, 4), "late");
}

TEST_P(SeamConformance, touching_a_mapping_changes_no_byte) {
    auto file = create();
    ASSERT_TRUE(file->allocate(0, 4 * kPage));
    ASSERT_TRUE(file->write_at(kPage, bytes_of("kept")));
    auto mapped = file->map(0, 4 * kPage);
    ASSERT_TRUE(mapped);
    mapped.value()->touch();
    EXPECT_EQ(content(*file).substr(kPage, 4), "kept");
}

TEST_P(SeamConformance, offsets_that_cannot_be_are_refused_and_change_nothing) {
    auto file = create();
    ASSERT_TRUE(file->write_at(0, bytes_of("abc")));
    for (const std::uint64_t offset : {~std::uint64_t{0}, ~std::uint64_t{0} - 1, std::uint64_t{1} << 63}) {
        EXPECT_FALSE(file->write_at(offset, bytes_of("abc")));
        EXPECT_FALSE(file->resize(offset));
        EXPECT_FALSE(file->allocate(offset, 3));
        EXPECT_FALSE(file->allocate(0, offset));
    }
    EXPECT_EQ(content(*file), "abc");
}

TEST_P(SeamConformance, a_file_opened_for_reading_refuses_every_change) {
    ASSERT_TRUE(create()->write_at(0, bytes_of("abc")));
    auto file = open("file", OpenMode::kRead);
    EXPECT_FALSE(file->write_at(0, bytes_of("x")));
    EXPECT_FALSE(file->resize(1));
    EXPECT_FALSE(file->allocate(0, 10));
    EXPECT_FALSE(file->punch(0, 1));
    EXPECT_EQ(file->map(0, 3).status().code(), Code::kPermissionDenied);
    EXPECT_EQ(content(*file), "abc");
}

TEST_P(SeamConformance, concurrent_writes_to_different_ranges_all_arrive) {
    auto file = create();
    {
        std::vector<std::jthread> writers;
        for (unsigned i = 0; i < 4; ++i)
            writers.emplace_back([&, i] {
                for (unsigned k = 0; k < 50; ++k)
                    EXPECT_TRUE(file->write_at(100 * (4 * k + i), std::vector(100, static_cast<std::byte>('a' + i))));
            });
    }
    std::string expected;
    for (unsigned k = 0; k < 200; ++k) expected += std::string(100, static_cast<char>('a' + k % 4));
    EXPECT_EQ(content(*file), expected);
}

// ---- directories -----------------------------------------------------------------------------------

TEST_P(SeamConformance, creating_what_exists_is_refused) {
    create("name");
    ASSERT_TRUE(directory().create_directory("folder"));
    EXPECT_EQ(directory().open_file("name", OpenMode::kCreateNew).status().code(), Code::kAlreadyExists);
    EXPECT_EQ(directory().open_file("folder", OpenMode::kCreateNew).status().code(), Code::kAlreadyExists);
    EXPECT_EQ(directory().create_directory("name").status().code(), Code::kAlreadyExists);
    EXPECT_EQ(directory().create_directory("folder").status().code(), Code::kAlreadyExists);
}

TEST_P(SeamConformance, what_is_missing_is_not_found_and_named_in_the_message) {
    EXPECT_EQ(directory().open_file("none", OpenMode::kRead).status().code(), Code::kNotFound);
    const Status missing = directory().open_file("none", OpenMode::kReadWrite).status();
    EXPECT_EQ(missing.code(), Code::kNotFound);
    EXPECT_THAT(missing.message(), HasSubstr(directory().name() + "/none"));
    EXPECT_EQ(directory().open_directory("none").status().code(), Code::kNotFound);
    EXPECT_EQ(directory().remove_file("none").code(), Code::kNotFound);
    EXPECT_EQ(directory().remove_directory("none").code(), Code::kNotFound);
}

TEST_P(SeamConformance, a_file_is_not_a_directory_and_a_directory_is_not_a_file) {
    create("name");
    ASSERT_TRUE(directory().create_directory("folder"));
    EXPECT_FALSE(directory().open_directory("name"));
    EXPECT_FALSE(directory().open_file("folder", OpenMode::kReadWrite));
    EXPECT_FALSE(directory().remove_directory("name"));
    EXPECT_FALSE(directory().remove_file("folder"));
    EXPECT_THAT(directory().list().value(), ElementsAre("folder", "name"));
}

TEST_P(SeamConformance, names_are_listed_in_order) {
    EXPECT_THAT(directory().list().value(), IsEmpty());
    for (const char* name : {"b", "a10", "c", "a1"}) create(name);
    ASSERT_TRUE(directory().create_directory("ab"));
    ASSERT_TRUE(directory().create_directory(".hidden"));
    EXPECT_THAT(directory().list().value(), ElementsAre(".hidden", "a1", "a10", "ab", "b", "c"));
}

TEST_P(SeamConformance, a_directory_created_is_the_one_opened_later) {
    auto made = directory().create_directory("folder");
    ASSERT_TRUE(made);
    EXPECT_EQ(made.value()->name(), directory().name() + "/folder");
    ASSERT_TRUE(made.value()->open_file("inside", OpenMode::kCreateNew));
    auto opened = directory().open_directory("folder");
    ASSERT_TRUE(opened);
    EXPECT_THAT(opened.value()->list().value(), ElementsAre("inside"));
    EXPECT_TRUE(opened.value()->open_file("inside", OpenMode::kReadWrite));
    EXPECT_FALSE(directory().open_file("inside", OpenMode::kRead));
}

TEST_P(SeamConformance, only_an_empty_directory_is_removed) {
    auto made = directory().create_directory("folder");
    ASSERT_TRUE(made);
    ASSERT_TRUE(made.value()->open_file("inside", OpenMode::kCreateNew));
    EXPECT_FALSE(directory().remove_directory("folder"));
    ASSERT_TRUE(made.value()->remove_file("inside"));
    ASSERT_TRUE(directory().remove_directory("folder"));
    EXPECT_THAT(directory().list().value(), IsEmpty());
}

TEST_P(SeamConformance, a_removed_file_lives_on_for_those_who_have_it_open) {
    auto file = create();
    ASSERT_TRUE(file->write_at(0, bytes_of("still")));
    ASSERT_TRUE(directory().remove_file("file"));
    EXPECT_EQ(content(*file), "still");
    EXPECT_EQ(content(*create()), "");   // the name is free, and begins afresh
}

TEST_P(SeamConformance, what_a_name_stands_for_is_told_with_its_owner) {
    ASSERT_TRUE(directory().create_directory("folder"));
    (void)create();
    EXPECT_EQ(directory().facts("folder").value().kind, Facts::Kind::kDirectory);
    EXPECT_EQ(directory().facts(".").value().kind, Facts::Kind::kDirectory);
    const Facts file = directory().facts("file").value();
    EXPECT_EQ(file.kind, Facts::Kind::kFile);
    EXPECT_EQ(file.owner, ::geteuid());
    EXPECT_EQ(file.mode, 0600u);
    EXPECT_EQ(directory().facts("missing").status().code(), Code::kNotFound);
}

TEST_P(SeamConformance, a_locked_directory_is_locked_for_everybody_until_the_lock_ends) {
    auto made = directory().create_directory("folder");
    ASSERT_TRUE(made);
    auto again = directory().open_directory("folder");
    ASSERT_TRUE(again);
    {
        const auto lock = made.value()->lock(Directory::Patience::kTry);
        ASSERT_TRUE(lock) << lock.status().message();
        for (Directory* const other : {made.value().get(), again.value().get()}) {
            const auto refused = other->lock(Directory::Patience::kTry);
            EXPECT_EQ(refused.status().code(), Code::kUnavailable);
            EXPECT_TRUE(refused.status().retryable());
        }
        EXPECT_TRUE(directory().lock(Directory::Patience::kTry)) << "what is around it is not locked";
    }
    EXPECT_TRUE(again.value()->lock(Directory::Patience::kTry));
}

TEST_P(SeamConformance, a_file_tells_whether_somebody_holds_it) {
    EXPECT_EQ(directory().holder_of("alive").value(), Holder::kUntold);
    {
        const auto held = directory().hold("alive");
        ASSERT_TRUE(held) << held.status().message();
        EXPECT_EQ(directory().holder_of("alive").value(), Holder::kSomebody);
        EXPECT_EQ(directory().hold("alive").status().code(), Code::kUnavailable);
        EXPECT_EQ(directory().keep_free("alive").status().code(), Code::kUnavailable);
    }
    EXPECT_EQ(directory().holder_of("alive").value(), Holder::kNobody);
    EXPECT_THAT(directory().list().value(), ElementsAre("alive"));
    EXPECT_TRUE(directory().hold("alive"));
}

TEST_P(SeamConformance, a_file_that_is_kept_free_can_be_removed_with_its_directory) {
    auto made = directory().create_directory("process");
    ASSERT_TRUE(made);
    {
        const auto kept = made.value()->keep_free("alive"), too = made.value()->keep_free("alive");
        ASSERT_TRUE(kept) << kept.status().message();
        ASSERT_TRUE(too) << too.status().message();
        EXPECT_EQ(made.value()->holder_of("alive").value(), Holder::kUntold);
        ASSERT_TRUE(made.value()->remove_file("alive"));
        ASSERT_TRUE(directory().remove_directory("process"));
    }
    EXPECT_EQ(made.value()->hold("alive").status().code(), Code::kNotFound) << "it is gone";
}

TEST_P(SeamConformance, whoever_waits_for_a_lock_gets_it_when_it_ends) {
    auto first = directory().lock(Directory::Patience::kTry);
    ASSERT_TRUE(first);
    std::atomic<bool> got{false};
    std::jthread waiter([&] { got = directory().lock(Directory::Patience::kWait).is_ok(); });
    EXPECT_FALSE(got) << "it is held";
    first.value().reset();
    waiter.join();
    EXPECT_TRUE(got);
}

TEST_P(SeamConformance, whoever_waits_for_a_lock_with_an_end_to_it_gives_up_then) {
    auto held = directory().lock(Directory::Patience::kTry);
    ASSERT_TRUE(held);
    const auto refused = directory().lock(Directory::Patience{std::chrono::milliseconds(20)});
    EXPECT_EQ(refused.status().code(), Code::kUnavailable);
    EXPECT_TRUE(refused.status().retryable());
    std::jthread waiter([&] { EXPECT_TRUE(directory().lock(Directory::Patience{std::chrono::minutes(1)})); });
    held.value().reset();
    waiter.join();
}

TEST_P(SeamConformance, nothing_is_made_in_a_directory_that_was_removed) {
    auto made = directory().create_directory("folder");
    ASSERT_TRUE(made);
    ASSERT_TRUE(directory().remove_directory("folder"));
    EXPECT_EQ(made.value()->open_file("file", OpenMode::kCreateNew).status().code(), Code::kNotFound);
    EXPECT_EQ(made.value()->create_directory("inner").status().code(), Code::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(
    Implementations, SeamConformance,
    testing::Values(Implementation{"posix", posix_place},
                    Implementation{"memory", [] { return Place{make_memory_directory("/memory"), nullptr}; }},
                    Implementation{"fault_over_memory",
                                   [] {
                                       return Place{make_fault_directory(make_memory_directory("/memory"),
                                                                         std::make_shared<FaultPlan>()),
                                                    nullptr};
                                   }},
                    Implementation{"fault_over_posix",
                                   [] {
                                       Place place = posix_place();
                                       place.directory = make_fault_directory(std::move(place.directory),
                                                                              std::make_shared<FaultPlan>());
                                       return place;
                                   }}),
    [](const auto& implementation) { return std::string(implementation.param.name); });

}   // namespace
}   // namespace forebay::io
